"""The front task: source rows in, blobs, outbox files and a report out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple

import numpy as np
import pyarrow as pa
import pytest

from rechannel.engine.stages.sink_buffers import sink_buffer_tables
from rechannel.kernels.protocol.program import Address, Branch, Consumer, StageProgram, StageStep
from rechannel.kernels.shuffle.send import Order
from rechannel.kernels.shuffle.wire import DATA, REPORT, from_batches
from rechannel.kernels.tasks import source_task
from rechannel.kernels.tasks.source_task import SourceTask, gather_chunks
from rechannel.model.routing import Routing
from rechannel.state.stores.memory import MemoryStore
from tests.support.tasks import ROWS, counting, reports_of, rows

A, B = rows(("a", 1), ("b", 2)), rows(("a", 3))


def front_of(root: Branch, store: MemoryStore | None = None) -> StageProgram:
    return StageProgram(operator="in", root=root, store=store or MemoryStore())


SENDING = Branch(
    node="in", schema=ROWS, consumers=(Consumer(operator="op", input=0, logic=counting()),)
)
ADDRESS = Address(first=4, routing=Routing.even(bins=4, tasks=2), combined=False)
STEP = StageStep(timestep=7, stream_ms=0, number=3, addresses={("op", 0): ADDRESS})


def run(
    program: StageProgram,
    given: Iterable[tuple[Order, pa.RecordBatch]],
    step: StageStep = STEP,
    task: int = 5,
) -> list[pa.RecordBatch]:
    return list(SourceTask(program=program, step=step, task=task, attempt="x").run(given))


def test_rows_go_to_the_consumer_and_the_report_to_one_of_its_tasks():
    batches = run(front_of(SENDING), [(0, A), (1, B)])
    blobs = list(from_batches(batches))
    assert sum(blob.rows for blob in blobs) == 3
    assert {blob.producer for blob in blobs if blob.kind == DATA} == {3 << 20 | 5}
    targets = [target for batch in batches for target in batch.column(0).to_pylist()]
    homes = [t for t, blob in zip(targets, blobs, strict=True) if blob.kind == REPORT]
    assert homes == [4 + 5 % 2]
    (report,) = reports_of(batches)
    assert (report.operator, report.task, report.timestep) == ("in", 5, 7)
    assert report.costs.counts["rows_in"] == 3
    assert [astuple(sent)[:5] for sent in report.emitted.sent] == [("op", 0, 3, 3, 3)]


def test_without_consumers_the_report_is_read_by_the_action():
    store = MemoryStore()
    program = front_of(Branch(node="in", schema=ROWS, sink_buffer=True), store)
    batches = run(program, [(0, A), (0, B)], StageStep(timestep=7, stream_ms=0))
    assert [target for batch in batches for target in batch.column(0).to_pylist()] == [-1]
    (report,) = reports_of(batches)
    kept = report.emitted.buffered["in"]
    assert kept.rows == 3
    table = pa.Table.from_batches(sink_buffer_tables(store, [kept.key]))
    assert table.column("v").to_pylist() == [1, 2, 3]


def test_a_stage_whose_reports_go_apart_sends_them_there():
    step = StageStep(timestep=7, stream_ms=0, addresses={("op", 0): ADDRESS}, reports_to=9)
    batches = run(front_of(SENDING), [(0, A)], step)
    assert batches[-1].column(0).to_pylist()[-1] == 9


def test_nothing_read_is_reported_too():
    (report,) = reports_of(run(front_of(SENDING), []))
    assert report.costs.counts == {}
    assert report.emitted.sent == ()


def test_neighbouring_batches_of_one_place_are_joined():
    joined = list(gather_chunks([(0, A), (0, B), (1, A), (2, B), (2, B)]))
    assert [(order, batch.num_rows) for order, batch in joined] == [(0, 3), (1, 2), (2, 2)]


def test_chunks_stay_near_the_bound(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(source_task, "CHUNK_ROWS", 4)
    joined = list(gather_chunks([(0, A), (0, A), (0, A), (0, B)]))
    assert [batch.num_rows for _, batch in joined] == [4, 3]
    assert pa.Table.from_batches([b for _, b in joined]).column("v").to_pylist() == [
        1, 2, 1, 2, 1, 2, 3,
    ]  # fmt: skip


def test_rows_with_places_of_their_own_are_not_joined():
    order = np.array([3, 4], dtype=np.uint64)
    joined = list(gather_chunks([(0, B), (order, A), (order, A), (1, B)]))
    assert [batch.num_rows for _, batch in joined] == [1, 2, 2, 1]
    assert joined[1][0] is order
