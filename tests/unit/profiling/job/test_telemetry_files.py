"""Telemetry of a job on disk: what is taken for it, what is wrong with it, and what jobs that ran have left."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.cli.app import execute
from rechannel.errors import TraceError
from rechannel.job import InProcess, Job
from rechannel.profiling.job.telemetry_files import job_files, read_job
from rechannel.profiling.model.analysis import ProfileOptions
from rechannel.profiling.reading import analyse_file
from rechannel.telemetry.events import event_to_json
from rechannel.testing import script
from tests.unit.profiling.jobs import MS, START, by_worker, small


def write(directory, events, *, before=0, lines=None):
    """A state directory with telemetry."""
    place = directory / "telemetry"
    place.mkdir(parents=True, exist_ok=True)
    head = json.dumps({"format": 1, "file": "rechannel telemetry", "first": before})
    body = lines or [json.dumps(event_to_json(event)) for event in events]
    file = place / f"{before:020d}.jsonl"
    file.write_text("\n".join([head, *body, ""]))
    return directory


def test_what_is_taken_for_telemetry(tmp_path):
    state = write(tmp_path / "state", small()[:5])
    write(tmp_path / "state", small()[5:], before=5)
    telemetry = state / "telemetry"
    whole = analyse_file(state, ProfileOptions(window=0.15))
    assert whole.title == "j, Rechannel 9"
    assert whole.findings[0].cause == "straggler"
    assert whole.findings[0].text.startswith("counts task 1 works ")
    same = analyse_file(telemetry, ProfileOptions(window=0.15))
    assert by_worker(same.pieces.source) == pytest.approx(by_worker(whole.pieces.source))
    first, second = (read_job(job_files(telemetry / f"{n:020d}.jsonl")).log for n in (0, 5))
    assert (list(first.slots), len(first.steps)) == ([("rows", 0), ("rows", 1)], 0)
    assert (list(second.slots), len(second.tasks)) == ([("counts", 0), ("counts", 1)], 2)


def test_what_is_not(tmp_path):
    rolled = tmp_path / "eventlog_v2_app-1"
    rolled.mkdir()
    (rolled / "events_1_app-1").write_text("nonsense\n" * 30)
    assert job_files(rolled) is None
    with pytest.raises(TraceError, match="is not a Spark event log"):
        analyse_file(rolled)
    row = {"worker": "w", "activity": "a", "start": 0, "end": 10}
    neutral = tmp_path / f"{7:020d}.jsonl"
    neutral.write_text(json.dumps(row) + "\n")
    assert job_files(neutral) is None
    assert list(analyse_file(neutral).profile.names.workers) == ["w"]
    assert job_files(tmp_path / "nothing") is None
    silent = tmp_path / "silent"
    silent.mkdir()
    (silent / "dataflow.json").write_text("{}")
    with pytest.raises(TraceError, match="has no telemetry: the job ran with"):
        analyse_file(silent)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("nonsense", "line 5 of .* is not an event"),
        ('{"event":"task_finished","timestep":1}', "line 5 of .* is not an event"),
        (
            '{"event":"job_stopped","job":"j","at_ms":-1}',
            "event 3 of .*: -1 is not the time of an event",
        ),
        ('{"event":"timestep_committed","timestep":1,"at_ms":1,"duration_ms":"x"}', "line 5 of"),
        ('{"event":"timestep_committed","timestep":0.5,"at_ms":1,"duration_ms":1}', "line 5 of"),
    ],
)
def test_bad_lines_are_named_and_skipped_or_refused(tmp_path, bad, words):
    lines = [json.dumps(event_to_json(event)) for event in small()]
    state = write(tmp_path, [], lines=[*lines[:3], bad, *lines[3:]])
    found = analyse_file(state, ProfileOptions(window=0.15))
    assert len(found.notes) == 1
    assert found.findings[0].cause == "straggler"
    with pytest.raises(TraceError, match=words) as refused:
        analyse_file(state, strict=True)
    assert found.notes[0].removeprefix("skipped: ") in str(refused.value)
    many = write(tmp_path, [], lines=[*lines[:3], *[bad] * 9, *lines[3:]])
    assert analyse_file(many, ProfileOptions(window=0.15)).notes[5:] == [
        "4 more lines were skipped"
    ]


def test_half_a_last_line_is_no_fault(tmp_path):
    state = write(tmp_path, small())
    file = state / "telemetry" / f"{0:020d}.jsonl"
    file.write_bytes(file.read_bytes()[:-9])
    assert analyse_file(state, strict=True).notes == []
    file.write_bytes(b"nonsense\n")
    with pytest.raises(TraceError, match="does not begin with a telemetry header"):
        analyse_file(state)


def test_the_command(tmp_path, capsys):
    state = write(tmp_path, small())
    assert execute(["profile", str(state), "--window", "0.15", "--top", "99", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["title"] == "j, Rechannel 9"
    assert body["workers"][0]["worker"] == "counts task 1"
    assert sum(row["critical"] for row in body["activities"]) == pytest.approx(1)
    assert execute(["profile", str(state), "--window", "0.15"]) == 0
    assert "counts task 1 works " in capsys.readouterr().out


# Jobs that ran -----------------------------------------------------------------------------------------------


class Hour:
    """A clock that goes on only while the user's function has rows: a millisecond for each."""

    def __init__(self, patch):
        self.ms, self.fails = float(START), False
        clock = SimpleNamespace(
            time=lambda: self.ms / 1e3,
            perf_counter=lambda: self.ms / 1e3,
            process_time=lambda: 0.0,
        )
        patch.setattr("rechannel.kernels.tasks.measure.time", clock)
        patch.setattr("rechannel.engine.publish.publisher.time", clock)

    def total(self, key, state, rows):
        if self.fails:
            raise RuntimeError("as it should")
        self.ms += len(rows["n"])
        return (state or 0) + sum(rows["n"])

    def job(self, directory, rows):
        stream = rc.read().memory(rows, name="flights")
        totals = stream.key_by("carrier").track(
            self.total, state="total BIGINT", name="totals per carrier", tasks=2
        )
        return Job("flights", [totals.write.memory("out")], state=directory).start(
            in_process=InProcess(), clock=lambda: self.ms
        )


def hot(rows, job):
    """Four fifths of the rows have one key."""
    names = ["UA" if n % 5 else "AA" for n in range(100)]
    rows.push(pa.record_batch({"carrier": names, "n": pa.array(range(100), pa.int64())}))
    job.process_all_available()


def test_a_job_with_a_hot_key(tmp_path, monkeypatch):
    hour, rows = Hour(monkeypatch), script("carrier STRING, n BIGINT")
    job = hour.job(tmp_path, rows)
    for _ in range(5):
        hot(rows, job)
    job.stop()
    found = analyse_file(tmp_path, ProfileOptions(window=0.1), strict=True)
    assert found.notes == []
    assert "totals per carrier" in found.profile.names.operators
    workers = by_worker(found.pieces.source, window=10**8)
    (hottest, most), (colder, less) = sorted(workers.items(), key=lambda pair: -pair[1])[:2]
    # One task after the other, as it is in process: both are on the path, with what they did.
    assert (most, less) == pytest.approx((0.8, 0.2))
    assert {hottest, colder} == {"totals per carrier task 0", "totals per carrier task 1"}
    assert found.findings[0].cause == "straggler"
    assert found.findings[0].place.worker == hottest
    assert found.findings[0].share == pytest.approx(0.8)


def test_a_job_that_fails_goes_on_and_is_changed(tmp_path, monkeypatch):
    hour, rows = Hour(monkeypatch), script("carrier STRING, n BIGINT")
    job = hour.job(tmp_path, rows)
    hot(rows, job)
    hour.fails = True
    with pytest.raises(rc.RechannelError):
        hot(rows, job)
    with pytest.raises(rc.RechannelError):
        job.stop()
    hour.fails = False
    hour.ms += 1000
    job = hour.job(tmp_path, rows)
    job.process_all_available()
    change = job.reconfigure(rc.changes.rescale("totals per carrier", tasks=4))
    for _ in range(3):
        hot(rows, job)
    assert change.wait(60)
    job.stop()
    files = job_files(tmp_path)
    log = read_job(files, strict=True).log
    assert log.numbers.tolist() == [1, 2, 3, 4, 5]
    assert log.backlog == rc.Settings().publish_backlog
    assert len(log.drivers) == 2
    steps = analyse_file(tmp_path, ProfileOptions(window=None), strict=True).profile.windows
    assert steps["batch"].to_list() == [1, 2, 3, 4, 5]
    found = analyse_file(tmp_path, ProfileOptions(window=0.1), strict=True)
    slots = {name for name in found.profile.names.workers if name.startswith("totals")}
    assert slots == {f"totals per carrier task {i}" for i in range(4)}
    kinds = found.profile.by_activity()
    assert kinds["critical"].sum() == pytest.approx(1)
    assert kinds["kind"][0] == "unknown"
    assert dict(kinds.select("kind", "ns").iter_rows())["process"] == 500 * MS
