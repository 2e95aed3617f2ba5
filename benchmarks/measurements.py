"""The two shapes of measurement that a variant may return, and how they become figures. Pure.

Batches: how long each batch took. For an engine that overlaps batches, the time that a batch
*added* (from the commit before it to its own), so that a run's figures sum up to its elapsed time.

Latency: which rows were committed when. Row i exists from ``start_ns + i * 1e9 / rate`` on, whether
or not the engine was ready for it, so a stall is charged to every row that had to wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

import numpy as np
import numpy.typing as npt

from benchmarks.harness import Measurement

NANOSECONDS = 1_000_000_000


class BatchMeasurement(TypedDict):
    """`seconds` and `rows`: one entry per batch of the input, in order, the first ones included."""

    seconds: list[float]
    rows: list[int]
    phases: NotRequired[dict[str, list[float]]]
    """Milliseconds that each named part of a batch took, one entry per batch."""
    latencies: NotRequired[list[float]]
    """Seconds from the beginning of a batch to its commit, one per batch; not `seconds` where batches overlap."""
    processor: NotRequired[list[float]]
    """Seconds of processor time, of all processes together, that passed in the `seconds` of every batch."""


class LatencyMeasurement(TypedDict):
    """`commits` holds ``(first row, row after the last, time of the commit in ns since 1970)``."""

    start_ns: int
    commits: list[tuple[int, int, int]]
    phases: dict[str, list[float]]


def steady_seconds(measurements: Sequence[Measurement], warmup: int) -> npt.NDArray[np.float64]:
    """Batch times of all runs of a variant without the first `warmup` batches of each run.

    Raises `ValueError` if a run has no batch left.
    """
    return steady(measurements, warmup, "seconds")


def steady(
    measurements: Sequence[Measurement], warmup: int, figure: str
) -> npt.NDArray[np.float64]:
    """`steady_seconds` of another figure that measurements have for every batch."""
    kept = [np.asarray(m[figure][warmup:], dtype=np.float64) for m in measurements]
    if any(len(values) == 0 for values in kept):
        raise ValueError(f"a run has no batch after {warmup} of warm-up; run more batches")
    return np.concatenate(kept)


def latencies_ms(
    measurement: Measurement, *, rate: int, first_row: int, end_row: int
) -> npt.NDArray[np.float64]:
    """Milliseconds from creation to commit of ``first_row <= row < end_row``, in row order.

    Raises `ValueError` unless every one of these rows was committed exactly once: a missing tail
    would hide the slowest rows.
    """
    commits = np.asarray(sorted(measurement["commits"]), dtype=np.int64).reshape(-1, 3)
    first = np.maximum(commits[:, 0], first_row)
    count = np.maximum(np.minimum(commits[:, 1], end_row) - first, 0)
    used = count > 0
    first, count, committed = first[used], count[used], commits[used, 2]
    ends = first + count
    whole = (
        len(first) > 0
        and first[0] == first_row
        and ends[-1] == end_row
        and bool(np.all(first[1:] == ends[:-1]))
    )
    if not whole:
        raise ValueError(f"rows {first_row} to {end_row} were not each committed once")
    rows = np.arange(first_row, end_row, dtype=np.int64)
    created = creation_ns(rows, start_ns=measurement["start_ns"], rate=rate)
    return (np.repeat(committed, count) - created) / 1e6


def creation_ns(rows: npt.NDArray[np.int64], *, start_ns: int, rate: int) -> npt.NDArray[np.int64]:
    """When each row comes into being, in ns since 1970, at `rate` rows per second."""
    return start_ns + rows // rate * NANOSECONDS + rows % rate * NANOSECONDS // rate


def rows_due(now_ns: int, *, start_ns: int, rate: int) -> int:
    """How many rows exist at `now_ns`: those created at or before it."""
    seconds, rest = divmod(now_ns - start_ns, NANOSECONDS)
    if seconds < 0:
        return 0
    # Creation times are rounded down, so the last row that is due is found by rounding up.
    return seconds * rate + -(-(rest + 1) * rate // NANOSECONDS)
