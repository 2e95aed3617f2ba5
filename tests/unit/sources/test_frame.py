"""Batches that a query hands over: which are read, and which belong to another checkpoint."""

from __future__ import annotations

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.bridge import QUERY_ID, Bridge, query_of
from rechannel.errors import SourceError
from rechannel.job import InProcess, Job
from rechannel.sources.connector import SourceContext
from rechannel.sources.frame import HandoverConnector, HandoverReader, to_take
from rechannel.state.stores.memory import MemoryStore


@pytest.mark.parametrize(
    ("committed", "number", "query", "taken"),
    [
        ({}, 0, "one", True),
        ({"batch": -1}, 57, "one", True),  # a query that has run before with another sink
        ({"batch": 4, "query": "one"}, 4, "one", False),
        ({"batch": 4, "query": "one"}, 5, "one", True),
        ({"batch": 4, "query": "one"}, 5, None, True),
        ({"batch": 4}, 5, "one", True),
        ({"batch": 4}, 4, "one", False),
    ],
)
def test_the_last_batch_is_passed_over_and_the_next_one_read(committed, number, query, taken):
    assert to_take(committed, number, query) is taken


@pytest.mark.parametrize(
    ("number", "query", "told"),
    [
        (0, "two", "query two, with another checkpoint.*query='two'"),
        (5, "two", "query two, with another checkpoint"),
        (4, "two", "query two, with another checkpoint"),
        (0, "one", "another checkpoint of it: query one has passed on batches up to 4"),
        (3, None, "another checkpoint of it"),
        (6, "one", "some may be missing"),
    ],
)
def test_any_other_batch_is_refused(number, query, told):
    with pytest.raises(SourceError, match=told):
        to_take({"batch": 4, "query": "one"}, number, query)


def test_another_query_goes_on_where_that_is_said():
    committed = {"batch": 4, "query": "one"}
    assert to_take(committed, 0, "two", accepted="two")
    with pytest.raises(SourceError):
        to_take(committed, 0, "three", accepted="two")
    assert to_take({"batch": 0, "query": "two"}, 1, "two", accepted="two")


def test_offsets_tell_the_query_once_it_is_known():
    connector = HandoverConnector(schema="n int")
    reader = HandoverReader(connector, in_process=True)
    connector.handover.put(3, "rows")
    assert reader.latest({"batch": 2}, 0) == {"batch": 3}
    assert reader.latest({"batch": 2, "query": "one"}, 0) == {"batch": 3, "query": "one"}
    connector.handover.put(0, "rows", "two")
    assert reader.latest({"batch": 4, "query": "one"}, 0) == {"batch": 0, "query": "two"}
    assert reader.latest({"batch": 4, "query": "two"}, 0) == {"batch": 4, "query": "two"}


class Session:
    """What the bridge asks of the session of a batch."""

    def __init__(self, query: str | None) -> None:
        self.conf, self.sparkContext, self._query = self, self, query

    def set(self, name: str, value: str) -> None: ...

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 - as in Spark
        return self._query if name == QUERY_ID else None


class Batch:
    """An Arrow table with the part of a DataFrame that the bridge looks at."""

    def __init__(self, value: int, query: str | None = None) -> None:
        self.sparkSession = Session(query)
        self._table = pa.table({"k": ["a"], "v": pa.array([value], pa.int64())})

    def to_batches(self) -> list[pa.RecordBatch]:
        return self._table.to_batches()


class InThisProcess(Job):
    def start(self, **options):
        return super().start(in_process=InProcess(), **options)


def bridge(state, query: str | None = None) -> Bridge:
    source = rc.read().handover("k string, v bigint", name="events")
    totals = source.key_by("k").aggregate(t=agg.sum("v"), name="totals")
    job = InThisProcess("totals", totals.write.memory("out"), state=state)
    return Bridge(job, source.node.connector.handover, "events", query)


def total(target: Bridge) -> int:
    assert target.job is not None
    return target.job.state("totals").column("t").to_pylist()[0]


def test_rows_of_a_query_with_a_new_checkpoint_are_not_passed_over(tmp_path):
    first = bridge(tmp_path)
    for number in (0, 1, 1, 2):
        first(Batch(1, "one"), number)
    assert total(first) == 3
    with pytest.raises(SourceError, match="query='two'"):
        first(Batch(1_000, "two"), 0)
    assert total(first) == 3
    first.stop()
    second = bridge(tmp_path, query="two")
    for number in (0, 0, 1):
        second(Batch(1_000, "two"), number)
    assert total(second) == 2_003
    assert second.job.committed_offset("events") == {"batch": 1, "query": "two"}
    second.stop()


def test_where_nobody_tells_the_query_numbers_decide():
    class Connect:
        sparkSession = object()  # noqa: N815 - as in Spark

    assert query_of(Connect()) is None
    assert query_of(Batch(1, "one")) == "one"


def test_batches_handed_over_are_read_in_process_without_a_session():
    reader = HandoverConnector(schema="n int").open(SourceContext(store=MemoryStore(), name="in"))
    assert isinstance(reader, HandoverReader)
    assert reader.native


def test_committed_batches_of_one_query_do_not_drop_those_of_another():
    connector = HandoverConnector(schema="n int")
    reader = HandoverReader(connector, in_process=True)
    connector.handover.put(7, "A7", "one")
    connector.handover.put(0, "B0", "two")
    reader.committed({"batch": 7, "query": "one"})
    assert connector.handover.has(0)
    assert not connector.handover.has(7)
    assert not connector.handover.has(0, "one")
    assert connector.handover.get(0, "two") == "B0"


def test_a_batch_that_was_not_read_is_not_acknowledged(tmp_path, monkeypatch):
    target = bridge(tmp_path)
    target(Batch(1, "one"), 0)
    put = target._handover.put

    def stopped_first(*given):
        target.job.stop()
        put(*given)

    with monkeypatch.context() as patched:
        patched.setattr(target._handover, "put", stopped_first)
        with pytest.raises(SourceError, match="batch 1 was not processed"):
            target(Batch(1, "one"), 1)
    target(Batch(1, "one"), 1)
    assert total(target) == 2
    target.stop()
