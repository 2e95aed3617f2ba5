"""Down the tree of branches: every function once, each of its rows to all who want it."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rechannel.engine.stages.sink_buffers import sink_buffer_tables
from rechannel.errors import UserFunctionError
from rechannel.kernels.protocol.program import Address, Branch, Consumer, StageProgram, StageStep
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.kernels.shuffle.receive import receive
from rechannel.kernels.tasks.emit import Emitter, conform, write_sink_buffer
from rechannel.kernels.tasks.measure import Measures
from rechannel.operators.aggregate.functions import LastN
from rechannel.operators.aggregate.logic import AggregateLogic
from rechannel.state.stores.memory import MemoryStore
from tests.support.tasks import ROWS, WHOLE, blobs_of, counting, rows

GIVEN = rows(("a", 1), ("b", 2))


def emitter(root: Branch, store: MemoryStore | None = None) -> Emitter:
    consumers = [c for branch in root.walk() for c in branch.consumers]
    addresses = {
        (c.operator, c.input): Address(first=10 * i, routing=WHOLE, combined=False)
        for i, c in enumerate(consumers)
    }
    program = StageProgram(operator="in", root=root, store=store or MemoryStore())
    step = StageStep(timestep=7, stream_ms=0, number=2, addresses=addresses)
    return Emitter(program, step, 1, "x", Measures())


def to(operator: str, into: int = 0) -> tuple[Consumer, ...]:
    return (Consumer(operator=operator, input=into, logic=counting()),)


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    twice = pa.array([2 * v for v in batch.column(1).to_pylist()], pa.int64())
    return pa.RecordBatch.from_arrays([batch.column(0), twice], schema=ROWS)


def test_all_consumers_get_the_rows():
    made = emitter(Branch(node="in", schema=ROWS, consumers=to("one") + to("two")))
    parcels = list(made.rows(GIVEN, 0))
    assert [target for target, _ in parcels] == [0, 10]
    assert [blob.rows for blob in blobs_of(parcels)] == [2, 2]
    assert {blob.producer for blob in blobs_of(parcels)} == {2 << 20 | 1}
    sent = made.finish().sent
    assert [astuple(one)[:5] for one in sent] == [("one", 0, 2, 2, 2), ("two", 0, 2, 2, 2)]


def test_a_shared_function_runs_once():
    calls: list[int] = []

    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        calls.append(batch.num_rows)
        return doubled(batch)

    below = Branch(
        node="double",
        schema=ROWS,
        function=function,
        consumers=to("one") + to("two"),
        sink_buffer=True,
    )
    made = emitter(Branch(node="in", schema=ROWS, branches=(below,)))
    assert len(list(made.rows(GIVEN, 0))) == 2
    assert calls == [2]


@pytest.mark.parametrize("times", [0, 1, 3])
def test_a_function_may_answer_any_number_of_batches(times: int):
    def function(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        return [batch] * times

    store = MemoryStore()
    below = Branch(node="f", schema=ROWS, function=function, sink_buffer=True)
    made = emitter(Branch(node="in", schema=ROWS, branches=(below,)), store)
    list(made.rows(GIVEN, 0))
    kept = made.finish().buffered
    assert sum(file.rows for file in kept.values()) == 2 * times


def test_a_table_is_an_answer():
    below = Branch(
        node="f",
        schema=ROWS,
        function=lambda b: pa.Table.from_batches([b, b]),  # type: ignore[arg-type, return-value]
        consumers=to("one"),
    )
    made = emitter(Branch(node="in", schema=ROWS, branches=(below,)))
    assert sum(blob.rows for blob in blobs_of(list(made.rows(GIVEN, 0)))) == 4


def test_kept_rows_are_one_file_per_node():
    store = MemoryStore()
    made = emitter(Branch(node="in", schema=ROWS, sink_buffer=True), store)
    for batch in (GIVEN, rows(), rows(("c", 3))):
        list(made.rows(batch, 0))
    kept = made.finish().buffered["in"]
    assert kept.key.startswith("outbox/in/")
    assert kept.key.endswith("-00001-x.arrow")
    assert kept.bytes == store.size(kept.key)
    table = pa.Table.from_batches(sink_buffer_tables(store, [kept.key]))
    assert table.column("k").to_pylist() == ["a", "b", "c"]


def test_rows_that_nobody_emitted_are_not_kept():
    store = MemoryStore()
    made = emitter(Branch(node="in", schema=ROWS, sink_buffer=True), store)
    list(made.rows(rows(), 0))
    assert made.finish().buffered == {}
    assert list(store.list("")) == []


def test_behind_a_function_rows_stand_where_their_batch_began():
    logic = AggregateLogic.bind(["k"], {"last": LastN(column="v", n=9)}, ROWS)
    consumer = (Consumer(operator="op", input=0, logic=logic),)
    below = Branch(node="f", schema=ROWS, function=doubled, consumers=consumer)
    made = emitter(Branch(node="in", schema=ROWS, branches=(below,)))
    late = list(made.rows(rows(("a", 1)), np.array([50], dtype=np.uint64)))
    early = list(made.rows(rows(("a", 2), ("a", 3)), np.array([7, 60], dtype=np.uint64)))
    received = receive(Capabilities(logic), blobs_of(late + early))
    assert received.values[0].to_pylist() == [4, 6, 2]


def test_columns_are_put_in_order_and_cast():
    other = pa.RecordBatch.from_pydict({"v": pa.array([1], pa.int32()), "k": ["a"], "more": [0]})
    assert conform("f", other, ROWS).equals(rows(("a", 1)))


def failing(function: Any) -> None:
    below = Branch(node="clean", schema=ROWS, function=function, sink_buffer=True)
    made = emitter(Branch(node="in", schema=ROWS, branches=(below,)))
    list(made.rows(GIVEN, 0))


def test_a_missing_column_is_named():
    with pytest.raises(UserFunctionError, match=r"'clean' returned columns \['k'\].*\['v'\]"):
        failing(lambda batch: batch.select(["k"]))


def test_a_type_that_does_not_fit_is_named():
    text = pa.RecordBatch.from_pydict({"k": ["a"], "v": ["many"]})
    with pytest.raises(UserFunctionError, match=r"'clean' returned .*string"):
        failing(lambda _: text)


def test_what_a_function_raises_is_shown_with_its_traceback():
    def divide(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.slice(0, 1 // 0)

    with pytest.raises(UserFunctionError, match="'clean' raised ZeroDivisionError") as caught:
        failing(divide)
    assert "in divide" in str(caught.value)


def test_errors_with_a_message_for_the_user_are_placed_and_keep_their_words():
    error = UserFunctionError("row 7 is bad")

    def fails(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise error

    with pytest.raises(UserFunctionError) as caught:
        failing(fails)
    assert str(caught.value) == "operator 'clean', timestep 7: row 7 is bad"


def test_an_outbox_file_is_whole_arrow():
    store = MemoryStore()
    written = write_sink_buffer(store, "outbox/a/1-1-x.arrow", [GIVEN, GIVEN])
    with pa.ipc.open_file(pa.py_buffer(store.read(written.key))) as file:
        assert file.read_all().num_rows == written.rows == 4
