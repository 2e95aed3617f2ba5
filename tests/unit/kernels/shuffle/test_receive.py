"""What a task makes of blobs: the same, in whatever order they arrive and whoever sent them."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.kernels.shuffle.receive import Inbox, Received, receive
from rechannel.kernels.shuffle.wire import from_batches
from rechannel.kernels.tasks.report import report_blob
from rechannel.operators.aggregate.functions import LastN
from rechannel.operators.aggregate.logic import AggregateLogic
from tests.support.reports import reported
from tests.support.tasks import ROWS, as_batch, blobs_of, counting, rows, sent

FIRST = rows(("a", 1), ("b", 2), ("a", 3))
SECOND = rows(("b", 4), ("c", 5), ("a", 6))


def ordered() -> AggregateLogic:
    return AggregateLogic.bind(["k"], {"last": LastN(column="v", n=9)}, ROWS)


def by_key(received: Received) -> dict[object, list[object]]:
    values = received.values[0].to_pylist()
    return {
        key: values[start:stop]
        for key, start, stop in zip(
            received.keys[0].to_pylist(),
            received.groups.starts,
            received.groups.ends,
            strict=True,
        )
    }


def test_rows_of_a_key_come_together_in_stream_order():
    received = receive(
        Capabilities(ordered()), blobs_of(sent(ordered(), [(SECOND, 1), (FIRST, 0)]))
    )
    assert by_key(received) == {"a": [1, 3, 6], "b": [2, 4], "c": [5]}
    assert received.rows == 6
    assert (received.hashes[1:] > received.hashes[:-1]).all()


def test_neither_arrival_nor_the_number_of_producers_matters():
    one = sent(ordered(), [(FIRST, 0), (SECOND, 1)])
    two = sent(ordered(), [(FIRST, 0)]) + sent(ordered(), [(SECOND, 1)], producer=1)
    expected = by_key(receive(Capabilities(ordered()), blobs_of(one)))
    for seed in range(6):
        shuffled = Random(seed).sample(two, len(two))
        assert by_key(receive(Capabilities(ordered()), blobs_of(shuffled))) == expected


def test_inputs_come_one_behind_the_other():
    late = sent(ordered(), [(FIRST, 0)], into=1, producer=0)
    early = sent(ordered(), [(SECOND, 99)], into=0, producer=1)
    received = receive(Capabilities(ordered()), blobs_of(late + early))
    assert by_key(received) == {"a": [6, 1, 3], "b": [4, 2], "c": [5]}


def test_partial_states_of_several_producers_meet():
    parcels = sent(counting(), [(FIRST, 0)], combined=True)
    parcels += sent(counting(), [(SECOND, 0)], combined=True, producer=1)
    received = receive(Capabilities(counting()), blobs_of(parcels))
    assert received.combined
    assert received.keys[0].to_pylist() == list(by_key(received))
    assert {key: len(counts) for key, counts in by_key(received).items()} == {
        "a": 2,
        "b": 2,
        "c": 1,
    }


def test_nothing_arrives():
    for logic in (counting(), ordered()):
        received = receive(Capabilities(logic), [])
        assert (received.rows, received.groups.count, len(received.hashes)) == (0, 0, 0)
        assert [column.type for column in received.keys] == logic.key_schema.types
        assert [column.type for column in received.values] == logic.value_schema.types


def test_reports_are_told_from_rows():
    body = reported("front").to_bytes()
    parcels = [*sent(counting(), [(FIRST, 0)]), (0, report_blob(2, body))]
    inbox = Inbox.of(from_batches([as_batch(parcels)]))
    blobs, reports = inbox.data, inbox.reports
    assert len(blobs) == 1
    assert reports == [body]


def test_a_null_key_is_a_key():
    received = receive(
        Capabilities(ordered()), blobs_of(sent(ordered(), [(rows((None, 1), (None, 2)), 0)]))
    )
    assert by_key(received) == {None: [1, 2]}


def test_keys_of_other_types_than_strings_are_grouped_too():
    schema = pa.schema([("k", pa.float64()), ("v", pa.int64())])
    logic = AggregateLogic.bind(["k"], {"last": LastN(column="v", n=9)}, schema)
    batch = pa.RecordBatch.from_pydict(
        {"k": [0.0, -0.0, float("nan"), None], "v": [1, 2, 3, 4]}, schema=schema
    )
    received = receive(Capabilities(logic), blobs_of(sent(logic, [(batch, 0)])))
    assert sorted(by_key(received).values()) == [[1, 2], [3], [4]]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_a_float_key_has_one_zero_whichever_came_first(kind: pa.DataType):
    schema = pa.schema([("k", kind), ("v", pa.int64())])
    logic = AggregateLogic.bind(["k"], {"last": LastN(column="v", n=9)}, schema)
    for keys in ([0.0, -0.0, 1.5, None], [-0.0, 0.0, 1.5, None]):
        batch = pa.RecordBatch.from_pydict({"k": keys, "v": [1, 2, 3, 4]}, schema=schema)
        received = receive(Capabilities(logic), blobs_of(sent(logic, [(batch, 0)])))
        assert received.keys[0].type == kind
        assert sorted(map(repr, by_key(received))) == ["0.0", "1.5", "None"]
