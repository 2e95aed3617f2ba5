"""Every real log has a stated answer, through the function that users call."""

import contextlib
import json
from pathlib import Path

import pytest

import rechannel as rc
from rechannel.errors import RefusedError, TraceError
from rechannel.profiling.spark.event_files import log_lines
from rechannel.scaling.files.spark.advice import LogAdvice
from rechannel.scaling.files.spark.words import as_record, sentences
from tests.property.log_mutations import mutated

PROFILING = Path(__file__).parents[3] / "profiling"
LOGS = [
    *sorted((PROFILING / "labelled" / "logs").iterdir()),
    *sorted((PROFILING / "labelled" / "held_out" / "logs").iterdir()),
    *sorted((PROFILING / "spark_logs").iterdir()),
]


def test_there_are_many():
    assert len(LOGS) >= 90


@pytest.mark.parametrize("log", [pytest.param(each, id=each.name) for each in LOGS])
def test_a_real_log_has_an_answer(log):
    made = rc.scaling_advice(log)
    assert isinstance(made, LogAdvice)
    assert bool(made.queries) + bool(made.jobs) + bool(made.notes) >= 1
    for query in made.queries:
        assert query.now.cores >= 1
        assert query.now.low_ms <= query.now.batch_ms <= query.now.high_ms
        assert query.advised.low_ms <= query.advised.batch_ms <= query.advised.high_ms
        # The model explains what was measured, at the rows that were measured.
        assert 0.4 < query.now.batch_ms / query.measured_ms < 2.5
        assert all(each.fixed_ms >= 0 and each.row_ms >= 0 for each in query.stages)
        assert query.advised.cores <= query.now.cores or query.now.used > query.utilisation
    if made.jobs is not None:
        jobs = made.jobs
        assert jobs.advised.seconds <= 1.05 * jobs.least_seconds
        assert jobs.least_seconds <= jobs.now.seconds * 1.001
        fewer = [each.seconds for each in jobs.others if each.cores < jobs.advised.cores]
        assert all(seconds > 1.05 * jobs.least_seconds for seconds in fewer)
    assert all(each.endswith(".") for each in sentences(made))
    assert as_record(made)["title"] == made.title


@pytest.fixture(scope="module")
def lines():
    return list(log_lines(PROFILING / "labelled" / "logs" / "stream-of-small-batches.zstd"))


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.99])
def test_a_log_that_breaks_off_has_an_answer(share, lines, tmp_path):
    place = tmp_path / "log.inprogress"
    place.write_bytes(b"".join(lines)[: int(share * sum(map(len, lines)))])
    made = rc.scaling_advice(place)
    assert isinstance(made, LogAdvice)
    assert made.queries or made.notes


def test_a_log_without_tasks_says_so(lines, tmp_path):
    place = tmp_path / "log"
    place.write_bytes(b"".join(lines[:2]))
    made = rc.scaling_advice(place)
    assert isinstance(made, LogAdvice)
    assert made.queries == ()
    assert made.jobs is None
    assert made.notes == ("the log has no tasks: there is nothing from which advice could follow",)


def test_what_is_no_log_is_refused(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "other").write_text("a,b\n1,2\n")
    for name in ("empty", "other"):
        with pytest.raises(RefusedError, match=r"is not one of these: .* an event log of Spark"):
            rc.scaling_advice(tmp_path / name)
    with pytest.raises((RefusedError, TraceError)):
        rc.scaling_advice(tmp_path)


@pytest.mark.parametrize("seed", range(40))
def test_a_broken_log_has_an_answer_or_is_refused(seed, tmp_path):
    with contextlib.suppress(RefusedError, TraceError):
        made = rc.scaling_advice(mutated(seed, tmp_path))
        json.dumps(as_record(made), allow_nan=False)


def test_what_is_wrong_with_a_log_is_a_note(lines, tmp_path):
    place = tmp_path / "log"
    place.write_bytes(b"".join([*lines[:-2], b'{"Event":"SparkListenerJobStart"}\n']))
    (note,) = [each for each in rc.scaling_advice(place).notes if "was skipped" in each]
    assert note.startswith(f"line {len(lines) - 1} was skipped: ")
