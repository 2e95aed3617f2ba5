"""Findings about what failed and was done again, on applications made of values."""

import pytest

from rechannel.profiling.diagnosis.failures import failures
from tests.unit.profiling.diagnosis.made import application, executor, found, job, stage, task


def test_tasks_that_failed_and_were_retried():
    tasks = [
        task(0, 0, 1_000, 5_000),
        task(0, 1, 1_000, 4_000, failed="exception"),
        task(0, 1, 4_100, 8_100),
    ]
    app = application(
        10_000,
        tasks,
        job(0, 900, 8_200, stages=(0,)),
        stage(0, 900, 8_100, 2),
        exceptions={"ValueError": 1},
    )
    finding = found(failures, app)["failed-work"]
    # Without the failure it would have ended at 5 s.
    assert finding.seconds == pytest.approx(3.1)
    assert finding.gain == pytest.approx(0.31)
    assert "The exceptions were ValueError" in finding.text
    assert (
        "1 attempt of tasks of stage 0 failed and was made again. It had run for 3 s,"
        in finding.text
    )


def test_a_failure_that_was_not_waited_for_costs_the_cores_what_it_took():
    tasks = [
        task(0, 0, 1_000, 9_000),
        task(0, 1, 1_000, 3_000, failed="exception"),
        task(0, 1, 3_000, 5_000),
    ]
    app = application(10_000, tasks, stage(0, 900, 9_000, 2))
    assert found(failures, app)["failed-work"].seconds == pytest.approx(1)
    # Cores that came and went before, or came after it, took no share.
    others = [executor("1", 500), executor("2", 500, removed=900), executor("3", 9_500)]
    app = application(10_000, tasks, stage(0, 900, 9_000, 2), *others)
    assert found(failures, app)["failed-work"].seconds == pytest.approx(1)


def test_attempts_that_were_beaten_are_no_failures():
    tasks = [task(0, 0, 1_000, 9_000, killed=True, failed="killed"), task(0, 0, 5_000, 8_000)]
    assert found(failures, application(10_000, tasks, stage(0, 900, 8_000))) == {}
    assert (
        found(failures, application(10_000, [task(0, 0, 1_000, 9_000)], stage(0, 900, 8_000))) == {}
    )


def test_an_executor_that_was_lost_is_not_blamed_for_tasks_that_ran_elsewhere():
    tasks = [
        task(0, 0, 1_000, 5_000, "1"),
        task(0, 1, 1_000, 4_000, "3", failed="executor lost"),
        task(0, 1, 4_100, 8_100, "1"),
        task(1, 0, 9_000, 15_000, "1"),
    ]
    executors = [
        executor("1", 500),
        executor("2", 500, removed=12_000, lost=True),
        # Spark has let it go.
        executor("3", 500, removed=4_050),
    ]
    app = application(20_000, tasks, stage(0, 900, 8_100, 2), stage(1, 9_000, 15_000), *executors)
    finding = found(failures, app)
    assert finding["failed-work"].seconds == pytest.approx(3.1)
    assert finding["lost-executor"].gain is None


def test_a_lost_executor():
    tasks = [
        task(0, 0, 1_000, 6_000, "1"),
        task(0, 1, 1_000, 4_000, "2", failed="executor lost"),
        task(0, 2, 1_000, 2_000, "2"),
        task(0, 1, 6_000, 11_000, "1"),
        task(0, 2, 7_000, 8_000, "3"),
    ]
    executors = [
        executor("1", 500),
        executor("2", 500, removed=4_050, lost=True, reason="Command exited with code 137"),
        executor("3", 6_500),
    ]
    app = application(20_000, tasks, stage(0, 900, 11_000, 3), *executors, lost=(2,))
    finding = found(failures, app)["lost-executor"]
    assert finding.seconds == pytest.approx(5)
    assert finding.place.executor == "2"
    assert '2 (on host2, "Command exited with code 137")' in finding.text
    assert (
        "In stage 0, 2 task attempts lost their work or their input with it and were repeated:"
        " that made the run 5 s (25 %) longer." in finding.text
    )
    assert "registered 2.45 s after" in finding.text
    assert "spark.executor.memoryOverhead" in finding.advice


def test_an_executor_that_was_lost_while_idle():
    executors = [
        executor("1", 500),
        executor("2", 500, removed=4_050, lost=True, reason="heartbeat"),
    ]
    app = application(20_000, [task(0, 0, 1_000, 6_000)], stage(0, 900, 6_000), *executors)
    finding = found(failures, app)["lost-executor"]
    assert finding.gain is None
    assert "spark.network.timeout" in finding.advice


def fetching(*executors, at=0):
    """A stage that cannot fetch; its parent runs again. It fails 3.6 s after `at`."""
    tasks = [
        task(0, 0, at + 1_000, at + 3_000),
        task(1, 0, at + 3_100, at + 3_600, failed="fetch failed"),
        task(0, 0, at + 4_000, at + 6_000, attempt=1),
        task(1, 0, at + 6_200, at + 9_000, attempt=1),
    ]
    stages = [
        stage(0, at + 900, at + 3_000),
        stage(1, at + 3_050, at + 3_700, failure="FetchFailed"),
        stage(0, at + 3_900, at + 6_000, attempt=1),
        stage(1, at + 6_100, at + 9_000, attempt=1),
    ]
    return application(at + 10_000, tasks, *stages, *executors)


def test_files_that_cannot_be_fetched():
    finding = found(failures, fetching())["fetch-failure"]
    assert finding.seconds == pytest.approx(3)
    assert (finding.place.stage, finding.place.attempt) == (1, 0)


def test_files_that_were_lost_with_their_executor():
    gone = executor("2", 500, removed=3_050, lost=True, reason="spot instance terminated")
    finding = found(failures, fetching(executor("1", 500), gone))
    assert list(finding) == ["lost-executor"]
    assert finding["lost-executor"].seconds == pytest.approx(3)
    assert "spark.decommission.enabled" in finding["lost-executor"].advice


def test_tasks_that_wait_for_the_cores_of_a_lost_executor():
    tasks = [
        task(0, 0, 2_000, 7_000, "1"),
        task(0, 1, 2_010, 7_000, "1"),
        task(0, 2, 6_000, 11_000, "3"),
        task(0, 3, 6_000, 11_000, "3"),
    ]
    executors = [
        executor("1", 500),
        executor("2", 500, removed=1_000, lost=True),
        executor("3", 5_900),
    ]
    app = application(20_000, tasks, stage(0, 1_900, 11_000, 4), *executors)
    finding = found(failures, app)["lost-executor"]
    assert finding.seconds == pytest.approx(4)
    assert "In stage 0, 2 tasks waited for a core: that made" in finding.text
    # The other executors had free cores.
    at_once = [{**each, "launch": 2_000, "finish": 7_000} for each in tasks]
    assert found(failures, application(20_000, at_once, *executors))["lost-executor"].gain is None
