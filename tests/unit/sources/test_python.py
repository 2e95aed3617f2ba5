"""Python data sources of PySpark, without a JVM: what goes wrong, and what they are told."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)
from pyspark.sql.types import LongType, StringType, StructField, StructType

from rechannel.errors import DataflowError, SourceError
from rechannel.model.ddl import schema_of
from rechannel.sources.connectors import PythonConnector
from rechannel.sources.python import PythonReader

CALLS: list[Any] = []


class Stream(DataSourceStreamReader):
    def __init__(self, how: str) -> None:
        self.how = how

    def initialOffset(self) -> Any:  # noqa: N802 - Spark's name
        return {"not json": {1, 2}} if self.how == "set" else {"at": (0, 1)}

    def latestOffset(self, start: dict, limit: Any) -> Any:  # noqa: N802
        if self.how == "raises":
            raise ConnectionError("the broker is down")
        start["at"] = "changed by the source"
        return {"at": [1, 1]}

    def partitions(self, start: dict, end: dict) -> list[InputPartition]:
        CALLS.append("partitions")
        count = len(CALLS) if self.how == "moody" else 1
        return [InputPartition(i) for i in range(count)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if self.how == "breaks":
            yield Row(s="a", n=1)
            raise OSError("connection reset")
        if self.how == "short":
            yield (1,)
        yield Row(s="a", n=1)
        yield Row(n=None, s=None)

    def commit(self, end: dict) -> None:
        CALLS.append(("commit", end))

    def stop(self) -> None:
        CALLS.append("stop")


class Source(DataSource):
    @classmethod
    def name(cls) -> str:
        return "mine"

    def schema(self) -> StructType:
        return StructType([StructField("n", LongType()), StructField("s", StringType(), False)])

    def streamReader(self, schema: StructType) -> Stream:  # noqa: N802
        CALLS.append(schema.simpleString())
        return Stream(self.options.get("HOW", "well"))


class Endless(SimpleDataSourceStreamReader):
    def initialOffset(self) -> dict:  # noqa: N802
        return {"at": 0}

    def read(self, start: dict) -> tuple[Iterator[tuple], dict]:
        return iter([(1,)]), start

    def readBetweenOffsets(self, start: dict, end: dict) -> Iterator[tuple]:  # noqa: N802
        return iter([])


class EndlessSource(DataSource):
    def schema(self) -> str:
        return "n int"

    def simpleStreamReader(self, schema: StructType) -> Endless:  # noqa: N802
        return Endless()


@pytest.fixture(autouse=True)
def calls() -> list[Any]:
    CALLS.clear()
    return CALLS


def opened(how: str = "well", **arguments) -> PythonReader:
    return PythonReader(PythonConnector(source=Source, options={"how": how}, **arguments))


def read(reader: PythonReader) -> list[dict]:
    start, end = {"at": [0, 1]}, {"at": [1, 1]}
    layout = reader.layout(start, end)
    splits = reader.split_reader(start, end, layout)
    return [row for split in layout for batch in splits.read(split) for row in batch.to_pylist()]


def test_named_rows_are_put_in_the_order_of_the_columns():
    reader = opened()
    assert reader.schema.names == ["n", "s"]
    nullable = opened(schema="n bigint, s string")
    assert read(nullable) == [{"n": 1, "s": "a"}, {"n": None, "s": None}]


def test_declared_columns_are_what_the_source_is_asked_for(calls):
    reader = opened(schema="n bigint, s string")
    assert calls == ["struct<n:bigint,s:string>"]
    assert reader.schema == schema_of("n bigint, s string")


def test_offsets_are_what_the_journal_gives_back():
    reader = opened()
    start = reader.initial()
    assert start == {"at": [0, 1]}
    assert reader.latest(start, 0) == {"at": [1, 1]}
    assert start == {"at": [0, 1]}
    same = {"at": [1, 1]}
    assert reader.latest(same, 0) is same


def test_an_offset_that_json_cannot_hold_is_refused():
    with pytest.raises(SourceError, match=r"'mine' failed.*initialOffset.*not JSON serializable"):
        opened("set").initial()


def test_what_the_source_raises_is_shown_with_its_traceback():
    with pytest.raises(SourceError, match=r"'mine'.*latestOffset: ConnectionError") as caught:
        opened("raises").latest({"at": [0, 1]}, 0)
    assert 'raise ConnectionError("the broker is down")' in str(caught.value)


def test_what_a_partition_raises_is_shown_with_its_traceback():
    with pytest.raises(SourceError, match="failed to read partition 0: OSError") as caught:
        read(opened("breaks"))
    assert 'raise OSError("connection reset")' in str(caught.value)


def test_rows_of_another_width_are_refused():
    with pytest.raises(SourceError, match="DATA_SOURCE_RETURN_SCHEMA_MISMATCH"):
        read(opened("short"))


def test_partitions_are_asked_once_per_timestep_and_again_for_a_replay(calls):
    reader = opened("moody", schema="n bigint, s string")
    start, end = {"at": [0, 1]}, {"at": [1, 1]}
    layout = reader.layout(start, end)
    reader.split_reader(start, end, layout)
    assert calls.count("partitions") == 1
    with pytest.raises(SourceError, match="must be a function of the two offsets"):
        opened("moody").split_reader(start, end, layout)


def test_partitions_of_the_timesteps_in_flight_are_known(calls):
    reader = opened("moody", schema="n bigint, s string")
    ranges = [({"at": [0, n]}, {"at": [0, n + 1]}) for n in range(3)]
    for start, end in ranges:
        reader.layout(start, end)
    for start, end in ranges:
        reader.layout(start, end)
    assert calls.count("partitions") == 3


def test_the_source_is_asked_one_question_at_a_time():
    inside, most = 0, 0

    class Slow:
        def commit(self, end):
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            time.sleep(0.002)
            inside -= 1

    reader = opened()
    reader._reader = Slow()
    threads = [
        threading.Thread(target=lambda: [reader.committed({"at": 1}) for _ in range(5)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_commit_and_stop_reach_the_source(calls):
    reader = opened()
    reader.committed({"at": [1, 1]})
    reader.close()
    assert calls[-2:] == [("commit", {"at": [1, 1]}), "stop"]


def test_an_instance_is_used_as_it_is():
    reader = PythonReader(
        PythonConnector(source=Source({"HOW": "well"}), schema=schema_of("n int"))
    )
    assert reader.schema == schema_of("n int")


def test_a_simple_reader_that_does_not_advance_is_refused():
    reader = PythonReader(PythonConnector(source=EndlessSource))
    with pytest.raises(SourceError, match="the stream would never advance"):
        reader.latest(reader.initial(), 0)
    reader.close()


def test_columns_that_cannot_be_read_are_named():
    class Strange(Source):
        def schema(self) -> str:
            return "n NO_SUCH_TYPE"

    with pytest.raises(DataflowError, match="NO_SUCH_TYPE"):
        PythonReader(PythonConnector(source=Strange))


def test_batches_have_the_columns_of_the_reader():
    reader = opened(schema="n bigint, s string")
    splits = reader.split_reader({}, {"at": 1}, [{"order": 0}])
    assert all(isinstance(b, pa.RecordBatch) for b in splits.read({"order": 0}))
    assert all(b.schema.equals(reader.schema) for b in splits.read({"order": 0}))


def test_a_timestep_that_has_nothing_of_it_reads_nothing():
    reader = opened()
    start = reader.initial()
    assert list(reader.split_reader(start, start, []).partitions) == []


def test_an_offset_that_goes_backwards_is_told_and_waited_for(monkeypatch):
    said = [{"at": [5, 1]}, {"at": [4, 1]}, {"at": [3, 1]}, {"at": [6, 1]}]
    reader = opened()
    monkeypatch.setattr("rechannel.sources.python._latest", lambda *_: said.pop(0))
    start = reader.latest({"at": [1, 1]}, 0)
    assert (start, reader.complaint) == ({"at": [5, 1]}, None)
    assert reader.latest(start, 0) is start
    assert "the end {'at': [4, 1]}, which is before its earlier end {'at': [5, 1]}" in str(
        reader.complaint
    )
    assert reader.latest(start, 0) is start
    assert reader.complaint is not None
    assert (reader.latest(start, 0), reader.complaint) == ({"at": [6, 1]}, None)
