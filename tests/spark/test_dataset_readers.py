"""Readers of a dataset on Spark, pandas and DuckDB, at once with publications and compactions."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest

import rechannel as rc
from rechannel.sinks.dataset.outlet import DatasetOutlet
from rechannel.sinks.dataset.reading import Output
from rechannel.sinks.dataset.wanted import Wanted
from rechannel.sinks.outlet import SinkContext
from tests.publishing import SCHEMA, publish

ROWS = 20
KEYS = 50

Sums = tuple[int, int, int]
"""Rows, different rows, and the sum of their numbers."""


def expected(timestep: int, *, keyed: bool) -> Sums:
    """Timestep t has rows (k, t) of 20 keys, one after the other, so that any three have all 50."""
    if not keyed:
        rows = ROWS * (timestep + 1)
        return rows, rows, rows * timestep // 2
    last = range(max(0, timestep - 3), timestep + 1)
    newest = {(t * ROWS + n) % KEYS: t for t in last for n in range(ROWS)}
    return len(newest), len(newest), sum(newest.values())


def _of(frame: pd.DataFrame) -> Sums:
    return len(frame), len(frame.drop_duplicates()), int(frame["n"].sum())


def by_pandas(output: Output) -> Sums:
    return _of(output.pandas() if output.keys else pd.read_parquet(output.files))


def by_duckdb(output: Output) -> Sums:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        query = f"SELECT count(*), count(DISTINCT (k, n)), sum(n) FROM ({output.duckdb()})"
        return tuple(map(int, connection.sql(query).fetchall()[0]))


def by_spark(spark) -> Callable[[Output], Sums]:
    def read(output: Output) -> Sums:
        from pyspark.sql import functions as F  # noqa: N812

        sums = F.count("*"), F.countDistinct("k", "n"), F.sum("n")
        return tuple(map(int, output.dataframe(spark).agg(*sums).first()))

    return read


class Writing:
    """Publishes timesteps until it is told to end; a thread of the sink compacts them."""

    def __init__(self, path: Path, *keys: str) -> None:
        wanted = Wanted(keys=keys, target=1 << 15, keep_ms=120_000)
        outlet = DatasetOutlet(path=str(path), wanted=wanted)
        self.writer = outlet.open(SinkContext(job="job", name="out", schema=SCHEMA, sync=False))
        self.writer.begin()
        self.ended = threading.Event()
        self.published = 0
        self.one()

    def one(self) -> None:
        rows = [((self.published * ROWS + n) % KEYS, self.published) for n in range(ROWS)]
        publish(self.writer, self.published, *rows)
        self.published += 1

    def run(self, most: Callable[[], float]) -> None:
        """most: timesteps that there may be by now."""
        while not self.ended.wait(0.02):
            if self.published < most():
                self.one()


def read_meanwhile(
    path: Path, keys: tuple[str, ...], readers: dict, times: dict[str, int], per_read: float
) -> Counter:
    """Read so many times with each reader, all at once. Returns reads by reader, and versions with a merge.

    per_read: timesteps that are published for each read: a dataset that grew by itself would have reads without end.
    """
    writing, done = Writing(path, *keys), Counter()

    def reads(name: str) -> None:
        for _ in range(times[name]):
            output = rc.read_output(path)
            assert readers[name](output) == expected(output.timestep, keyed=bool(keys)), output
            done[name] += 1

    with ThreadPoolExecutor(len(readers) + 1) as pool:
        writer = pool.submit(writing.run, lambda: 10 + per_read * done.total())
        try:
            list(pool.map(reads, readers))
        finally:
            writing.ended.set()
        writer.result()
    newest = rc.read_output(path)
    versions = range(max(newest.manifest.oldest, 1), newest.version + 1)
    done["merges"] = sum(bool(rc.read_output(path, version=n).manifest.removed) for n in versions)
    writing.writer.close()
    return done


@pytest.mark.parametrize("keys", [(), ("k",)])
def test_spark_reads_one_version_of_a_dataset_that_is_compacted(spark, tmp_path, keys):
    done = read_meanwhile(tmp_path, keys, {"spark": by_spark(spark)}, {"spark": 3}, 20)
    assert done["spark"] == 3
    assert done["merges"]


@pytest.mark.slow
def test_ten_thousand_reads_see_no_torn_and_no_double_row(spark, tmp_path):
    """By three tools at once, half of them of rows that are appended and half of rows by key."""
    pytest.importorskip("duckdb")
    readers = {"spark": by_spark(spark), "pandas": by_pandas, "duckdb": by_duckdb}
    times, began = {"spark": 400, "pandas": 2_300, "duckdb": 2_300}, time.monotonic()
    for keys in ((), ("k",)):
        done = read_meanwhile(tmp_path / f"{len(keys)}", keys, readers, times, 0.5)
        assert sum(done[name] for name in readers) == 5_000
        assert done["merges"] > 50
    print(f"10,000 reads in {time.monotonic() - began:.0f} s")
