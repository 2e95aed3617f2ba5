"""What has arrived at a source and is not read."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import DataSource, DataSourceStreamReader

from rechannel.errors import SourceError
from rechannel.sources.backlog import Backlog, Backlogged, BytesPerRow, left_of
from rechannel.sources.connector import SourceContext
from rechannel.sources.connectors import (
    FilesConnector,
    GeneratorConnector,
    MemoryConnector,
    PythonConnector,
)
from rechannel.sources.reader import Bound
from rechannel.state.stores.memory import MemoryStore


def opened(connector):
    return connector.open(SourceContext(store=MemoryStore(), name="in"))


def numbers(start, stop):
    return pa.RecordBatch.from_pydict({"n": pa.array(range(start, stop), pa.int64())})


@pytest.mark.parametrize("wrong", [{}, {"rows": 1, "bytes": 1}, {"rows": -1}, {"bytes": -1}])
def test_a_backlog_is_rows_or_bytes(wrong):
    with pytest.raises(ValueError, match=r"give rows or bytes|negative"):
        Backlog(**wrong)


def test_of_pushed_batches_it_is_the_rows_of_those_that_are_left():
    connector = MemoryConnector(schema="n bigint", per_timestep=1)
    reader = opened(connector)
    assert reader.backlog(reader.initial(), 0) == Backlog(rows=0)
    for rows in (3, 5, 7):
        connector.push([{"n": n} for n in range(rows)])
    left, end = [], reader.initial()
    for _ in range(3):
        end = reader.latest(end, 0)
        left.append(reader.backlog(end, 0).rows)
    assert left == [12, 7, 0]


def test_pushed_batches_that_a_restart_has_lost_are_no_backlog():
    connector = MemoryConnector(schema="n bigint")
    assert opened(connector).backlog({"batches": 3}, 0) == Backlog(rows=0)
    connector.push([{"n": 1}])
    assert opened(connector).backlog({"batches": 3}, 0) == Backlog(rows=0)


def test_of_a_generator_it_is_what_is_due():
    source = GeneratorConnector(
        function=numbers, schema="n bigint", rows_per_second=100, per_timestep=30, rows=250
    )
    reader = opened(source)
    start = {"rows": 0, "since_ms": 0}
    assert reader.backlog(reader.latest(start, 2_000), 2_000) == Backlog(rows=170)
    assert reader.backlog({"rows": 230, "since_ms": 0}, 9_000) == Backlog(rows=20)
    assert reader.backlog(reader.initial(), 9_000) == Backlog(rows=0)


def test_a_generator_without_a_rate_has_no_demand_of_its_own():
    reader = opened(GeneratorConnector(function=numbers, schema="n bigint", rows=10))
    assert reader.backlog(reader.initial(), 0) is None


def test_of_files_it_is_the_bytes_on_disk(tmp_path):
    for number in range(4):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"n": range(number * 1_000)}), path)
        os.utime(path, (number, number))
    sizes = [(tmp_path / f"{n}.parquet").stat().st_size for n in range(4)]
    assert len(set(sizes)) == 4
    reader = opened(FilesConnector(format="parquet", path=str(tmp_path), per_timestep=2))
    end = reader.latest(reader.initial(), 0)
    assert reader.backlog(end, 0) == Backlog(
        bytes=sum(sizes[2:]), taken_bytes=sum(sizes[:2]), files=2
    )
    assert reader.backlog(reader.initial(), 0) is None
    end = reader.latest(end, 0)
    assert reader.backlog(end, 0) == Backlog(bytes=0, taken_bytes=sum(sizes[2:]), files=0)
    assert reader.backlog(reader.latest(end, 0), 0) == Backlog(bytes=0, files=0)


def test_of_a_file_that_is_read_in_part_the_rest_is_left(tmp_path):
    rows, group = 12_000, 3_000
    path = tmp_path / "one.parquet"
    pq.write_table(pa.table({"n": range(rows)}), path, row_group_size=group)
    size = path.stat().st_size
    reader = opened(FilesConnector(format="parquet", path=str(tmp_path)))
    end, left, taken = reader.initial(), [], []
    for _ in range(4):
        end = reader.latest(end, 0, Bound(bytes=1))
        found = reader.backlog(end, 0)
        left.append(found.bytes)
        taken.append(found.taken_bytes)
    assert left == pytest.approx([size * 3 / 4, size / 2, size / 4, 0], rel=0.05, abs=1)
    assert sum(taken) == pytest.approx(size, abs=4)


@given(
    sizes=st.lists(st.integers(0, 1_000), min_size=1, max_size=9),
    data=st.data(),
)
def test_what_is_taken_and_what_is_left_are_all(sizes, data):
    taken = data.draw(st.integers(1, len(sizes)))
    done = data.draw(st.floats(0, 0.5))
    stop = data.draw(st.none() | st.floats(0.5, 1))
    found = left_of(sizes, taken, done, stop)
    there = sum(sizes) - done * sizes[0]
    assert found.bytes + found.taken_bytes == pytest.approx(there, abs=1)
    assert found.files == len(sizes) - taken


class Counts(DataSource):
    def schema(self):
        return "n bigint"

    def streamReader(self, schema):  # noqa: N802 - as PySpark names it
        return CountsReader(self.options["file"])


class CountsReader(DataSourceStreamReader):
    def __init__(self, file):
        self.file = file

    def initialOffset(self):  # noqa: N802 - as PySpark names it
        return {"n": 0}

    def latestOffset(self):  # noqa: N802 - as PySpark names it
        return {"n": 1}

    def partitions(self, start, end):
        return []

    def read(self, partition):
        return iter(())

    def backlog(self, offset):
        return eval(Path(self.file).read_text()) if offset["n"] else None


class Plain(Counts):
    def streamReader(self, schema):  # noqa: N802 - as PySpark names it
        return PlainReader()


class PlainReader(DataSourceStreamReader):
    def read(self, partition):
        return iter(())

    def initialOffset(self):  # noqa: N802 - as PySpark names it
        return {"n": 0}


def test_a_python_data_source_says_it_itself(tmp_path):
    file = tmp_path / "says"
    reader = opened(PythonConnector(source=Counts, options={"file": str(file)}))
    assert reader.backlog({"n": 0}, 0) is None
    file.write_text("41 + 1")
    assert reader.backlog({"n": 1}, 0) == Backlog(rows=42)
    for wrong in ("1.5", "-1", "1 / 0"):
        file.write_text(wrong)
        with pytest.raises(SourceError, match="failed in backlog"):
            reader.backlog({"n": 1}, 0)
    silent = opened(PythonConnector(source=Plain, options={}))
    assert isinstance(silent, Backlogged)
    assert silent.backlog({"n": 1}, 0) is None


def test_rows_follow_from_the_bytes_of_the_last_timesteps():
    known = BytesPerRow()
    assert known.rows(0) == 0
    assert known.rows(100) is None
    known.see(0, 500)
    assert known.rows(100) is None
    known.see(10, 1_000)
    assert known.rows(5_000) == 50
    for _ in range(40):
        known.see(10, 200)
    assert known.rows(5_000) == pytest.approx(250, rel=0.01)
