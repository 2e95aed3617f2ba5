"""What the driver does at which time: rules of `driver.py` and `driver_pieces.py`, one by one."""

import numpy as np
import pytest

from rechannel.profiling.model.trace import RESERVED
from rechannel.profiling.reading import profile_trace
from rechannel.profiling.spark.application import (
    Application,
    Batch,
    Execution,
    Executor,
    Job,
    Stream,
)
from rechannel.profiling.spark.driver import DRIVER_KINDS, driver_timeline
from rechannel.profiling.spark.log import SparkLog
from rechannel.profiling.spark.trace import SPARK_KINDS, spark_trace
from tests.unit.profiling.logs import START, info, line, metrics, small, stage_info, task_end
from tests.unit.profiling.spark.test_log import spans
from tests.unit.profiling.spark.test_versions import NAMES, log

MS = 1_000_000
END = 100_000


def timeline(*, jobs=(), executions=(), name="app", **more):
    """(kind, from, to) of an application of `END` ms, without regard to tasks."""
    app = Application(
        name=name,
        start=START,
        end=START + END,
        jobs={each.number: each for each in jobs},
        executions={each.number: each for each in executions},
        **more,
    )
    made = driver_timeline(app)
    found = []
    for kind, start, end in zip(
        made.kinds[1:].tolist(), made.times[1:].tolist(), made.times[2:].tolist(), strict=False
    ):
        name = DRIVER_KINDS[kind]
        if found and found[-1][0] == name:
            found[-1] = (name, found[-1][1], end // MS - START)
        else:
            found.append((name, start // MS - START, end // MS - START))
    return found


def job(number, start, end, **more):
    return Job(number=number, start=START + start, end=START + end, **more)


def execution(number, start, end, **more):
    return Execution(number=number, start=START + start, end=START + end, **more)


def executor(name, added, removed=0, cores=2):
    gone = START + removed if removed else 0
    return Executor(name=name, cores=cores, added=START + added, removed=gone)


def test_the_program_runs_between_jobs():
    assert timeline(jobs=[job(0, 100, 200), job(1, 300, 400)]) == [
        ("driver program", 0, 100),
        ("scheduling", 100, 200),
        ("driver program", 200, 300),
        ("scheduling", 300, 400),
        ("driver program", 400, END),
    ]


def test_executions_are_planned_and_their_results_collected():
    jobs = [job(0, 150, 200, execution=7), job(1, 230, 300, execution=7)]
    assert timeline(jobs=jobs, executions=[execution(7, 100, 320)]) == [
        ("driver program", 0, 100),
        ("planning", 100, 150),
        ("scheduling", 150, 200),
        # Of an adaptive query, the rest is planned again.
        ("planning", 200, 230),
        ("scheduling", 230, 300),
        ("collecting results", 300, 320),
        ("driver program", 320, END),
    ]


def test_jobs_may_begin_after_their_execution():
    """The partitions of `toLocalIterator` are jobs of their own."""
    jobs = [job(0, 150, 200, execution=7), job(1, 230, 300, execution=7)]
    assert timeline(jobs=jobs, executions=[execution(7, 100, 140)]) == [
        ("driver program", 0, 100),
        ("planning", 100, 140),
        ("driver program", 140, 150),
        ("scheduling", 150, 200),
        ("driver program", 200, 230),
        ("scheduling", 230, 300),
        ("driver program", 300, END),
    ]


def test_an_execution_that_writes_commits():
    jobs = [job(0, 150, 200, execution=7)]
    found = timeline(jobs=jobs, executions=[execution(7, 100, 320, writes=True)])
    assert found[2:4] == [("scheduling", 150, 200), ("commit", 200, 320)]


def test_an_execution_without_jobs_is_planning():
    found = timeline(executions=[execution(7, 100, 320)])
    assert found == [
        ("driver program", 0, 100),
        ("planning", 100, 320),
        ("driver program", 320, END),
    ]


def test_a_broadcast_is_built_until_the_next_job_of_its_execution():
    jobs = [
        job(0, 150, 200, execution=7, broadcast=True),
        job(1, 210, 220),
        job(2, 260, 300, execution=7),
    ]
    found = timeline(jobs=jobs, executions=[execution(7, 100, 310)])
    assert found[1:8] == [
        ("planning", 100, 150),
        ("scheduling", 150, 200),
        ("broadcast building", 200, 210),
        ("scheduling", 210, 220),
        ("broadcast building", 220, 260),
        ("scheduling", 260, 300),
        ("collecting results", 300, 310),
    ]


def test_parts_of_an_execution():
    """A write of two queries commits after the last of them; without a write, it is a function of the user."""
    jobs = [job(0, 150, 200, execution=8, root=7), job(1, 250, 300, execution=9, root=7)]
    parts = [execution(8, 140, 210, root=7), execution(9, 240, 310, root=7)]
    found = timeline(jobs=jobs, executions=[execution(7, 100, 400, writes=True), *parts])
    assert [kind for kind, *_ in found] == [
        *("driver program", "planning", "scheduling", "planning", "scheduling", "commit"),
        "driver program",
    ]
    found = timeline(jobs=jobs, executions=[execution(7, 100, 400), *parts])
    assert found[:6] == [
        ("driver program", 0, 140),
        ("planning", 140, 150),
        ("scheduling", 150, 200),
        ("collecting results", 200, 210),
        ("driver program", 210, 240),
        ("planning", 240, 250),
    ]


def test_the_application_starts_up_until_there_is_an_executor():
    executors = {"1": executor("1", 80), "2": executor("2", 200)}
    found = timeline(jobs=[job(0, 100, 300)], executors=executors)
    assert found[:3] == [
        ("starting up", 0, 80),
        ("driver program", 80, 100),
        ("scheduling", 100, 300),
    ]


def test_a_job_without_executors_waits_for_them():
    executors = {"1": executor("1", 80, removed=150), "2": executor("2", 200)}
    found = timeline(jobs=[job(0, 40, 300)], executors=executors)
    assert found[:5] == [
        ("starting up", 0, 40),
        ("waiting for executors", 40, 80),
        ("scheduling", 80, 150),
        ("waiting for executors", 150, 200),
        ("scheduling", 200, 300),
    ]
    # Nobody knows when they came.
    unknown = {"1": Executor(name="1", cores=2), "2": executor("2", 200)}
    assert not [
        kind for kind, *_ in timeline(jobs=[job(0, 210, 300)], executors=unknown) if "wait" in kind
    ]


def test_files_are_listed_by_jobs():
    text = "Listing leaf files and directories for 40 paths:<br/>file:/a, ..."
    found = timeline(jobs=[job(0, 100, 200, description=text)])
    assert found[1] == ("listing files", 100, 200)


def test_a_stream_is_idle_between_batches():
    batch = Batch(query="words", number=0, start=START + 200, end=START + 300)
    stream = Stream(query="q", name="words", start=START + 100, end=START + 400)
    found = timeline(batches=[batch], streams={"q": stream})
    assert found == [
        ("driver program", 0, 100),
        ("idle", 100, 200),
        ("batch planning", 200, 300),
        ("idle", 300, 400),
        ("driver program", 400, END),
    ]
    earlier = ((START + 20, START + 50),)
    again = Stream(query="q", name="words", start=START + 100, earlier=earlier)
    found = timeline(batches=[batch], streams={"q": again})
    assert found[:3] == [("driver program", 0, 20), ("idle", 20, 50), ("driver program", 50, 100)]
    assert found[-1] == ("idle", 300, END)
    # Of logs that do not say when it began.
    assert [kind for kind, *_ in timeline(batches=[batch])] == ["idle", "batch planning", "idle"]


def test_a_shell_is_idle_if_it_does_nothing_for_long():
    jobs = [job(0, 100, 200), job(1, 5_000, 6_000)]
    found = timeline(jobs=jobs, name="PySparkShell")
    assert [kind for kind, *_ in found] == [
        *("driver program", "scheduling", "driver program", "scheduling", "idle"),
    ]
    assert found[-1] == ("idle", 6_000, END)
    assert "idle" not in [kind for kind, *_ in timeline(jobs=jobs)]
    jobs[0] = job(0, 100, 200, site="collect at /tmp/ipykernel_7/12.py:3")
    assert timeline(jobs=jobs) == found


def drive(*lines):
    """What the driver of an application did, ms."""
    read = SparkLog(strict=True).read([*small()[:2], *lines, small()[-1]])
    return spans(spark_trace(read).whole(), "driver")


def added(name, at, cores=1):
    body = {"Executor ID": name, "Executor Info": {"Host": "h", "Total Cores": cores}}
    return line("ExecutorAdded", **{"Timestamp": START + at, **body})


def running(start, end):
    """The lines of a job."""
    begun = {"Job ID": 0, "Submission Time": START + start, "Stage Infos": [stage_info(0)]}
    over = {"Job ID": 0, "Completion Time": START + end}
    return line("JobStart", **begun), line("JobEnd", **over)


def test_the_driver_waits_for_a_core_that_is_free_before_its_task_is_over():
    """The log has the end of a task after the launch of the next one on its core."""
    first = task_end(0, info(0, "1", 110, 320, Index=0), metrics(180))
    second = task_end(0, info(1, "1", 315, 500, Index=1), metrics(180))
    begun, over = running(100, 510)
    assert drive(added("1", 10), begun, first, second, over)[3:] == [
        ("waiting", 110, 315),
        ("waiting", 315, 500),
        ("scheduling", 500, 510),
        ("driver program", 510, 800),
    ]


def test_a_task_that_follows_at_once_is_no_cycle():
    """Nothing lies between both tasks on their core: the first one left it a little sooner, if it can."""
    first = task_end(0, info(0, "1", 110, 320, Index=0), metrics(204))
    begun, over = running(100, 510)
    for launch, known, crowded in ((315, 315, 0), (312, 320, 1)):
        second = task_end(0, info(1, "1", launch, 500, Index=1), metrics(500 - launch))
        read = SparkLog(strict=True).read(
            [*small()[:2], added("1", 10), begun, first, second, over, small()[-1]]
        )
        made = spark_trace(read)
        assert made.crowded == crowded
        went = made.whole().messages
        assert (went.sent <= went.received).all()
        times = went.received[went.target == 0] // MS - START
        assert sorted(times.tolist()) == [known, 500]
        profiled = profile_trace(made, window=10**10)
        assert profiled.cells.collect()["critical"].sum() == pytest.approx(1)


def test_the_end_of_a_killed_attempt_is_no_event():
    first = task_end(0, info(0, "1", 110, 320, Index=0, Killed=True), metrics(180), "TaskKilled")
    second = task_end(0, info(1, "1", 315, 500, Index=1), metrics(180))
    begun, over = running(100, 510)
    assert drive(added("1", 10), begun, first, second, over)[3:5] == [
        ("scheduling", 110, 315),
        ("waiting", 315, 500),
    ]


def test_the_driver_waits_for_one_more_executor():
    """All cores are busy, and the next task begins on an executor that was not there."""
    first = task_end(0, info(0, "1", 110, 600, Index=0), metrics(480))
    second = task_end(0, info(1, "2", 315, 500, Index=1), metrics(180))
    begun, over = running(100, 610)
    found = drive(added("1", 10), added("2", 300), begun, first, second, over)
    assert found[3:6] == [
        ("waiting for executors", 110, 300),
        ("scheduling", 300, 315),
        ("waiting", 315, 500),
    ]
    # An executor that comes while the driver waits for a task changes nothing.
    found = drive(added("1", 10), added("2", 300), begun, first, over)
    assert [each for each in found if 110 <= each[1] < 600] == [
        ("waiting", 110, 300),
        ("waiting", 300, 600),
    ]


def test_the_driver_waits_until_a_copy_is_worth_it():
    slow = task_end(0, info(0, "1", 110, 700, Index=0, Killed=True), metrics(580), "TaskKilled")
    copy = task_end(0, info(1, "2", 315, 500, Index=0, Speculative=True), metrics(180))
    begun, over = running(100, 510)
    made = SparkLog(strict=True).read(
        [
            *small()[:2],
            *(added("1", 10), added("2", 12), begun),
            line(
                "TaskStart",
                **{"Stage ID": 0, "Task Info": info(1, "2", 315, Index=0, Speculative=True)},
            ),
            *(copy, over, slow, small()[-1]),
        ]
    )
    trace = spark_trace(made).whole()
    assert ("waiting for a copy", 110, 315) in spans(trace, "driver")
    (beaten,) = {kind for kind, *_ in spans(trace, "executor 1 core 1")}
    assert beaten == "speculative copy"


def test_attempts_that_failed_have_kinds_of_their_own():
    refused = task_end(0, info(5, "1", 115, 300, Failed=True), metrics(180), "FetchFailed")
    broken = task_end(0, info(6, "1", 115, 300, Failed=True), metrics(180), "ExceptionFailure")
    begun, over = running(100, 510)
    read = SparkLog().read([*small()[:2], added("1", 5, 2), begun, refused, broken, over])
    kinds = spark_trace(read).whole().activities.kind
    names = {SPARK_KINDS[kind] for kind in kinds.tolist()}
    assert {"fetch failure", "failed work"} <= names


@pytest.mark.parametrize("name", NAMES)
def test_of_real_logs_the_driver_does_one_thing_after_the_other(name):
    made = spark_trace(log(name))
    did = made.whole().activities
    mine = np.flatnonzero(did.worker == 0)
    order = mine[np.argsort(did.start[mine])]
    assert did.start[order[0]] == made.span[0]
    assert did.end[order[-1]] == made.span[1]
    assert (did.start[order[1:]] == did.end[order[:-1]]).all()
    kinds = {made.names.kinds[kind] for kind in np.unique(did.kind[mine]).tolist()}
    assert kinds <= {*DRIVER_KINDS, "waiting"}
    assert {"starting up", "scheduling", "driver program"} <= kinds
    expected = {
        "ordinary": {"planning", "batch planning", "idle", "collecting results"},
        "lost": {"waiting for executors"},
        "speculation": {"waiting for a copy"},
    }[name.partition("-")[0]]
    assert expected <= kinds


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("ordinary")])
def test_of_real_logs_scheduling_is_short(name):
    """Tasks take seconds there, executors of one core each: nearly all of the time, a core is what is missing."""
    did = spark_trace(log(name)).whole().activities
    mine = did.worker == 0
    lasted = np.bincount(did.kind[mine], (did.end - did.start)[mine], len(SPARK_KINDS))
    jobs = sum(each.end - each.start for each in log(name).jobs.values()) * MS
    assert 0 < lasted[SPARK_KINDS.index("scheduling")] < 0.1 * jobs


def test_kinds_have_one_name_each():
    assert SPARK_KINDS[: len(RESERVED)] == RESERVED
    assert len(set(SPARK_KINDS)) == len(SPARK_KINDS)
