"""One contract, inherited by every source that runs without a JVM."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)

from rechannel.sources.connector import SourceContext
from rechannel.sources.connectors import (
    FilesConnector,
    GeneratorConnector,
    MemoryConnector,
    PythonConnector,
)
from rechannel.sources.ingest.connector import IngestConnector
from rechannel.sources.reader import Offset, SourceReader, Split
from rechannel.state.stores.memory import MemoryStore
from tests.support.ingesting import posted, writer_of


def journalled(value: Any) -> Any:
    return json.loads(json.dumps(value))


def read(reader: SourceReader, start: Offset, end: Offset, layout: list[Split]) -> list[int]:
    """What tasks read: splits in order, each through a reader that travelled to a worker."""
    splits = reader.split_reader(start, end, layout)
    shipped = pickle.loads(cloudpickle.dumps(splits))
    out: list[int] = []
    for split in sorted(layout, key=lambda split: int(split["order"])):
        for batch in shipped.read(split):
            assert batch.schema.equals(reader.schema)
            out += batch.column("n").to_pylist()
    return out


class SourceContract:
    """`more(rows)` makes rows available that continue at `self.made`."""

    made = 0

    def connector(self, tmp_path: Path) -> Any:
        raise NotImplementedError

    def more(self, connector: Any, rows: int) -> None:
        raise NotImplementedError

    @pytest.fixture
    def source(self, tmp_path) -> Any:
        self.made = 0
        return self.connector(tmp_path)

    def open(self, connector: Any, store: MemoryStore) -> SourceReader:
        return connector.open(SourceContext(store=store, name="in"))

    def grow(self, connector: Any, rows: int) -> None:
        self.more(connector, rows)
        self.made += rows

    def test_starts_at_its_initial_offset_with_the_declared_columns(self, source):
        reader = self.open(source, MemoryStore())
        assert reader.native
        assert reader.schema.names == ["n"]
        start = reader.initial()
        assert journalled(start) == start
        assert reader.initial() == start

    def test_nothing_new_is_the_same_offset(self, source):
        self.grow(source, 5)
        reader = self.open(source, MemoryStore())
        end = self.all_of(reader, reader.initial())
        assert reader.latest(end, 10_000) == end

    def all_of(self, reader: SourceReader, start: Offset) -> Offset:
        for _ in range(100):
            end = reader.latest(start, 10_000)
            if end == start:
                return end
            start = end
        raise AssertionError

    def test_every_row_is_read_once_and_in_order(self, source):
        reader, got = self.open(source, MemoryStore()), []
        end = reader.initial()
        for rows in (7, 1, 12):
            self.grow(source, rows)
            start = end
            while (end := reader.latest(start, 10_000)) != start:
                layout = journalled(reader.layout(start, end))
                orders = [split["order"] for split in layout]
                assert orders == sorted(set(orders))
                got += read(reader, start, end, layout)
                reader.committed(end)
                start = end
        assert got == list(range(20))
        reader.close()

    def test_a_replay_after_a_restart_reads_the_same_splits(self, source):
        store = MemoryStore()
        self.grow(source, 9)
        first = self.open(source, store)
        start = first.initial()
        end = first.latest(start, 10_000)
        layout = first.layout(start, end)
        before = read(first, start, end, layout)
        first.close()
        again = self.open(source, store)
        start, end, layout = journalled([start, end, layout])
        assert read(again, start, end, layout) == before
        self.grow(source, 4)
        last = self.all_of(again, end)
        assert read(again, end, last, again.layout(end, last)) == list(range(len(before), 13))

    def test_looking_twice_loses_nothing(self, source):
        self.grow(source, 3)
        reader = self.open(source, MemoryStore())
        start = reader.initial()
        reader.latest(start, 10_000)
        self.grow(source, 3)
        end = self.all_of(reader, start)
        rows, at = [], start
        while at != end:
            next_ = reader.latest(at, 10_000)
            rows += read(reader, at, next_, reader.layout(at, next_))
            at = next_
        assert rows == list(range(6))


class TestParquetFiles(SourceContract):
    bound: int | None = None

    def connector(self, tmp_path):
        (tmp_path / "in").mkdir()
        return FilesConnector(
            path=str(tmp_path / "in" / "*.parquet"),
            format="parquet",
            schema="n bigint",
            per_timestep=self.bound,
        )

    def more(self, connector, rows):
        path = Path(connector.path).parent / f"{self.made:04d}.parquet"
        values = range(self.made, self.made + rows)
        pq.write_table(pa.table({"n": values}), path, row_group_size=3)
        os.utime(path, (self.made, self.made))


class TestParquetFilesOneAtATime(TestParquetFiles):
    bound = 1


class TestMemory(SourceContract):
    partitions = 1
    bound: int | None = None

    def connector(self, tmp_path):
        return MemoryConnector(
            schema="n bigint", partitions=self.partitions, per_timestep=self.bound
        )

    def more(self, connector, rows):
        connector.push([{"n": i} for i in range(self.made, self.made + rows)])


class TestMemoryInPieces(TestMemory):
    partitions = 3
    bound = 2


class TestIngested(SourceContract):
    bound: int | None = None

    def connector(self, tmp_path):
        writer_of(tmp_path / "log")
        return IngestConnector(path=str(tmp_path / "log"), per_timestep=self.bound)

    def more(self, connector, rows):
        writer = writer_of(Path(connector.path))
        for first in range(self.made, self.made + rows, 2):
            writer.keep([posted(range(first, min(first + 2, self.made + rows)))])


class TestIngestedBounded(TestIngested):
    bound = 3


def numbers(start: int, stop: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(range(start, stop), pa.int64())})


class TestGenerator(SourceContract):
    """Only the clock makes rows appear; the total stands in for it."""

    def connector(self, tmp_path):
        return GeneratorConnector(function=numbers, schema="n bigint", rows=1, partitions=2)

    def more(self, connector, rows):
        object.__setattr__(connector, "rows", self.made + rows)


class TestGeneratorBounded(TestGenerator):
    def connector(self, tmp_path):
        return GeneratorConnector(
            function=numbers, schema="n bigint", rows=1, partitions=3, per_timestep=4
        )


class Part(InputPartition):
    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop


class Reader(DataSourceStreamReader):
    """Reads up to the number of rows that a file names."""

    def __init__(self, options: dict[str, str]) -> None:
        self.end, self.arrow = Path(options["end"]), options.get("ARROW") == "true"

    def initialOffset(self) -> dict:  # noqa: N802 - Spark's name
        return {"at": 0}

    def latestOffset(self, start: dict, limit: Any) -> dict:  # noqa: N802
        assert type(limit).__name__ == "ReadAllAvailable"
        return {"at": int(self.end.read_text())}

    def partitions(self, start: dict, end: dict) -> list[InputPartition]:
        middle = (start["at"] + end["at"]) // 2
        return [Part(start["at"], middle), Part(middle, end["at"])]

    def read(self, partition: Part) -> Iterator[Any]:
        if self.arrow:
            yield numbers(partition.start, partition.stop)
        else:
            yield from ((i,) for i in range(partition.start, partition.stop))

    def commit(self, end: dict) -> None:
        self.committed = end


class OldReader(Reader):
    def latestOffset(self) -> dict:  # type: ignore[override]  # noqa: N802
        return {"at": int(self.end.read_text())}


class Simple(SimpleDataSourceStreamReader):
    def __init__(self, options: dict[str, str]) -> None:
        self.end = Path(options["end"])

    def initialOffset(self) -> dict:  # noqa: N802
        return {"at": 0}

    def read(self, start: dict) -> tuple[Iterator[tuple], dict]:
        end = {"at": int(self.end.read_text())}
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start: dict, end: dict) -> Iterator[tuple]:  # noqa: N802
        return iter([(i,) for i in range(start["at"], end["at"])])


class Numbers(DataSource):
    def schema(self) -> str:
        return "n bigint"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return Reader(self.options)


class OldNumbers(Numbers):
    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return OldReader(self.options)


class SimpleNumbers(DataSource):
    def schema(self) -> str:
        return "n bigint"

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:  # noqa: N802
        return Simple(self.options)


class TestPythonRows(SourceContract):
    kind: type[DataSource] = Numbers
    options: dict[str, str] = {}  # noqa: RUF012 - read only

    def connector(self, tmp_path):
        (tmp_path / "end").write_text("0")
        options = {"END": str(tmp_path / "end"), **self.options}
        return PythonConnector(source=self.kind, options=options)

    def more(self, connector, rows):
        Path(connector.options["END"]).write_text(str(self.made + rows))


class TestPythonArrow(TestPythonRows):
    options = {"arrow": "true"}  # noqa: RUF012


class TestPythonWithoutLimits(TestPythonRows):
    kind = OldNumbers


class TestPythonSimple(TestPythonRows):
    kind = SimpleNumbers
