"""Event logs of Spark 2.1 to 3.2, whose lines say less, and what tasks, stages and executors come to otherwise.

Fields are those that `JsonProtocol` of 2.1.3, 2.4.8, 3.0.3 and 3.2.4 writes, in its order.
"""

import json

import pytest

from rechannel.profiling.model.trace import RESERVED
from rechannel.profiling.reading import profile_trace
from rechannel.profiling.spark.log import SparkLog
from rechannel.profiling.spark.trace import spark_trace
from tests.unit.profiling.logs import (
    START,
    attempts_of,
    info,
    line,
    metrics,
    small,
    stage_info,
    task_end,
)

MS = 1_000_000
OLD_METRICS = {
    "Executor Deserialize Time": 12,
    "Executor Deserialize CPU Time": 9_000_000,
    "Executor Run Time": 70,
    "Executor CPU Time": 60_000_000,
    "Result Size": 1_500,
    "JVM GC Time": 0,
    "Result Serialization Time": 1,
    "Memory Bytes Spilled": 0,
    "Disk Bytes Spilled": 0,
    "Shuffle Read Metrics": {
        "Remote Blocks Fetched": 0,
        "Local Blocks Fetched": 2,
        "Fetch Wait Time": 0,
        "Remote Bytes Read": 0,
        "Local Bytes Read": 110,
        "Total Records Read": 2,
    },
    "Shuffle Write Metrics": {
        "Shuffle Bytes Written": 100,
        "Shuffle Write Time": 5_000_000,
        "Shuffle Records Written": 2,
    },
    "Input Metrics": {"Bytes Read": 0, "Records Read": 0},
    "Output Metrics": {"Bytes Written": 0, "Records Written": 0},
    "Updated Blocks": [],
}
COUNTED = {"ID": 3, "Name": "x", "Update": "1", "Value": "1", "Internal": True, "Metadata": "sql"}


def old(*, version="2.1.3", killed=None):
    """A stage of two tasks, one of which ends well; the other is killed, without figures before 2.4."""
    stage = {
        **stage_info(0, scope="parallelize"),
        "Details": "org.apache.spark.rdd.RDD.count(RDD.scala:1)",
        "Submission Time": START + 100,
    }
    host = {"Host": "localhost", "Total Cores": 2, "Log Urls": {}}
    good = info(0, "driver", 110, 210, Accumulables=[COUNTED])
    bad = info(1, "driver", 110, 310, Killed=True)
    app = {"App Name": "old", "App ID": "local-1", "Timestamp": START, "User": "u"}
    job = {"Job ID": 0, "Submission Time": START + 90, "Stage Infos": [stage], "Stage IDs": [0]}
    done = {"Job ID": 0, "Completion Time": START + 400, "Job Result": {"Result": "JobSucceeded"}}
    added = {"Timestamp": START + 1, "Executor ID": "driver", "Executor Info": host}
    return [
        line("LogStart", **{"Spark Version": version}),
        # In local mode the executor comes before the application.
        line("ExecutorAdded", **added),
        line("BlockManagerAdded", **{"Block Manager ID": {}, "Maximum Memory": 1, "Timestamp": 1}),
        line("EnvironmentUpdate", **{"JVM Information": {}, "Spark Properties": {}}),
        line("ApplicationStart", **app),
        line("JobStart", **job, Properties={}),
        line("StageSubmitted", **{"Stage Info": stage, "Properties": {}}),
        line(
            "TaskStart",
            **{"Stage ID": 0, "Stage Attempt ID": 0, "Task Info": info(0, "driver", 110)},
        ),
        line(
            "TaskStart",
            **{"Stage ID": 0, "Stage Attempt ID": 0, "Task Info": info(1, "driver", 110)},
        ),
        task_end(0, good, OLD_METRICS),
        task_end(0, bad, killed, "TaskKilled"),
        line("StageCompleted", **{"Stage Info": {**stage, "Completion Time": START + 390}}),
        line("JobEnd", **done),
        line("ApplicationEnd", Timestamp=START + 500),
    ]


def sums(log, worker=None):
    """Lengths of activities by kind, ms."""
    trace = spark_trace(log).whole()
    found = {}
    did = trace.activities
    for i in range(len(did)):
        if worker in (None, trace.names.workers[did.worker[i]]):
            kind = trace.names.kinds[did.kind[i]]
            found[kind] = found.get(kind, 0) + int(did.end[i] - did.start[i]) / MS
    return found


@pytest.mark.parametrize(
    ("version", "killed", "lost"), [("2.1.3", None, 200), ("2.4.8", OLD_METRICS, 83)]
)
def test_a_log_of_spark_2(version, killed, lost):
    log = SparkLog(strict=True).read(old(version=version, killed=killed))
    assert (log.version, log.name, log.cores) == (version, "old", {"driver": 2})
    assert (log.jobs[0].start, log.jobs[0].end) == (START + 90, START + 400)
    assert log.stages[0].name == "parallelize (count at job.py:1)"
    assert [(task.good, task.killed) for task in attempts_of(log)] == [(True, False), (False, True)]
    found = sums(log)
    assert {kind: found[kind] for kind in found if kind not in RESERVED} == {
        "deserialization": 12,
        "processing": 65,
        "shuffle write": 5,
        "serialization": 1,
        "failed work": lost,
        "starting up": 1,
        "driver program": 189,
        "scheduling": 20 + 190,
    }


@pytest.mark.parametrize(
    ("version", "task", "executor"),
    [
        ("3.0.3", {}, {"Attributes": {}, "Resources": {}}),
        ("3.2.4", {}, {"Attributes": {}, "Resources": {}, "Resource Profile Id": 0}),
    ],
)
def test_what_spark_3_added(version, task, executor):
    lines = [json.loads(each) for each in old(version=version, killed=OLD_METRICS)]
    for each in lines:
        if "Executor Info" in each:
            each["Executor Info"] |= executor
        if "Task Metrics" in each:
            body = each.pop("Task Metrics")
            each["Task Executor Metrics"] = {"JVMHeapMemory": 0, "ProcessTreeJVMVMemory": 0}
            each["Task Metrics"] = {**body, "Peak Execution Memory": 4_000}
    told = [json.dumps(each, separators=(",", ":")).encode() + b"\n" for each in lines]
    log, plain = (
        SparkLog(strict=True).read(told),
        SparkLog(strict=True).read(old(killed=OLD_METRICS)),
    )
    assert (log.version, attempts_of(log), log.cores) == (version, attempts_of(plain), plain.cores)


def test_a_batch_of_spark_2_1():
    """Its jobs do not say which batch they are of."""
    progress = {
        "id": "ce011fdc-8762-4dcb-84eb-a77333e28109",
        "runId": "88e2ff94-ede0-45a8-b687-6316fbef529a",
        "name": None,
        "timestamp": "2023-11-14T22:13:20.050Z",
        "batchId": 0,
        "durationMs": {"addBatch": 300, "getBatch": 1, "triggerExecution": 400, "walCommit": 20},
        "eventTime": {},
        "stateOperators": [{"numRowsTotal": 4, "numRowsUpdated": 1}],
        "sources": [
            {"description": "KafkaSource[Subscribe[t]]", "startOffset": None, "endOffset": {}}
        ],
        "sink": {"description": "MemorySink"},
    }
    event = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
    text = json.dumps({"Event": event, "progress": progress}, separators=(",", ":"))
    log = SparkLog(strict=True).read([*old(), text.encode() + b"\n"])
    (batch,) = log.batches
    assert (batch.start, batch.end) == (START + 50, START + 450)
    assert log.jobs[0].batch is None


def test_the_time_of_a_task_that_nobody_told_of_is_failed_work():
    lost = task_end(0, info(5, "1", 250, 450, Failed=True), None, "ExecutorLostFailure")
    log = SparkLog(strict=True).read([*small()[:9], lost, *small()[9:]])
    assert sums(log)["failed work"] == 200


def test_a_task_whose_output_was_lost_is_not_done_twice_and_was_of_no_use():
    again = task_end(0, info(0, "1", 110, 210), None, "Resubmitted")
    other = task_end(0, info(77, "1", 1, 2), None, "Resubmitted")
    log = SparkLog(strict=True).read([*small()[:9], again, other, *small()[9:]])
    assert [task.good for task in attempts_of(log)] == [False, True, True]
    assert sums(log)["failed work"] == 5 + 80
    # The blocks of stage 0 come from the other core now.
    went = spark_trace(log).whole().messages
    assert not any(
        went.source[i] == 1 and went.target[i] == 2 for i in range(len(went)) if went.target[i]
    )


def test_an_executor_that_went_ends_what_it_did():
    removed = {"Timestamp": START + 300, "Executor ID": "1", "Removed Reason": "lost"}
    cut = [*small()[:8], line("ExecutorRemoved", **removed), *small()[-2:]]
    log = SparkLog(strict=True).read(cut)
    assert log.removed == {"1": START + 300}
    (open_,) = [task for task in attempts_of(log) if not task.good]
    assert (open_.finish, log.open_tasks) == (START + 300, 1)
    assert sums(log)["failed work"] == 190


def shuffled(*more):
    """As `small`, but on two executors of one core each, and stage 1 fetches from stage 9: that is 0, skipped."""
    one, skipped = stage_info(0, scope="Scan"), stage_info(9, scope="Scan")
    skipped["RDD Info"] = one["RDD Info"]
    two = stage_info(1, parents=[9], scope="Exchange")
    added = [
        line(
            "ExecutorAdded",
            **{
                "Timestamp": START,
                "Executor ID": name,
                "Executor Info": {"Total Cores": 1},
            },
        )
        for name in ("1", "2")
    ]
    jobs = [
        line("JobStart", **{"Job ID": number, "Submission Time": START + at, "Stage Infos": stages})
        for number, at, stages in ((0, 100, [one]), (1, 510, [skipped, two]))
    ]
    return [
        small()[0],
        small()[1],
        *added,
        jobs[0],
        task_end(0, info(0, "1", 110, 210), metrics(100)),
        task_end(0, info(1, "2", 110, 310), metrics(200)),
        *more,
        jobs[1],
        task_end(1, info(2, "2", 520, 700), metrics(180, fetch=50)),
        small()[-1],
    ]


def test_a_skipped_stage_is_fetched_from_who_ran_it_before():
    trace = spark_trace(SparkLog(strict=True).read(shuffled())).whole()
    went = trace.messages
    between = [
        (int(went.source[i]), int(went.target[i]))
        for i in range(len(went))
        if went.source[i] and went.target[i]
    ]
    assert between == [(2, 1), (1, 2)]


def test_nobody_asks_an_executor_that_has_gone():
    removed = {"Timestamp": START + 400, "Executor ID": "1", "Removed Reason": "lost"}
    log = SparkLog(strict=True).read(shuffled(line("ExecutorRemoved", **removed)))
    went = spark_trace(log).whole().messages
    assert not any(went.source[i] and went.target[i] for i in range(len(went)))
    assert sums(log)["fetch wait"] == 50


def test_nobody_waits_for_an_attempt_that_was_killed():
    """It outlives the job by 60 ms, in which the driver runs the program."""
    slow = task_end(1, info(3, "1", 600, 780, Killed=True), metrics(180), "TaskKilled")
    log = SparkLog(strict=True).read([*small()[:-1], slow, small()[-1]])
    assert sums(log, "driver")["driver program"] == 95 + 80
    late = profile_trace(spark_trace(log), window=10**10).by_activity()
    shares = dict(late.select("kind", "critical").rows())
    assert shares["failed work"] == 0
    assert shares["driver program"] > 0
