"""Findings about streams, on applications made of values. Each has a twin that is healthy."""

from dataclasses import replace

import pytest

from rechannel.profiling.diagnosis.case import Case
from rechannel.profiling.diagnosis.driver import on_driver
from rechannel.profiling.diagnosis.driver_time import DriverTime
from rechannel.profiling.diagnosis.streams import arriving
from rechannel.profiling.spark.driver import LISTING
from tests.unit.profiling.diagnosis.batches import BATCHES, growing, hot, stream
from tests.unit.profiling.diagnosis.made import (
    START,
    application,
    batch,
    executor,
    found,
    job,
    task,
)


def test_a_stream_that_does_nothing_but_its_work():
    assert found(on_driver, stream()) == {}


def test_a_stream_that_waits_for_its_trigger_is_no_fault():
    finding = found(on_driver, stream(work=200, every=5_000))
    assert list(finding) == ["idle"]
    assert finding["idle"].gain is None


def test_batches_that_are_too_small():
    finding = found(on_driver, stream(work=300, before=500, after=200))["small-batches"]
    # Seven batches, the first of all left out, and nine tenths of 700 ms in each.
    assert finding.seconds == pytest.approx(7 * 0.63)
    assert (
        "7 batches of 100 rows take 1 s each, and in 70 % of that time no task runs" in finding.text
    )
    assert "maxFilesPerTrigger" in finding.advice


def test_a_sink_that_is_slow():
    finding = found(on_driver, stream(after=2_550))
    assert list(finding) == ["slow-sink"]
    assert finding["slow-sink"].seconds == pytest.approx(7 * 2.2)
    assert "spends 2.5 s in it" in finding["slow-sink"].text


def test_a_source_that_lists_for_long():
    finding = found(on_driver, stream(before=2_500, phases=lambda _: {"latestOffset": 2_300}))
    assert list(finding) == ["file-listing"]
    assert finding["file-listing"].seconds == pytest.approx(7 * 2)


def test_a_source_that_lists_with_jobs_is_named_once():
    app = stream(before=2_500, phases=lambda _: {"latestOffset": 2_300})
    numbers = range(BATCHES, 2 * BATCHES)
    lists = [
        job(
            number,
            each.start - START + 60,
            each.start - START + 2_200,
            description="Listing leaf files and directories for 99 paths",
        )
        for number, each in zip(numbers, app.batches, strict=True)
    ]
    app = replace(app, jobs={**app.jobs, **{each.number: each for each in lists}})
    case = Case(app=app)
    assert sum(span.kind == LISTING and span.batch is not None for span in case.spans) == BATCHES
    finding = found(on_driver, app)
    assert list(finding) == ["file-listing"]
    assert finding["file-listing"].seconds == pytest.approx(7 * 2)


def returning(number):
    """Four tasks whose results take 3 s to arrive."""
    return [
        task(number, i, 0, 3_500, "driver", rows=100, run=480, getting=500, result=20 << 20)
        for i in range(4)
    ]


def test_results_that_a_batch_brings_to_the_driver_are_the_sinks():
    app = stream(tasks=returning)
    assert set(DriverTime.of(Case(app=app)).results.values()) == {80 << 20}
    finding = found(on_driver, app)
    assert list(finding) == ["slow-sink"]
    # 3 s of results and 150 ms of a commit, of which 300 ms are usual.
    assert finding["slow-sink"].seconds == pytest.approx(7 * 2.85, rel=0.01)


def test_broadcasts_of_batches_are_not_counted_for_the_application_too():
    app = stream(tasks=returning, broadcast=True)
    assert list(found(on_driver, app)) == ["small-batches"]


def test_a_hot_key():
    finding = found(on_driver, stream(tasks=hot))
    assert list(finding) == ["stream-skew"]
    assert finding["stream-skew"].seconds == pytest.approx(8 * 2.25)
    assert (
        "wait for one, which reads 7.0 times as many rows as the median task"
        in finding["stream-skew"].text
    )


def test_a_hot_key_in_a_stream_whose_executors_are_removed_at_the_end():
    app = stream(tasks=hot)
    gone = replace(app.executors["driver"], removed=app.end)
    finding = found(on_driver, replace(app, executors={"driver": gone}))["stream-skew"]
    assert finding.seconds == pytest.approx(8 * 2.25)


def test_a_slow_task_with_as_many_rows_as_the_others_is_no_skew():
    slow = found(
        on_driver,
        stream(tasks=lambda n: [{**each, "rows": 1_000} for each in hot(n)]),
    )
    assert slow == {}


def test_commits_of_state_that_take_long():
    finding = found(on_driver, stream(state_commit_ms=lambda _: 10_500, state_rows=lambda _: 1_000))
    assert list(finding) == ["slow-state-store"]
    assert finding["slow-state-store"].seconds == pytest.approx(8 * 3.5 * 0.75)
    assert "changelogCheckpointing" in finding["slow-state-store"].advice
    assert (
        "the tasks of a batch together spend 10.5 s on committing state, 75 % of their time, which is"
        " 66 % of the time of batches" in finding["slow-state-store"].text
    )
    assert found(on_driver, stream(state_commit_ms=lambda _: 2_000)) == {}


def test_state_that_only_grows():
    app = stream(
        work=4_500, tasks=growing, state_rows=lambda n: 1_000 * (n + 1), watermark=lambda _: 5
    )
    finding = found(on_driver, app)["watermark"]
    assert "from 2,000 to 8,000 rows" in finding.text
    assert (
        "because the watermark removes nothing. This does not slow batches down yet" in finding.text
    )
    assert (finding.certainty, finding.gain) == ("possible", None)


def test_state_that_makes_batches_longer():
    things, at = [executor("driver", 0)], 1_000
    for number in range(BATCHES):
        lasts = 1_000 + 500 * number
        things.append(batch(number, at, at + lasts, state_rows=1_000 * (number + 1)))
        at += lasts
    tasks = [task(0, 0, 1_000, at, "driver")]
    finding = found(on_driver, application(at, tasks, *things))["watermark"]
    # The second batch is the first that counts.
    assert finding.seconds == pytest.approx(0.5 * sum(range(BATCHES - 1)))
    assert "because no watermark removes rows" in finding.text


@pytest.mark.parametrize(
    "state",
    [
        lambda n: 1_000,
        lambda n: 1_000 * (n + 1) if n < 4 else 5_000,
        lambda n: 1_000 * (n % 4 + 1),
        lambda n: 10_000 + n,
    ],
)
def test_state_that_is_bounded(state):
    assert found(on_driver, stream(state_rows=state)) == {}


def test_more_rows_than_the_stream_can_work_off():
    things, tasks, at = [executor("driver", 0)], [], 1_000
    for number, lasts in enumerate([1_000, 2_000, 4_000, 8_000, 16_000]):
        rates = {"input_rate": 2_000, "process_rate": 1_000}
        things.append(batch(number, at, at + lasts, rows=lasts, **rates))
        tasks.append(task(number, 0, at + 50, at + lasts, "driver"))
        at += lasts
    finding = found(on_driver, application(at, tasks, *things))["rate-above-capacity"]
    assert finding.seconds == pytest.approx(15)
    assert "2.0 times its capacity" in finding.text
    assert "receives 2,000 rows a second and processes at most 1,000" in finding.text


def test_a_source_that_limits_batches_while_its_backlog_grows():
    app = stream(
        input_rate=lambda _: 25.0,
        process_rate=lambda _: 25.0,
        source_backlog=lambda n: 500 * (n + 1),
    )
    finding = found(on_driver, app)["rate-above-capacity"]
    assert "the source holds 4,000 rows that no batch has read" in finding.text
    # It works off what it has not read yet.
    app = stream(
        input_rate=lambda _: 25.0, process_rate=lambda _: 25.0, source_backlog=lambda n: 9_000 - n
    )
    assert found(on_driver, app) == {}


def test_what_comes_in_is_what_was_read_and_what_the_backlog_has_grown_by():
    # Batches of 100 rows take 4 s; one of them has taken 1 s, which is what the stream can do at most.
    app = stream(
        input_rate=lambda _: 25.0,
        process_rate=lambda n: 100.0 if n == 3 else 25.0,
        source_backlog=lambda n: 500 * (n + 1),
    )
    # 500 rows more in the source, and 100 that were read, every 4 s.
    assert arriving(app.batches) == pytest.approx(600 / 4)
    finding = found(on_driver, app)["rate-above-capacity"]
    assert "receives 150 rows a second and processes at most 100" in finding.text
    assert finding.seconds == pytest.approx(7 * 4 * (1 - 100 / 150))


@pytest.mark.parametrize(
    "backlog",
    [
        pytest.param([500, 1_000, 2_000, 4_000, 4_000, 4_000, 2_000, 0], id="all of it"),
        pytest.param([500, 1_000, 2_000, 4_000, 6_000, 6_000, 5_000, 4_000], id="some of it"),
    ],
)
def test_a_stream_that_has_worked_off_its_backlog_keeps_up(backlog):
    assert backlog[1] < max(backlog)
    rates = {"input_rate": lambda _: 25.0, "process_rate": lambda _: 25.0}
    assert found(on_driver, stream(source_backlog=backlog.__getitem__, **rates)) == {}


def test_a_backlog_that_the_last_batch_does_not_tell():
    def app(last):
        return stream(
            input_rate=lambda _: 25.0,
            process_rate=lambda _: 25.0,
            source_backlog=lambda n: 500 * (n + 1) if n < BATCHES - 1 else last,
        )

    assert list(found(on_driver, app(4_000))) == ["rate-above-capacity"]
    assert found(on_driver, app(None)) == {}


def test_rows_that_come_too_late_and_uneven_batches():
    late = found(on_driver, stream(late_rows=lambda n: 10 if n == 4 else 0))["late-rows"]
    assert late.gain is None
    assert "drops 10 rows (1 %)" in late.text
    late = found(on_driver, stream(late_rows=lambda n: 10, rows=lambda _: 0))["late-rows"]
    assert "drops 80 rows that came after the watermark" in late.text
    things, at = [executor("driver", 0)], 1_000
    for number in range(14):
        lasts = 9_000 if number == 7 else 1_000
        things.append(batch(number, at, at + lasts, rows=lasts))
        at += lasts
    uneven = found(on_driver, application(at, [task(0, 0, 1_000, at, "driver")], *things))
    assert list(uneven) == ["uneven-batches"]
    assert "batch 7 has 9,000 rows and takes 9 s" in uneven["uneven-batches"].text


def test_batches_of_a_log_without_rows_and_without_properties_of_jobs():
    app = stream(tasks=hot, rows=lambda _: 0)
    query = "e59aa183-4c8f-44f6-a15f-2f792cdb1a56"
    app = replace(
        app,
        batches=[replace(each, query=query) for each in app.batches],
        jobs={number: replace(each, batch=None, query="") for number, each in app.jobs.items()},
    )
    finding = found(on_driver, app)["stream-skew"]
    assert "In 8 of 8 batches of the stream e59aa183 all tasks" in finding.text
