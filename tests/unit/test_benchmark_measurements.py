"""Benchmarks: the arithmetic of measurements, the clock-driven source, and generated input."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import process
from benchmarks.clock_source import ClockSource, RowRange, Schedule, scattered
from benchmarks.inputs import batch_glob, keyed_rows, write_keyed_batches
from benchmarks.measurements import creation_ns, latencies_ms, rows_due, steady_seconds

# --- arithmetic of measurements -----------------------------------------------------------------


@given(
    start=st.integers(0, 10**18),
    rate=st.integers(1, 5_000),
    elapsed=st.integers(-10, 3 * 10**9),
)
def test_rows_due_are_the_rows_created_by_now(start: int, rate: int, elapsed: int) -> None:
    rows = np.arange(4 * rate, dtype=np.int64)
    created = creation_ns(rows, start_ns=start, rate=rate)
    assert rows_due(start + elapsed, start_ns=start, rate=rate) == int(
        (created <= start + elapsed).sum()
    )


def test_rows_are_created_at_an_even_rate() -> None:
    created = creation_ns(np.array([0, 1, 2, 3, 3_000_000]), start_ns=5, rate=3)
    assert created.tolist() == [
        5,
        333_333_338,
        666_666_671,
        1_000_000_005,
        1_000_000 * 10**9 + 5,
    ]


@given(cuts=st.lists(st.integers(1, 400), min_size=1, max_size=8), data=st.data())
def test_latency_is_commit_minus_creation_row_by_row(cuts: list[int], data: st.DataObject) -> None:
    edges = [0, *sorted(set(cuts))]
    first = data.draw(st.integers(0, edges[-1] - 1))
    end = data.draw(st.integers(first + 1, edges[-1]))
    commits = [(a, b, 10**9 * (i + 7)) for i, (a, b) in enumerate(pairwise(edges))]
    measured = latencies_ms(
        {"start_ns": 11, "commits": commits[::-1]}, rate=100, first_row=first, end_row=end
    )
    expected = [
        (committed - (11 + row * 10_000_000)) / 1e6
        for a, b, committed in commits
        for row in range(a, b)
        if first <= row < end
    ]
    assert measured.tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    "commits",
    [
        [],
        [(0, 5, 1), (6, 10, 2)],
        [(0, 6, 1), (5, 10, 2)],
        [(0, 9, 1)],
        [(1, 10, 1)],
    ],
)
def test_latency_refuses_rows_that_were_not_committed_exactly_once(
    commits: list[tuple[int, int, int]],
) -> None:
    with pytest.raises(ValueError, match="rows 0 to 10"):
        latencies_ms({"start_ns": 0, "commits": commits}, rate=1, first_row=0, end_row=10)


def test_warm_up_is_dropped_from_every_run() -> None:
    runs = [{"seconds": [9.0, 1.0, 2.0]}, {"seconds": [8.0, 3.0]}]
    assert steady_seconds(runs, 1).tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match="run more batches"):
        steady_seconds(runs, 2)


# --- the clock-driven source --------------------------------------------------------------------


@given(first=st.integers(0, 500), count=st.integers(0, 500), partitions=st.integers(1, 7))
def test_parts_hold_every_row_once(first: int, count: int, partitions: int) -> None:
    schedule = Schedule(start_ns=3, rate=50, keys=10, partitions=partitions)
    ranges = schedule.ranges(first, first + count)
    rows = [row for part in ranges for row in range(part.first, part.end)]
    assert rows == list(range(first, first + count))
    assert len(ranges) == (partitions if count else 0)


def test_a_row_does_not_depend_on_how_it_is_read() -> None:
    schedule = Schedule(start_ns=3, rate=50, keys=10, partitions=4)
    parts = [schedule.batch(part.first, part.end) for part in schedule.ranges(17, 90)]
    assert pa.Table.from_batches(parts).combine_chunks() == pa.table(schedule.batch(17, 90))


def test_keys_are_scattered_evenly() -> None:
    keys = scattered(np.arange(100_000), 50)
    counts = np.bincount(keys, minlength=50)
    assert len(counts) == 50
    assert counts.min() > 1_900
    assert counts.max() < 2_100


def test_the_source_reads_its_options_and_never_goes_back() -> None:
    options = {"start_ns": "0", "rate": "1000", "keys": "50", "partitions": "5"}
    reader = ClockSource(options).streamReader(None)
    assert reader.initialOffset() == {"rows": 0}
    far = {"rows": 10**18}
    assert reader.latestOffset(far, None) == far
    assert reader.latestOffset({"rows": 0}, None)["rows"] > 10**12
    parts = reader.partitions({"rows": 10}, {"rows": 20})
    assert [(p.first, p.end) for p in parts] == [(10, 12), (12, 14), (14, 16), (16, 18), (18, 20)]
    (batch,) = reader.read(RowRange(10, 12))
    assert batch["created_ns"].to_pylist() == [10_000_000, 11_000_000]
    assert reader.partitions({"rows": 10}, {"rows": 10}) == []


def test_workers_do_not_pay_for_tables_and_pictures() -> None:
    code = "import sys, benchmarks.clock_source; print([m for m in ('rich', 'matplotlib') if m in sys.modules])"
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=process.environment(os.environ),
    )
    assert told.stdout.strip() == "[]"


# --- input --------------------------------------------------------------------------------------


def test_input_is_the_same_from_the_same_seed(tmp_path: Path) -> None:
    shape = {"rows": 101, "keys": 7, "batches": 3, "files": 2}
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_keyed_batches(tmp_path / name, seed=seed, **shape)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == [f"batch-{b:05d}-part-{f}.parquet" for b in range(3) for f in range(2)]
    for name in files:
        same = (tmp_path / "a" / name).read_bytes()
        assert (tmp_path / "b" / name).read_bytes() == same
        assert (tmp_path / "c" / name).read_bytes() != same


def test_input_has_the_promised_rows_keys_and_order(tmp_path: Path) -> None:
    write_keyed_batches(tmp_path / "in", rows=101, keys=7, batches=3, files=2, seed=1)
    paths = sorted((tmp_path / "in").iterdir())
    times = [path.stat().st_mtime_ns for path in paths]
    assert times == sorted(set(times))
    assert [pq.read_metadata(path).num_rows for path in paths] == [50, 51] * 3
    table = pq.read_table(paths[0])
    assert table.schema == pa.schema({"key": pa.int64(), "value": pa.int64()})
    keys = keyed_rows(5_000, keys=7, seed=(1,))["key"].to_numpy()
    assert set(keys.tolist()) == set(range(7))


def test_the_glob_names_the_first_batches() -> None:
    assert batch_glob(2) == "{batch-00000,batch-00001}-part-*.parquet"
