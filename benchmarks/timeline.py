"""What a change of a running stream does to latency and throughput, from when each row was due and committed. Pure.

Row i is due at ``since_ms + i * 1000 / rate`` by the wall clock, whatever the job does. Its latency
runs from then to the commit of its timestep. Times are milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from benchmarks.harness import Measurement

WINDOW_MS = 5_000.0
"""Length of the windows in which throughput is counted: ten timesteps, since a second holds but two, never alike."""
SECOND_MS = 1_000.0
_WINDOW_EVERY_MS = 20.0
_ROWS_PER_SECOND = 1_000
"""Rows are looked at so densely: latency hardly differs between neighbours."""

Floats = npt.NDArray[np.float64]


class LiveMeasurement(TypedDict):
    """One run. commits: (first row, row after the last, ns since 1970) per timestep, in order.

    began_ms: when each timestep was decided.

    asked_ms: when the change was asked for. done_ms: when it was done. settle_ms: how long after
    that still counts as during: what moved is fetched as it is touched. before_ms: how long
    before the change is looked at. fetched: bytes from the shared store, per timestep; prefetched:
    those fetched ahead, in how many pieces. steps, bins: made, moved. phase_ms: Trisk's phases, one entry per change.
    """

    rate: float
    since_ms: float
    commits: list[tuple[int, int, int]]
    began_ms: Sequence[float]
    asked_ms: float
    done_ms: float
    settle_ms: float
    before_ms: float
    fetched: Sequence[int]
    prefetched: int
    pieces: int
    steps: int
    bins: int
    phase_ms: Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Some rows, in order: when each was due, and its latency. Shapes (rows,), in ms."""

    due: Floats
    latency: Floats

    def between(self, first: float, last: float) -> Floats:
        """Latencies of the rows due in ``first <= due < last``."""
        low, high = np.searchsorted(self.due, (first, last))
        return self.latency[low:high]


def rows_of(run: Measurement) -> Rows:
    """Some rows of a run, evenly. Raises ValueError unless every row was committed once."""
    known = np.asarray(run["commits"], dtype=np.int64).reshape(-1, 3)
    if not len(known) or known[0, 0] != 0 or bool((known[1:, 0] != known[:-1, 1]).any()):
        raise ValueError("not every row was committed once")
    rows = np.arange(0, known[-1, 1], max(1, int(run["rate"]) // _ROWS_PER_SECOND))
    due = run["since_ms"] + rows * (1e3 / run["rate"])
    timestep = np.searchsorted(known[:, 1], rows, side="right")
    return Rows(due=due, latency=known[timestep, 2] / 1e6 - due)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """Times between which rows were due, ms since 1970.

    [before, cut) is before the change: committed when it was asked for. [cut, settled) is during,
    [settled, end) after. asked: when it was asked for, a little after `cut`.
    """

    before: float
    cut: float
    asked: float
    settled: float
    end: float

    def as_pairs(self) -> dict[str, tuple[float, float]]:
        """Both ends of each span, by name."""
        return {
            "before": (self.before, self.cut),
            "during": (self.cut, self.settled),
            "after": (self.settled, self.end),
        }


def spans_of(run: Measurement, length: float | None = None) -> Spans:
    """The spans of a run. length: of what counts as during, ms; None = until it had settled."""
    asked, per_row = run["asked_ms"], 1e3 / run["rate"]
    committed = max((end for _, end, at in run["commits"] if at / 1e6 < asked), default=0)
    end = run["since_ms"] + run["commits"][-1][1] * per_row
    settled = run["done_ms"] + run["settle_ms"] if length is None else asked + length
    return Spans(
        before=asked - run["before_ms"],
        cut=run["since_ms"] + committed * per_row,
        asked=asked,
        settled=min(settled, end),
        end=end,
    )


def rows_done(run: Measurement, times: Floats) -> Floats:
    """How many rows were done at some times: those of a timestep evenly from its begin to its commit.

    Nothing is done between a commit and the begin of the next timestep: a stopped job does nothing.
    """
    known = np.asarray(run["commits"], dtype=np.float64).reshape(-1, 3)
    committed = known[:, 2] / 1e6
    began = np.minimum(np.asarray(run["began_ms"], dtype=np.float64), committed)
    began[1:] = np.maximum(began[1:], committed[:-1])
    at = np.stack([began, committed], axis=1).ravel()
    return np.asarray(np.interp(times, at, known[:, :2].ravel()))


def throughput(run: Measurement, first: float, last: float, window: float = WINDOW_MS) -> Floats:
    """Rows per second over a span of that many ms, at every moment between two times."""
    at = np.arange(first, max(first, last) + 1e-9, _WINDOW_EVERY_MS)
    return np.asarray((rows_done(run, at) - rows_done(run, at - window)) * (1e3 / window))


def dip(run: Measurement, spans: Spans, window: float = WINDOW_MS) -> float:
    """By how much throughput, over a span of that many ms, was below the mean before at worst: 0 = not at all."""
    ends = rows_done(run, np.array([spans.before, spans.asked]))
    mean = (ends[1] - ends[0]) / (spans.asked - spans.before) * 1e3
    worst = throughput(run, spans.asked, spans.settled, window).min()
    return float(max(0.0, 1 - worst / mean))


def silence(run: Measurement, spans: Spans) -> float:
    """The longest time without a commit during the change, ms."""
    at = np.asarray(run["commits"], dtype=np.float64).reshape(-1, 3)[:, 2] / 1e6
    first = max(0, int(np.searchsorted(at, spans.asked)) - 1)
    last = int(np.searchsorted(at, spans.settled)) + 1
    return float(np.diff(at[first:last]).max(initial=0.0))


def fetched_between(run: Measurement, first: float, last: float) -> int:
    """Bytes that the timesteps committed between two times have fetched."""
    at = np.asarray(run["commits"], dtype=np.float64).reshape(-1, 3)[:, 2] / 1e6
    met = (at >= first) & (at < last)
    return int(np.asarray(run["fetched"], dtype=np.int64)[met].sum())
