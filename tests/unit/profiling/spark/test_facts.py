"""What an event log says of an application beyond the times of its tasks."""

import json

import pytest

from rechannel.profiling.spark import executions
from rechannel.profiling.spark.log import SparkLog
from rechannel.profiling.spark.rows import FAILURES, TASK_ROW
from rechannel.profiling.spark.stage_tasks import stages_of, tasks_of
from tests.unit.profiling.logs import START, info, line, metrics, small, stage_info, task_end
from tests.unit.profiling.spark.test_plans import node, sql

STREAM = "org.apache.spark.sql.streaming.StreamingQueryListener$Query"


def facts(*more, at=-1):
    """Facts of the small application, with lines before one of its own."""
    lines = small()
    lines[at:at] = more
    return SparkLog(strict=True).read(lines).facts()


def streaming(event, **fields):
    text = json.dumps({"Event": f"{STREAM}{event}Event", **fields}, separators=(",", ":"))
    return text.encode() + b"\n"


def job(number, at, properties=None, stages=()):
    return line(
        "JobStart",
        **{
            "Job ID": number,
            "Submission Time": START + at,
            "Stage Infos": list(stages),
            "Properties": properties,
        },
    )


def job_end(number, at, result="JobSucceeded"):
    body = {"Job ID": number, "Completion Time": START + at, "Job Result": {"Result": result}}
    return line("JobEnd", **body)


def test_a_job_without_times_lasts_as_long_as_its_stages():
    def ran(number, start, end):
        times = {"Submission Time": START + start, "Completion Time": START + end}
        return line("StageCompleted", **{"Stage Info": {**stage_info(number), **times}})

    def found(*stages):
        begun = line("JobStart", **{"Job ID": 7, "Stage Infos": list(map(stage_info, stages))})
        ended = line("JobEnd", **{"Job ID": 7, "Job Result": {"Result": "JobSucceeded"}})
        job = facts(begun, ran(8, 300, 400), ran(9, 410, 600), ended).jobs[7]
        return job.start, job.end

    assert found(8, 9) == (START + 300, START + 600)
    # Its stages were skipped: nothing is known of it.
    assert found(10) == (0, 0)


def test_the_application_and_its_settings():
    secrets = {"spark.my.password": "x", "spark.hadoop.fs.s3a.access.key": "x", "a.token": "x"}
    told = {"spark.sql.shuffle.partitions": "8", "spark.executor.cores": "2"}
    found = facts(line("EnvironmentUpdate", **{"Spark Properties": {**told, **secrets}}), at=1)
    assert (found.name, found.number, found.version) == ("small", "app-1", "4.3.0")
    assert (found.start, found.end, found.ended) == (START, START + 800, True)
    assert found.settings == told
    cut = SparkLog().read(small()[:-1]).facts()
    assert (cut.end, cut.ended) == (START + 720, False)
    # A session changed one of them.
    begun = sql(
        "SQLExecutionStart",
        executionId=1,
        time=START,
        modifiedConfigs={"spark.sql.shuffle.partitions": "9", "spark.secret": "x"},
    )
    assert facts(begun).settings == {"spark.sql.shuffle.partitions": "9"}


@pytest.mark.parametrize(
    ("reason", "lost"),
    [
        ("Command exited with code 137", True),
        ("Container marked as failed: exited with a non-zero exit code 143", True),
        ("worker lost", True),
        ("Executor heartbeat timed out after 130000 ms", True),
        ("Executor killed by driver.", False),
        ("Container container_1 exited from explicit termination request.", False),
        ("Executor decommission: spark scale down", False),
        ("Driver commanded a shutdown", False),
    ],
)
def test_executors_are_lost_if_spark_did_not_want_them_gone(reason, lost):
    gone = {"Timestamp": START + 750, "Executor ID": "1", "Removed Reason": reason}
    (found,) = facts(line("ExecutorRemoved", **gone)).executors.values()
    assert (found.name, found.host, found.cores, found.added) == ("1", "h", 2, START + 5)
    assert (found.removed, found.reason, found.lost) == (START + 750, reason, lost)


def test_executors_that_go_with_the_application_are_not_lost():
    gone = {"Timestamp": START + 800, "Executor ID": "1", "Removed Reason": "worker lost"}
    assert not facts(line("ExecutorRemoved", **gone)).executors["1"].lost


def test_executors_that_spark_shuns():
    event = line("ExecutorExcluded", time=START + 600, executorId="1", taskFailures=2)
    event = event.replace(b"SparkListener", b"org.apache.spark.scheduler.SparkListener", 1)
    assert facts(event).executors["1"].excluded == START + 600


def test_jobs_know_what_they_are_of():
    properties = {
        "spark.sql.execution.id": "3",
        "spark.sql.execution.root.id": "2",
        "spark.job.description": "words",
        "callSite.short": "count at job.py:7",
        "streaming.sql.batchId": "5",
        "sql.streaming.queryId": "q",
        "spark.jobGroup.id": "g",
        "spark.anything": "else",
    }
    found = facts(job(4, 730, properties), job_end(4, 740, "JobFailed")).jobs
    (first, second) = found.values()
    assert (first.stages, first.end, first.failed) == ((0, 1), START + 720, False)
    assert (first.execution, first.batch, first.query, first.site) == (None, None, "", "")
    assert (second.execution, second.root, second.batch, second.query) == (3, 2, 5, "q")
    assert (second.description, second.site, second.group) == ("words", "count at job.py:7", "g")
    assert (second.failed, second.broadcast) == (True, False)
    nowhere = {"callSite.short": "collect at NativeMethodAccessorImpl.java:0"}
    assert facts(job(4, 730, nowhere)).jobs[4].site == ""


@pytest.mark.parametrize(
    "properties",
    [
        {"spark.job.description": "broadcast exchange (runId 12-34)"},
        {"spark.job.description": "Broadcast exchange (runId 12-34)"},
        {"spark.job.description": "words", "spark.job.tags": "a,broadcast exchange (runId 12-34)"},
    ],
)
def test_jobs_that_collect_a_broadcast(properties):
    assert facts(job(4, 730, properties)).jobs[4].broadcast


def test_stages_by_attempt():
    again = {**stage_info(1, name="count at job.py:1", parents=[0]), "Stage Attempt ID": 1}
    failed = {**stage_info(1, parents=[0]), "Failure Reason": "FetchFailed: gone\n\tat x"}
    failed |= {"Submission Time": START + 510, "Completion Time": START + 600}
    stored = {"Use Disk": False, "Use Memory": True}
    again["RDD Info"][0] |= {"Storage Level": stored, "Name": "table t"}
    found = facts(
        line("StageCompleted", **{"Stage Info": failed}),
        line("StageSubmitted", **{"Stage Info": again}),
    ).stages
    assert set(found) == {(0, 0), (1, 0), (1, 1)}
    one, two = found[1, 0], found[1, 1]
    assert (one.failure, two.failure) == ("FetchFailed: gone", "")
    assert (one.submitted, one.completed) == (START + 510, START + 600)
    assert [(each.rdd, each.name, each.partitions) for each in two.stored] == [(1, "table t", 2)]
    assert (two.parents, two.tasks, found[0, 0].stored) == ((0,), 2, ())


def test_an_attempt_that_failed_has_the_nodes_of_another():
    start = sql("SQLExecutionStart", executionId=0, sparkPlanInfo=node("Sort", counts=[1]))
    one, two = stage_info(5), {**stage_info(5), "Stage Attempt ID": 1}
    two["Accumulables"] = [{"ID": 1, "Name": "n", "Value": 1}]
    found = facts(start, *(line("StageCompleted", **{"Stage Info": each}) for each in (one, two)))
    assert [found.stages[5, attempt].nodes for attempt in (0, 1)] == [("Sort",), ("Sort",)]


def test_executions():
    plan = node("AppendData", node("Scan csv", text="Scan csv " + "x" * 400, counts=[5]))
    plan["metrics"] = [{"name": "time to build", "accumulatorId": 8, "metricType": "timing"}]
    begun = {"executionId": 1, "description": "words", "time": START + 10, "rootExecutionId": 0}
    values = sql("DriverAccumUpdates", executionId=1, accumUpdates=[[8, 250], [9, 3]])
    stage = stage_info(7)
    found = facts(
        sql("SQLExecutionStart", sparkPlanInfo=plan, **begun),
        job(6, 20, {"spark.sql.execution.id": "1"}, [stage]),
        values,
        sql("SQLExecutionEnd", executionId=1, time=START + 90, errorMessage="bad\n at x"),
    )
    one = found.executions[1]
    assert (one.start, one.end, one.description) == (START + 10, START + 90, "words")
    assert (one.root, one.failure, one.writes) == (0, "bad", True)
    assert one.metrics == {8: 250, 9: 3}
    (metric,) = one.plan.metrics
    assert (one.plan.name, metric.name, metric.accumulator) == ("AppendData", "time to build", 8)
    assert len(one.plan.children[0].text) == 300
    # The job is a part of the root, even if it does not say so.
    assert (found.jobs[6].execution, found.jobs[6].root) == (1, 0)
    assert found.stages[7, 0].execution == 1
    count = sql("SQLExecutionStart", executionId=2, sparkPlanInfo=node("AppendColumns"))
    assert not facts(count).executions[2].writes


def test_of_many_executions_the_longest_keep_their_plans(monkeypatch):
    monkeypatch.setattr(executions, "ROOM", 10)
    lines = []
    for number in range(40):
        plan = node("A", counts=[number])
        lasts = 1_000 if number == 7 else number
        lines += [
            sql("SQLExecutionStart", executionId=number, time=START, sparkPlanInfo=plan),
            sql("SQLExecutionEnd", executionId=number, time=START + lasts),
        ]
    found = facts(*lines).executions
    kept = [number for number, each in found.items() if each.plan is not None]
    assert kept == [7, 36, 37, 38, 39]
    # Executions that never end do not take more.
    begun = [line for line in lines if b"ExecutionStart" in line]
    found = facts(*begun).executions
    assert sum(each.plan is not None for each in found.values()) == 5


def test_streams_and_their_batches():
    state = {
        "numRowsTotal": 100, "numRowsUpdated": 7, "memoryUsedBytes": 4_000, "commitTimeMs": 30,
        "allUpdatesTimeMs": 20, "allRemovalsTimeMs": 5, "numRowsDroppedByWatermark": 2,
    }  # fmt: skip
    source = {
        "numInputRows": 50, "inputRowsPerSecond": 25.0, "processedRowsPerSecond": "NaN",
        "endOffset": '{"t":{"0":10,"1":20}}', "latestOffset": {"t": {"0": 15, "1": 22}},
    }  # fmt: skip

    def progress(number, second, **more):
        body = {
            "id": "q", "name": "words", "timestamp": f"2023-11-14T22:13:{20 + second:02}.000Z",
            "batchId": number, "durationMs": {"triggerExecution": 700, "addBatch": 500},
            "stateOperators": [state, state], "sources": [source],
            "eventTime": {"watermark": "2023-11-14T22:13:00.000Z"},
        }  # fmt: skip
        return streaming("Progress", progress={**body, **more})

    idle = progress(9, 9, sources=[], durationMs={"triggerExecution": 3, "latestOffset": 2})
    found = facts(
        streaming("Started", id="q", name="words", timestamp="2023-11-14T22:13:20.000Z"),
        *(progress(number, 2 * number) for number in range(5)),
        idle,
        streaming("Terminated", id="q", exception=None),
    )
    first = found.batches[0]
    assert [each.number for each in found.batches] == [0, 1, 2, 3, 4]
    assert (first.query, first.start, first.end) == ("words", START, START + 700)
    assert (first.rows, first.input_rate, first.process_rate) == (50, 25.0, 0.0)
    assert (first.state_rows, first.state_bytes) == (200, 8_000)
    assert (first.state_commit_ms, first.late_rows) == (60, 4)
    assert (first.watermark, first.source_backlog) == (START - 20_000, 7)
    assert first.phases["addBatch"] == 500
    # Triggers are two seconds apart, and all batches wait for theirs.
    assert {each.interval for each in found.batches} == {2_000}
    (stream,) = found.streams.values()
    assert (stream.name, stream.start, stream.failed) == ("words", START, False)
    assert stream.end == START + 9_003
    one = facts(progress(0, 0, sources=[{"endOffset": "x", "latestOffset": None}]))
    assert (one.batches[0].source_backlog, one.batches[0].interval) == (None, 0)


COUNTED = {
    "Executor CPU Time": 5_000_000, "Result Size": 11, "Peak Execution Memory": 12,
    "Memory Bytes Spilled": 13, "Disk Bytes Spilled": 14,
    "Input Metrics": {"Bytes Read": 15, "Records Read": 16},
    "Output Metrics": {"Bytes Written": 17, "Records Written": 18},
    "Shuffle Read Metrics": {
        "Remote Bytes Read": 20, "Local Bytes Read": 3, "Total Records Read": 21, "Fetch Wait Time": 0,
    },
    "Shuffle Write Metrics": {
        "Shuffle Bytes Written": 22, "Shuffle Records Written": 23, "Shuffle Write Time": 0,
    },
}  # fmt: skip


def test_the_columns_of_a_task():
    task = info(9, "1", 600, 700, Speculative=True)
    found = facts(task_end(3, task, {**metrics(80), **COUNTED}))
    (row,) = tasks_of(found, 3, 0)
    figures = {
        "in_bytes": 15, "in_rows": 16, "out_rows": 18, "read_bytes": 23,
        "read_rows": 21, "write_bytes": 22, "write_rows": 23,
        "spill_memory": 13, "spill_disk": 14, "peak": 12, "result": 11, "cpu": 5_000_000,
    }  # fmt: skip
    assert {name: row[name] for name in figures} == figures
    assert (row["attempt"], row["speculative"], FAILURES[row["failed"]]) == (0, True, "")
    assert TASK_ROW.itemsize < 213


@pytest.mark.parametrize(
    ("reason", "flags", "code"),
    [
        ("ExceptionFailure", {"Failed": True}, "exception"),
        ("FetchFailed", {"Failed": True}, "fetch failed"),
        ("ExecutorLostFailure", {"Failed": True}, "executor lost"),
        ("TaskKilled", {"Killed": True}, "killed"),
        ("TaskCommitDenied", {"Failed": True}, "commit denied"),
        ("TaskResultLost", {"Failed": True}, "other"),
    ],
)
def test_why_attempts_fail(reason, flags, code):
    found = facts(task_end(3, info(9, "1", 600, 700, **flags), None, reason))
    (row,) = tasks_of(found, 3, 0)
    assert (FAILURES[row["failed"]], row["good"]) == (code, False)


def test_classes_of_exceptions_are_counted():
    bad = task_end(3, info(9, "1", 600, 700, Failed=True), None, "ExceptionFailure")
    bad = bad.replace(b'{"Reason":', b'{"Class Name":"java.lang.OutOfMemoryError","Reason":')
    assert facts(bad, bad).exceptions == {"java.lang.OutOfMemoryError": 2}


def test_an_attempt_that_a_copy_of_it_beat():
    body = {"Stage ID": 3, "Stage Attempt ID": 0}
    copy = line("TaskStart", **body, **{"Task Info": info(8, "1", 650, Index=9, Speculative=True)})
    slow = task_end(3, info(9, "1", 600, 700, Killed=True), metrics(70), "TaskKilled")
    for lines, beaten in (([copy, slow], True), ([slow], False)):
        found = [row for row in tasks_of(facts(*lines), 3, 0) if row["number"] == 9]
        assert [row["beaten"] for row in found] == [beaten]
    why = slow.replace(b'{"Reason":', b'{"Kill Reason":"another attempt succeeded","Reason":')
    (row,) = tasks_of(facts(why), 3, 0)
    assert row["beaten"]


def test_tasks_by_stage_in_one_pass(monkeypatch):
    monkeypatch.setattr("rechannel.profiling.storage.blocks.BLOCK_ROWS", 64)
    monkeypatch.setattr("rechannel.profiling.spark.rows._BUFFERED", 16)
    ends = [
        task_end(n % 3 if n < 300 else 5, info(n, "1", 100 + n, 200 + n), metrics(n % 50))
        for n in range(400)
    ]
    log = SparkLog().read([small()[0], *ends])
    found = log.facts()
    assert len(list(found.tasks.blocks.each())) > 4
    by_stage = dict(stages_of(found))
    assert {stage: len(rows) for stage, rows in by_stage.items()} == {
        (0, 0): 100, (1, 0): 100, (2, 0): 100, (5, 0): 100,
    }  # fmt: skip
    for (stage, attempt), rows in by_stage.items():
        assert rows["number"].tolist() == tasks_of(found, stage, attempt)["number"].tolist()
        assert (rows["stage"] == stage).all()
    assert len(tasks_of(found, 7, 0)) == 0
    assert list(stages_of(SparkLog().read(small()[:1]).facts())) == []


def test_a_stage_of_very_many_tasks_is_thinned_but_keeps_its_longest(monkeypatch):
    monkeypatch.setattr("rechannel.profiling.spark.stage_tasks.HELD_TASKS", 100)
    monkeypatch.setattr("rechannel.profiling.storage.blocks.BLOCK_ROWS", 50)
    monkeypatch.setattr("rechannel.profiling.spark.rows._BUFFERED", 10)
    ends = [
        task_end(0, info(n, "1", 100 + n, 200 + n + (5_000 if n == 77 else 0)), metrics(1))
        for n in range(1_000)
    ]
    found = SparkLog().read([small()[0], *ends]).facts()
    ((_, rows),) = stages_of(found)
    assert 20 < len(rows) <= 150
    assert 77 in rows["number"]
    assert found.tasks.stages[0, 0].tasks == 1_000
    assert 77 in tasks_of(found, 0, 0)["number"]


def test_attempts_whose_output_was_lost_were_of_no_use():
    again = task_end(0, info(0, "1", 110, 210), None, "Resubmitted")
    rows = tasks_of(facts(again), 0, 0)
    assert dict(zip(rows["number"].tolist(), rows["good"].tolist(), strict=True)) == {
        0: False,
        1: True,
    }
    ((_, first), _) = stages_of(facts(again))
    assert first["good"].tolist() == rows["good"].tolist()


def test_numbers_beyond_62_bits_are_bad_lines_or_not_known():
    figures = task_end(0, info(9, "1", 1, 2), metrics(1 << 70))
    task = task_end(0, {**info(9, "1", 1, 2), "Task ID": 1 << 70}, metrics(1))
    log = SparkLog().read([*small(), figures, task])
    assert log.bad_lines == 1
    assert len(log.finish()) == 4


def block(partition, executor="1", *, kept=True, rdd=1, name=""):
    level = {"Use Disk": False, "Use Memory": kept}
    body = {
        "Block Manager ID": {"Executor ID": executor, "Host": "h", "Port": 1},
        "Block ID": name or f"rdd_{rdd}_{partition}",
        "Storage Level": level,
    }
    return line("BlockUpdated", **{"Block Updated Info": body})


def cached_after(*events):
    """How many partitions of a dataset are in storage when a stage that reads it begins."""
    stage = stage_info(1, parents=[0])
    stage["RDD Info"][0] |= {"Storage Level": {"Use Memory": True}, "Name": "table t"}
    begun = line("StageSubmitted", **{"Stage Info": stage})
    over = line("StageCompleted", **{"Stage Info": stage})
    (stored,) = facts(*events, begun, block(9), over).stages[1, 0].stored
    return stored.cached


def test_what_is_in_storage_when_a_stage_begins(monkeypatch):
    assert cached_after() is None
    assert cached_after(block(0, name="broadcast_1_piece0")) == 0
    assert cached_after(block(0), block(1), block(1), block(7, rdd=2)) == 2
    assert cached_after(block(0), block(1), block(1, kept=False)) == 1
    # It moved to another executor before the first one dropped it.
    assert cached_after(block(0), block(0, "2"), block(0, kept=False)) == 1
    gone = {"Timestamp": START + 1, "Executor ID": "1", "Removed Reason": "lost"}
    assert cached_after(block(0), block(1, "2"), line("ExecutorRemoved", **gone)) == 1
    assert cached_after(block(0), line("UnpersistRDD", **{"RDD ID": 1})) == 0
    monkeypatch.setattr("rechannel.profiling.spark.cached_blocks.MOST", 2)
    assert cached_after(*(block(n) for n in range(4))) is None


def test_a_stream_that_is_started_again():
    def began(second):
        return streaming("Started", id="q", timestamp=f"2023-11-14T22:13:{second}.000Z")

    ended = streaming("Terminated", id="q", exception="bad")
    (stream,) = facts(began(21), ended, began(40)).streams.values()
    assert (stream.start, stream.end, stream.failed) == (START + 20_000, 0, False)
    assert [start for start, _ in stream.earlier] == [START + 1_000]
