"""What a run of the Yahoo streaming benchmark covers, and how it becomes figures. Pure.

The latency of a window of a campaign is the time of its last update less the end of the window. That is what the
original writes to ``updated.txt`` (``time_updated`` less the start of the window) less the length of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NotRequired, TypedDict

import numpy as np
import numpy.typing as npt

from benchmarks.harness import Measurement
from benchmarks.measurements import creation_ns, rows_due

MS = 1_000_000
"""Nanoseconds of a millisecond."""
FEWEST = 4
"""Batches that show whether a backlog grows."""

LEAST = 1_000
"""Lowest rate that is tried, events per second."""

Floats = npt.NDArray[np.float64]
Counts = dict[tuple[str, int], int]


class WindowMeasurement(TypedDict):
    """Of every campaign and window one entry: count and time of the last update, number of updates. ms since 1970.

    committed_ms: when the batch that wrote the last update was committed. batches: (first row, row after the last,
    committed, visible) in rows and ns since 1970. first_ms, end_ms: start of the first window that is measured, end of
    the last one. rows: how many had to be read. tried: (rate, whether it was sustained) of the search.
    """

    rate: int
    start_ns: int
    first_ms: int
    end_ms: int
    rows: int
    campaign: list[str]
    window_ms: list[int]
    count: list[int]
    updates: list[int]
    updated_ms: list[float]
    committed_ms: list[float]
    batches: list[tuple[int, int, int, int]]
    phases: dict[str, list[float]]
    tried: NotRequired[list[tuple[int, bool]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Windows of `window_ms` that are measured, from `first_ms` to `end_ms`, and the rows that are due by then."""

    first_ms: int
    end_ms: int
    rows: int


def span_of(
    *, start_ns: int, rate: int, window_ms: int, warmup_ms: int, length_ms: int, slack_ms: int = 0
) -> Span:
    """The first whole windows after the warm-up. slack_ms: how much later than due an event's time may be."""
    first = -(-(start_ns // MS + warmup_ms) // window_ms) * window_ms
    end = first + max(1, length_ms // window_ms) * window_ms
    rows = rows_due((end + slack_ms) * MS, start_ns=start_ns, rate=rate)
    return Span(first_ms=first, end_ms=end, rows=rows)


def counts_in(counts: Counts, end_ms: int, window_ms: int) -> Counts:
    """Those of the windows that are complete by `end_ms`."""
    return {key: count for key, count in counts.items() if key[1] + window_ms <= end_ms}


def counts_of(run: Measurement) -> Counts:
    """The final counts of a run."""
    pairs = zip(run["campaign"], run["window_ms"], strict=True)
    return dict(zip(pairs, run["count"], strict=True))


def differing(found: Counts, expected: Counts) -> str:
    """What is wrong with counts, in a sentence; empty if nothing is."""
    wrong = sorted(k for k in found.keys() | expected.keys() if found.get(k) != expected.get(k))
    if not wrong:
        return ""
    campaign, window = wrong[0]
    return (
        f"{len(wrong)} of {len(expected)} counts are wrong: campaign {campaign}, window {window}, has"
        f" {found.get(wrong[0], 0)} views instead of {expected.get(wrong[0], 0)}"
    )


def latencies(run: Measurement, window_ms: int, *, committed: bool = False) -> Floats:
    """Of every campaign and window that is measured, ms. committed: until it is visible *and* committed."""
    starts = np.asarray(run["window_ms"], dtype=np.int64)
    updated = np.asarray(run["updated_ms"], dtype=np.float64)
    if committed:
        updated = np.maximum(updated, np.asarray(run["committed_ms"], dtype=np.float64))
    met = (starts >= run["first_ms"]) & (starts + window_ms <= run["end_ms"])
    if not met.any():
        raise ValueError("no window was measured")
    return np.asarray((updated - starts - window_ms)[met], dtype=np.float64)


def delays(run: Measurement) -> tuple[Floats, Floats]:
    """Of every batch after the warm-up: when it became visible, and how long its oldest row waited for that. ms."""
    batches = np.asarray(run["batches"], dtype=np.int64).reshape(-1, 4)
    created = creation_ns(batches[:, 0], start_ns=run["start_ns"], rate=run["rate"])
    after = batches[:, 3] >= run["first_ms"] * MS
    waited = (batches[:, 3] - created)[after] / MS
    return np.asarray(batches[after, 3] / MS, dtype=np.float64), np.asarray(waited, np.float64)


def sustained(run: Measurement, *, growth: float, bearable_ms: float) -> bool:
    """Whether the backlog did not grow: all rows were read, none waited longer than `bearable_ms`, and the wait of the
    oldest row of a batch (a line through all batches) grew by at most `growth` seconds per second.
    """
    at, waited = delays(run)
    if len(at) < FEWEST or not run["batches"] or run["batches"][-1][1] < run["rows"]:
        return False
    slope = float(np.polyfit(at - at[0], waited, 1)[0])
    return slope <= growth and float(waited.max()) <= bearable_ms


def next_rate(tried: Sequence[tuple[int, bool]], *, first: int, ratio: float) -> int | None:
    """The next rate to try: doubled while all is well, then between the highest good and the lowest bad one.

    None: they are closer than `ratio`, or not even `LEAST` is sustained. tried: (rate, whether it was sustained).
    """
    if not tried:
        return first
    good = max((rate for rate, well in tried if well), default=0)
    bad = min((rate for rate, well in tried if not well), default=0)
    if not bad:
        return good * 2
    if not good:
        return bad // 2 if bad // 2 >= LEAST else None
    return None if bad <= good * ratio else int(sqrt(good * bad))
