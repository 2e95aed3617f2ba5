"""Reports are those of the kernels themselves: a change of theirs that events miss fails here."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from rechannel.kernels.protocol.program import (
    Address,
    Branch,
    Consumer,
    StageProgram,
    StageStep,
    TaskState,
)
from rechannel.kernels.shuffle.receive import Inbox
from rechannel.kernels.shuffle.wire import from_batches
from rechannel.kernels.tasks.binned import unpack_bins
from rechannel.kernels.tasks.report import SparkTask, TaskReport
from rechannel.kernels.tasks.source_task import SourceTask
from rechannel.kernels.tasks.stateful_task import StatefulTask
from rechannel.model.routing import Routing
from rechannel.operators.aggregate.functions.count import Count
from rechannel.operators.aggregate.logic import AggregateLogic
from rechannel.state.stores.memory import MemoryStore
from rechannel.telemetry.build import join, stages_wanted, task_finished
from rechannel.telemetry.events import Note, OperatorFinished
from rechannel.telemetry.task_finished import SparkMetrics, SparkTaskId

ROWS = pa.schema([("k", pa.int64()), ("v", pa.int64())])
ROUTING = Routing.even(bins=4, tasks=1)
LOGIC = AggregateLogic.bind(["k"], {"n": Count()}, ROWS)


def batch(keys):
    return pa.RecordBatch.from_arrays(
        [pa.array(keys, pa.int64()), pa.array(range(len(keys)), pa.int64())], schema=ROWS
    )


def front_task(store, timestep):
    consumer = Consumer(operator="counts", input=0, logic=LOGIC)
    root = Branch(node="reads", schema=ROWS, consumers=(consumer,), sink_buffer=True)
    address = Address(first=0, routing=ROUTING, combined=True)
    return SourceTask(
        program=StageProgram(operator="reads", root=root, store=store),
        step=StageStep(timestep=timestep, stream_ms=0, addresses={("counts", 0): address}),
        task=0,
        attempt="a1",
    )


def state_task(store, timestep, runs):
    return StatefulTask(
        program=StageProgram(
            operator="counts",
            root=Branch(node="counts", schema=LOGIC.output_schema),
            store=store,
            logic=LOGIC,
        ),
        step=StageStep(
            timestep=timestep,
            stream_ms=0,
            tasks=(TaskState(own=ROUTING.intervals_of(0), runs=runs),),
            routing=ROUTING,
        ),
        task=0,
        attempt="b2",
    )


def run_timestep(store, timestep, keys, runs=()):
    """(report of the front, report of the stateful task) of one timestep."""
    parcels = list(front_task(store, timestep).run([(0, batch(keys))]))
    out = list(state_task(store, timestep, runs).run(parcels))
    reports = Inbox.of(from_batches(out)).reports
    first, second = (TaskReport.from_bytes(report) for report in reports)
    return first, second


@pytest.fixture
def store():
    return MemoryStore()


def test_a_front_tells_what_it_read_sent_and_kept(store):
    report, _ = run_timestep(store, 3, [1, 2, 1, 1])
    event = task_finished(report)
    assert (event.timestep, event.operator, event.task, event.attempt) == (3, "reads", 0, "a1")
    assert (event.rows_in, event.rows_out) == (4, 4)
    assert event.bytes_in == batch([1, 2, 1, 1]).nbytes
    (sent,) = event.sent
    assert (sent.operator, sent.input) == ("counts", 0)
    assert (sent.offered, sent.rows, sent.keys) == (4, 2, 2)
    (kept,) = event.kept
    assert (kept.node, kept.rows) == ("reads", 4)
    assert kept.bytes == store.size(report.emitted.buffered["reads"].key)
    assert event.bytes_out == sent.bytes + kept.bytes
    assert set(event.ms) <= {"wait", "send", "outbox"}
    assert event.segments == ()
    assert event.bins is None
    assert event.counts == {}


def test_a_stateful_task_tells_of_its_state(store):
    _, report = run_timestep(store, 3, [1, 2, 3])
    event = task_finished(report)
    assert (event.operator, event.attempt, event.rows_in, event.rows_out) == ("counts", "b2", 3, 3)
    assert (event.keys, event.keys_found, event.runs) == (3, 0, 0)
    (segment,) = event.segments
    assert (segment.rows, segment.bytes) == (3, store.size(segment.key))
    assert event.started_ms <= event.finished_ms
    assert {"deserialise", "lookup", "process", "write"} <= set(event.ms)
    rows_per_bin = unpack_bins(event.bins)
    assert len(rows_per_bin) == 4
    assert np.sum(rows_per_bin) == 3


def test_keys_that_had_state_are_counted(store):
    _, report = run_timestep(store, 3, [1, 2, 3])
    runs = report.state.edit.add
    _, report = run_timestep(store, 4, [2, 3, 4, 5], runs)
    event = task_finished(report)
    assert (event.keys, event.keys_found, event.runs) == (4, 2, 1)
    # The old state is small, so the task wrote all of it anew.
    assert event.rows_merged == 7
    assert [segment.rows for segment in event.segments] == [5]


def test_whatever_else_a_task_counted_is_kept(store):
    report, _ = run_timestep(store, 3, [1])
    report.costs.counts["timers"] = 12
    assert task_finished(report).counts == {"timers": 12}


def test_a_front_without_rows(store):
    reports = Inbox.of(from_batches(front_task(store, 0).run([]))).reports
    event = task_finished(TaskReport.from_bytes(reports[0]))
    assert (event.rows_in, event.rows_out, event.bytes_out) == (0, 0, 0)


def test_what_is_no_report_is_refused():
    with pytest.raises(ValueError, match="missing required field `timestep`"):
        TaskReport.from_bytes(b'{"operator":"reads"}')


def metrics(task):
    return SparkMetrics(
        stage=7, partition=task, executor=f"e{task}", host="h", launch_ms=5, finish_ms=9
    )


def events_of(store, *ids):
    report, _ = run_timestep(store, 3, [1])
    for stage, task in ids:
        yield task_finished(replace(report, spark=SparkTask(stage=stage, task=task)))


def test_the_report_says_which_spark_task_it_was(store):
    (event,) = events_of(store, (7, 70))
    assert event.spark_task == SparkTaskId(stage=7, task=70)
    assert event.spark is None
    assert event.executor is None


def test_tasks_without_figures_are_wanted_by_stage(store):
    note = Note(at_ms=0, topic="t", text="x")
    plain = task_finished(run_timestep(store, 3, [1])[0])
    done, *rest = events_of(store, (7, 70), (7, 71), (8, 80))
    events = [note, plain, done.measured(metrics(1)), *rest]
    assert stages_wanted(events) == {7: {71}, 8: {80}}


def test_join_changes_tasks_that_were_found_and_nothing_else(store):
    between = OperatorFinished(timestep=3, operator="reads", at_ms=1)
    plain = task_finished(run_timestep(store, 3, [1])[0])
    first, second, third = events_of(store, (7, 70), (7, 71), (8, 80))
    already = third.measured(metrics(3))
    joined = join([first, between, plain, second, already], {70: metrics(1), 80: metrics(2)})
    assert joined == [first.measured(metrics(1)), between, plain, second, already]
    assert joined[0].executor == "e1"
    assert (joined[0].launch_ms, joined[0].finish_ms) == (5, 9)
    assert (second.launch_ms, second.finish_ms) == (second.started_ms, second.finished_ms)
