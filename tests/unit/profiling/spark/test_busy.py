"""Merged intervals, compared with a set of milliseconds."""

import numpy as np
import pytest

from rechannel.profiling.model.trace import MS
from rechannel.profiling.spark.busy import Busy, busy, closed, merged, worked


def test_merged_intervals_cover_the_same_time():
    rng = np.random.default_rng(4)
    starts = rng.integers(0, 500, 60)
    spans = np.column_stack([starts, starts + rng.integers(0, 20, 60)])
    known = {time for start, end in spans.tolist() for time in range(start, end)}
    found = merged(spans)
    assert {time for start, end in found.tolist() for time in range(start, end)} == known
    assert (found[1:, 0] > found[:-1, 1]).all()


def test_time_within_spans():
    covered = Busy(intervals=np.array([[10, 20], [30, 35]]) * MS)
    assert covered.within([0, 15, 20, 0], [40, 32, 30, 5]).tolist() == [15, 7, 0, 0]
    assert Busy(intervals=np.empty((0, 2), dtype=np.int64)).within([0], [5]).tolist() == [0]


def test_the_shortest_gaps_are_closed():
    spans = np.array([[0, 1], [5, 6], [7, 8], [20, 21]])
    assert closed(spans, 2).tolist() == [[0, 8], [20, 21]]
    assert closed(spans, 4) is spans


@pytest.mark.parametrize("parts", [1, 3])
def test_blocks_of_rows_are_merged(parts):
    rows = np.array([(0, 4), (2, 6), (9, 10), (1, 3)], dtype=[("a", "i8"), ("b", "i8")])
    blocks = np.array_split(rows, parts)
    assert busy(blocks, lambda each: (each["a"], each["b"])).intervals.tolist() == [[0, 6], [9, 10]]


def test_work_before_some_times():
    rng = np.random.default_rng(5)
    starts = rng.integers(0, 500, 60)
    spans = np.column_stack([starts, starts + rng.integers(0, 20, 60)])
    blocks = [spans[:25] * MS, spans[25:] * MS]
    times = [0, 100, 250, 600]
    known = [sum(min(end, time) - min(start, time) for start, end in spans) for time in times]
    assert worked(blocks, lambda rows: (rows[:, 0], rows[:, 1]), times).tolist() == known
    assert worked([], lambda rows: (rows, rows), times).tolist() == [0, 0, 0, 0]
