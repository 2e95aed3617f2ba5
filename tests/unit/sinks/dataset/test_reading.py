"""Readers of a dataset, while it is written and compacted by a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rechannel as rc
from rechannel.errors import NotReadyError, RefusedError
from rechannel.sinks.dataset.outlet import DatasetOutlet
from rechannel.sinks.dataset.reading import Output
from rechannel.sinks.dataset.wanted import Wanted
from rechannel.sinks.outlet import SinkContext
from tests.datasets import Disk
from tests.publishing import SCHEMA, publish

ROWS = 20
KEYS = 50

Read = Callable[[Output], pa.Table]


def by_pandas(output: Output) -> pa.Table:
    if output.keys:
        return pa.Table.from_pandas(output.pandas(), preserve_index=False)
    return pa.Table.from_pandas(pd.read_parquet(output.files), preserve_index=False)


def by_pyarrow(output: Output) -> pa.Table:
    return output.table() if output.keys else output.dataset().to_table()


def by_polars(output: Output) -> pa.Table:
    return output.polars().collect().to_arrow()


def by_file_list(output: Output) -> pa.Table:
    if not output.is_plain:
        return output.table()
    return pa.concat_tables(
        [pq.read_table(each, schema=SCHEMA, partitioning=None) for each in output.files]
    )


READERS = {"pandas": by_pandas, "pyarrow": by_pyarrow, "polars": by_polars, "files": by_file_list}


def expected_sum(timestep: int, *, keyed: bool) -> tuple[int, int]:
    """Rows up to a timestep, and the sum of their numbers. Timestep t has rows (k, t) for 20 keys."""
    if not keyed:
        return ROWS * (timestep + 1), ROWS * timestep * (timestep + 1) // 2
    last: dict[int, int] = {}
    for each in range(timestep + 1):
        last |= {(each * ROWS + n) % KEYS: each for n in range(ROWS)}
    return len(last), sum(last.values())


def check(output: Output, rows: pa.Table) -> None:
    """Neither a row too many nor one too few, for the timestep that the version says."""
    timestep = -1 if output.timestep is None else output.timestep
    count, total = expected_sum(timestep, keyed=bool(output.keys))
    numbers = rows["n"].to_pylist()
    assert (len(numbers), sum(numbers)) == (count, total), output
    if output.keys:
        assert len(set(rows["k"].to_pylist())) == count


class Writing:
    """A sink that publishes timesteps in a thread until it is told to end, and compacts them in another."""

    def __init__(self, path: Path, *keys: str, keep_ms: int = 60_000) -> None:
        wanted = Wanted(keys=keys, target=1 << 14, keep_ms=keep_ms)
        outlet = DatasetOutlet(path=str(path), wanted=wanted)
        self.writer = outlet.open(SinkContext(job="job", name="out", schema=SCHEMA, sync=False))
        self.writer.begin()
        self.published = 0
        self.ended = threading.Event()
        self._one()

    def _one(self) -> None:
        rows = [((self.published * ROWS + n) % KEYS, self.published) for n in range(ROWS)]
        publish(self.writer, self.published, *rows)
        self.published += 1

    def run(self) -> None:
        while not self.ended.is_set():
            self._one()
            self.ended.wait(0.001)


@pytest.mark.parametrize("keys", [(), ("k",)])
def test_no_reader_ever_sees_a_row_twice_or_misses_one(tmp_path, keys):
    """A few hundred reads by four tools, at once with publications and compactions."""
    writing = Writing(tmp_path, *keys)
    versions: set[int] = set()

    def reads(read: Read) -> int:
        for _ in range(30):
            output = rc.read_output(tmp_path)
            check(output, read(output))
            versions.add(output.version)
        return 30

    with ThreadPoolExecutor(5) as pool:
        writer = pool.submit(writing.run)
        try:
            done = list(pool.map(reads, READERS.values()))
        finally:
            writing.ended.set()
        writer.result()
    assert sum(done) == 120
    made = range(1, rc.read_output(tmp_path).version)
    merged = [n for n in made if rc.read_output(tmp_path, version=n).manifest.removed]
    assert merged
    assert len(versions) > 1
    until = time.monotonic() + 60
    while len(rc.read_output(tmp_path).named) > 40 and time.monotonic() < until:
        time.sleep(0.01)
    writing.writer.close()
    output = rc.read_output(tmp_path)
    for read in READERS.values():
        check(output, read(output))


def test_one_version_stays_the_same_for_every_tool(tmp_path):
    writing = Writing(tmp_path)
    output = rc.read_output(tmp_path)
    for _ in range(60):
        writing._one()
    writing.writer.close()
    for read in READERS.values():
        check(output, read(output))
    assert rc.read_output(tmp_path, version=output.version).all_files == output.all_files


def test_files_of_rows_that_others_replace_are_not_handed_out_as_a_list():
    disk = Disk(Wanted(keys=("k",), target=1 << 11))
    driver = disk.driver()
    driver.publish(0, (1, 1), (2, 1))
    assert disk.read().is_plain
    assert len(disk.read().files) == 1
    driver.publish(1, (2, 2))
    with pytest.raises(NotReadyError, match=r"read it with table\(\)"):
        _ = disk.read().files
    assert len(disk.read().all_files) == 2
    assert disk.rows() == [(1, 1), (2, 2)]


def test_partitions_are_chosen_by_their_values(tmp_path):
    outlet = DatasetOutlet(path=str(tmp_path), wanted=Wanted(partitions=("k",)))
    writer = outlet.open(SinkContext(job="job", name="out", schema=SCHEMA))
    writer.begin()
    publish(writer, 0, (1, 10), (2, 20), (1, 11), (None, 30))
    writer.close()
    assert sorted(rc.read_output(tmp_path, where={"k": 1}).table()["n"].to_pylist()) == [10, 11]
    assert rc.read_output(tmp_path, where={"k": None}).table()["n"].to_pylist() == [30]
    assert rc.read_output(tmp_path, where={"k": 9}).table().num_rows == 0
    with pytest.raises(
        RefusedError, match="'n' is no partition column of this dataset, which has k"
    ):
        rc.read_output(tmp_path, where={"n": 1})


def test_a_path_without_a_manifest_and_a_version_that_is_gone_are_named(tmp_path):
    with pytest.raises(NotReadyError, match="has no manifest"):
        rc.read_output(tmp_path)
    Writing(tmp_path).writer.close()
    with pytest.raises(NotReadyError, match="has no version 99"):
        rc.read_output(tmp_path, version=99)


def test_a_dataset_without_rows_has_its_columns(tmp_path):
    outlet = DatasetOutlet(path=str(tmp_path))
    writer = outlet.open(SinkContext(job="job", name="out", schema=SCHEMA))
    writer.begin()
    writer.close()
    output = rc.read_output(tmp_path)
    assert output.timestep is None
    assert output.table().schema.equals(SCHEMA)
    assert output.polars().collect().columns == ["k", "n"]
    with pytest.raises(NotReadyError, match="has no rows yet"):
        output.duckdb()


def test_readers_of_a_folder_see_nothing_rather_than_files_that_were_replaced(tmp_path):
    writing = Writing(tmp_path)
    for _ in range(20):
        writing._one()
    writing.writer.close()
    assert list(tmp_path.rglob("*.parquet")) == []
    assert pq.ParquetDataset(tmp_path).files == []
    assert {each.name for each in tmp_path.iterdir()} == {"_rechannel", "_files"}


def test_a_folder_of_one_version_stays_as_it_is_for_tools_that_read_folders(tmp_path):
    writing = Writing(tmp_path / "out")
    folder = rc.read_output(tmp_path / "out").link(tmp_path / "folder")
    for _ in range(20):
        writing._one()
    writing.writer.close()
    assert len(pd.read_parquet(folder)) == ROWS
    with pytest.raises(RefusedError, match="link to a new folder"):
        rc.read_output(tmp_path / "out").link(folder)


def test_a_folder_of_a_dataset_elsewhere_has_copies(tmp_path):
    disk = Disk()
    disk.driver().publish(0, (1, 1), (2, 2))
    assert pd.read_parquet(disk.read().link(tmp_path / "folder"))["n"].tolist() == [1, 2]
