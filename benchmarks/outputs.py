"""When the rows of a stream were due and when they came out, for engines without timesteps. Pure.

The common measure of unlike engines: samples of rows at even distances, each with the time at which
its result first came out. All times are ms since 1970.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from benchmarks.harness import Measurement

SAMPLES_PER_SECOND = 1_000
WINDOW_MS = 1_000.0
_WINDOW_EVERY_MS = 100.0

Floats = npt.NDArray[np.float64]
Span = tuple[float, float]


class OutputMeasurement(TypedDict):
    """due_ms, out_ms: one entry per sampled row that was due before `end_ms`, every `every`th.

    asked_ms, done_ms: of the change. repeated: rows that came out more than once. version: of what
    was measured.
    """

    due_ms: Sequence[float]
    out_ms: Sequence[float]
    every: int
    rate: int
    asked_ms: float
    done_ms: float
    end_ms: float
    repeated: int
    version: str


def sampled(rate: int) -> int:
    """Distance of the rows that are sampled."""
    return max(1, rate // SAMPLES_PER_SECOND)


def spans_of(run: Measurement, *, before_ms: float, during_ms: float) -> dict[str, Span]:
    """Before, during and after the change: both ends of each.

    Rows that were due, but not out, when the change was asked for wait for it: they are during.
    """
    asked = run["asked_ms"]
    due, out = np.asarray(run["due_ms"]), np.asarray(run["out_ms"])
    cut = float(due[(out >= asked) & (due < asked)].min(initial=asked))
    return {
        "before": (asked - before_ms, cut),
        "during": (cut, asked + during_ms),
        "after": (asked + during_ms, run["end_ms"]),
    }


def latencies(run: Measurement, span: Span) -> Floats:
    """Of the rows that were due in a span, ms. Raises ValueError unless all sampled rows are there."""
    due, out = np.asarray(run["due_ms"]), np.asarray(run["out_ms"])
    met = (due >= span[0]) & (due < span[1])
    distance = run["every"] * 1e3 / run["rate"]
    missing = round((span[1] - span[0]) / distance) - int(met.sum())
    if missing > 1 or not met.any():
        raise ValueError(f"{missing} of the rows that were sampled did not come out")
    return np.asarray(out[met] - due[met], dtype=np.float64)


def silences(run: Measurement, span: Span) -> Floats:
    """Times without any output that ended in a span, ms."""
    at = np.unique(np.asarray(run["out_ms"], dtype=np.float64))
    first = max(0, int(np.searchsorted(at, span[0], side="right")) - 1)
    last = int(np.searchsorted(at, span[1], side="right"))
    return np.diff(at[first:last])


def rows_per_second(run: Measurement, span: Span, every_ms: float = _WINDOW_EVERY_MS) -> Floats:
    """Rows that came out, in every window of a second in a span."""
    at = np.sort(np.asarray(run["out_ms"], dtype=np.float64))
    starts = np.arange(span[0], max(span[0], span[1] - WINDOW_MS) + 1e-9, every_ms)
    low, high = np.searchsorted(at, starts), np.searchsorted(at, starts + WINDOW_MS)
    return np.asarray((high - low) * (run["every"] * 1e3 / WINDOW_MS), dtype=np.float64)


def worst_latency(run: Measurement, span: Span, step_ms: float) -> tuple[Floats, Floats]:
    """The slowest row of every `step_ms` of a span: when that began, and its latency. For curves."""
    due = np.asarray(run["due_ms"], dtype=np.float64)
    met = (due >= span[0]) & (due < span[1])
    latency = np.asarray(run["out_ms"], dtype=np.float64)[met] - due[met]
    step = ((due[met] - span[0]) // step_ms).astype(np.int64)
    worst = np.zeros(int(step.max(initial=-1)) + 1)
    np.maximum.at(worst, step, latency)
    return np.asarray(span[0] + np.arange(len(worst)) * step_ms, dtype=np.float64), worst
