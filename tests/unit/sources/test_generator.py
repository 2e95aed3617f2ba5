"""Rows as a function of their offset, on a clock."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.errors import SourceError, UserFunctionError
from rechannel.sources import generator
from rechannel.sources.connectors import GeneratorConnector
from rechannel.sources.cutting import row_bytes
from rechannel.sources.generator import GeneratorReader
from rechannel.sources.reader import Bound


def numbers(start: int, stop: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(range(start, stop), pa.int64())})


def reader(function=numbers, **arguments) -> GeneratorReader:
    return GeneratorReader(GeneratorConnector(function=function, schema="n bigint", **arguments))


def split(start: int, stop: int) -> dict:
    return {"order": 0, "start": start, "stop": stop}


def test_the_clock_starts_with_the_first_look():
    source = reader(rows_per_second=100)
    start = source.initial()
    assert source.latest(start, 5_000) is start
    assert source.latest(start, 5_250) == {"rows": 25, "since_ms": 5_000}
    assert source.latest({"rows": 25, "since_ms": 5_000}, 6_000)["rows"] == 100


def test_the_clock_goes_on_over_a_restart():
    assert reader(rows_per_second=10).latest({"rows": 3, "since_ms": 0}, 1_000)["rows"] == 10


def test_what_is_due_is_taken_within_the_bounds():
    source = reader(rows_per_second=1_000, per_timestep=30, rows=100)
    offset = source.latest(source.initial(), 0)
    taken = []
    for _ in range(6):
        offset = source.latest(offset if offset["rows"] else {"rows": 0, "since_ms": 0}, 60_000)
        taken.append(offset["rows"])
    assert taken == [30, 60, 90, 100, 100, 100]


def test_a_clock_that_goes_back_gives_nothing():
    start = {"rows": 50, "since_ms": 1_000}
    assert reader(rows_per_second=10).latest(start, 900) is start


@given(
    first=st.integers(0, 10_000),
    count=st.integers(0, 1_000),
    partitions=st.integers(1, 12),
)
def test_partitions_share_the_rows_evenly(first, count, partitions):
    source = reader(per_timestep=10, partitions=partitions)
    layout = source.layout({"rows": first}, {"rows": first + count})
    assert [i for s in layout for i in range(s["start"], s["stop"])] == list(
        range(first, first + count)
    )
    sizes = [s["size"] for s in layout]
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert len(layout) == min(partitions, count)


def test_large_splits_are_made_in_chunks(monkeypatch):
    monkeypatch.setattr(generator, "_CHUNK_ROWS", 4)
    asked = []

    def remember(start: int, stop: int) -> pa.RecordBatch:
        asked.append((start, stop))
        return numbers(start, stop)

    source = reader(remember, per_timestep=1)
    batches = list(source.split_reader({}, {}, []).read(split(3, 12)))
    assert asked == [(3, 7), (7, 11), (11, 12)]
    assert [n for batch in batches for n in batch.column(0).to_pylist()] == list(range(3, 12))


def test_columns_are_put_in_the_declared_order_and_types():
    def other(start: int, stop: int) -> pa.RecordBatch:
        rows = stop - start
        return pa.RecordBatch.from_pydict({"x": ["-"] * rows, "n": pa.array([1] * rows, pa.int8())})

    (batch,) = reader(other, per_timestep=1).split_reader({}, {}, []).read(split(0, 2))
    assert batch.schema.equals(pa.schema([("n", pa.int64())]))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda start, stop: numbers(start, stop + 1),
            "must return a RecordBatch of 2 rows, not 3",
        ),
        (lambda start, stop: [1, 2], "must return a RecordBatch of 2 rows, not list"),
        (lambda start, stop: numbers(0, 2).rename_columns(["m"]), r"\['n'\] are declared"),
        (
            lambda start, stop: pa.RecordBatch.from_pydict({"n": ["x", "y"]}),
            "do not fit the declared ones",
        ),
    ],
)
def test_a_function_that_returns_something_else_is_refused(function, message):
    with pytest.raises(SourceError, match=message):
        list(reader(function, per_timestep=1).split_reader({}, {}, []).read(split(0, 2)))


def test_a_function_that_raises_is_shown_with_its_traceback():
    def broken(start: int, stop: int) -> pa.RecordBatch:
        raise KeyError("no such thing")

    with pytest.raises(UserFunctionError, match=r"broken\(0, 2\) raised KeyError") as caught:
        list(reader(broken, per_timestep=1).split_reader({}, {}, []).read(split(0, 2)))
    assert 'raise KeyError("no such thing")' in str(caught.value)


def test_what_is_owed_after_a_pause_comes_in_several_timesteps():
    source = reader(rows_per_second=10)
    offset, ends = {"rows": 0, "since_ms": 0}, []
    for stream_ms in (1_000_000, 1_000_100, 1_000_200):
        offset = source.latest(offset, stream_ms, Bound(span_ms=60_000))
        ends.append(offset["rows"])
    assert ends == [600, 1_200, 1_800]


def test_a_slow_rate_still_gives_a_row():
    source = reader(rows_per_second=0.001)
    start = {"rows": 0, "since_ms": 0}
    assert source.latest(start, 10_000_000, Bound(span_ms=60_000))["rows"] == 1


def test_rows_are_cut_by_the_bytes_that_their_columns_take():
    width = row_bytes(reader(per_timestep=1).schema)
    source = reader(per_timestep=1_000)
    ends = [source.latest(source.initial(), 0, Bound(bytes=b))["rows"] for b in (1, 5 * width)]
    assert ends == [1, 5]
