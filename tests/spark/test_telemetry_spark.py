"""Spark's figures for tasks that ran. Private classes of Spark: `make test-minors` runs this."""

import threading

import pyarrow as pa
import pytest

from rechannel.telemetry.events import Note
from rechannel.telemetry.log import EventLog
from rechannel.telemetry.reading import read_events
from rechannel.telemetry.spark_tasks import open_spark_tasks
from rechannel.telemetry.task_finished import SparkTaskId, TaskFinished

pytestmark = pytest.mark.contract

DDL = "operator string, stage int, task long, partition int, attempt int"


def who_am_i(operator, fail_first=False):
    """A task that says which Spark task it is, and hands on what tasks before it said."""

    def run(batches):
        from pyspark import TaskContext

        context = TaskContext.get()
        if fail_first and context.attemptNumber() == 0 and context.partitionId() == 1:
            raise RuntimeError("the first attempt fails")
        names = [name for name, _ in (field.split() for field in DDL.split(", "))]
        for batch in batches:
            if batch.schema.names == names:
                yield batch
        me = {
            "operator": operator,
            "stage": context.stageId(),
            "task": context.taskAttemptId(),
            "partition": context.partitionId(),
            "attempt": context.attemptNumber(),
        }
        types = [pa.string(), pa.int32(), pa.int64(), pa.int32(), pa.int32()]
        yield pa.RecordBatch.from_arrays(
            [pa.array([me[name]], kind) for name, kind in zip(names, types, strict=True)], names
        )

    return run


def run_timestep(spark, fail_first=False):
    """What the tasks of two stages said of themselves: three tasks, an exchange, two tasks."""
    front = spark.range(0, 30, 1, 3).mapInArrow(who_am_i("front"), DDL)
    shuffled = front.repartitionById(2, front.partition % 2)
    rows = shuffled.mapInArrow(who_am_i("state", fail_first), DDL).collect()
    assert len(rows) == 5
    return rows


def finished(row):
    return TaskFinished(
        timestep=1, operator=row.operator, task=row.partition, attempt="a", host="worker",
        started_ms=0.0, finished_ms=0.0, spark_task=SparkTaskId(stage=row.stage, task=row.task),
    )  # fmt: skip


def check(event, row):
    assert event.operator == row.operator
    assert (event.spark.stage, event.spark.partition) == (row.stage, row.partition)
    assert event.spark.attempt == row.attempt
    assert (event.spark.stage_attempt, event.spark.speculative) == (0, False)
    assert event.executor == event.spark.executor == "driver"
    assert event.host == "worker"
    assert event.spark.host
    assert 1.6e12 < event.spark.launch_ms <= event.spark.finish_ms
    assert event.spark.cpu_ms > 0
    if event.operator == "front":
        assert event.spark.shuffle_write_bytes > 0
        assert event.spark.shuffle_write_ms > 0
        assert event.spark.shuffle_read_bytes == 0
    else:
        assert event.spark.shuffle_read_bytes > 0
        assert event.spark.shuffle_write_bytes == 0


def test_every_task_gets_its_own_figures(spark):
    tasks = open_spark_tasks(spark)
    rows = [row for _ in range(2) for row in run_timestep(spark)]
    events = tasks.complete([finished(row) for row in rows])
    for event, row in zip(events, rows, strict=True):
        check(event, row)


def test_the_figures_are_those_of_the_attempt_that_won(spark):
    tasks = open_spark_tasks(spark)
    rows = run_timestep(spark, fail_first=True)
    (retried,) = [row for row in rows if row.attempt == 1]
    for event, row in zip(tasks.complete([finished(row) for row in rows]), rows, strict=True):
        check(event, row)
    known = tasks.read_stage(retried.stage)
    assert sorted(metrics.attempt for metrics in known.values()) == [0, 1]
    assert len(known) == 2


def test_a_stage_with_many_tasks(spark):
    tasks = open_spark_tasks(spark)
    rows = spark.range(0, 60, 1, 30).mapInArrow(who_am_i("front"), DDL).collect()
    events = tasks.complete([finished(row) for row in rows])
    assert sorted(event.spark.partition for event in events) == list(range(30))


def test_an_unknown_stage_has_no_tasks(spark):
    assert open_spark_tasks(spark).read_stage(1 << 30) == {}


def test_tasks_spark_has_forgotten_do_not_disturb_the_others(spark):
    tasks = open_spark_tasks(spark)
    rows = run_timestep(spark)
    forgotten = TaskFinished(
        timestep=0, operator="o", task=0, attempt="a", host="h", started_ms=0.0, finished_ms=0.0,
        spark_task=SparkTaskId(stage=1 << 30, task=1 << 40),
    )  # fmt: skip
    note = Note(at_ms=0, topic="t", text="x")
    events = tasks.complete([forgotten, note, *(finished(row) for row in rows)])
    assert events[:2] == [forgotten, note]
    for event, row in zip(events[2:], rows, strict=True):
        check(event, row)


def test_the_log_completes_events_in_its_own_thread(spark, tmp_path):
    tasks, threads = open_spark_tasks(spark), set()

    def complete(events):
        threads.add(threading.current_thread().name)
        return tasks.complete(events)

    log = EventLog(tmp_path, complete=complete)
    rows = [row for _ in range(2) for row in run_timestep(spark)]
    log.append(*(finished(row) for row in rows))
    log.close()
    assert threads == {"rechannel-telemetry"}
    for event, row in zip(read_events(tmp_path), rows, strict=True):
        check(event, row)
