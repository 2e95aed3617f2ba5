"""From a run to figures: latency by second, time above the target, core-seconds, and whether it oscillated. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.autopilot.events import SECOND, PhasedAds
from benchmarks.harness import Measurement

Floats = npt.NDArray[np.float64]

GRACE_TIMESTEPS = 10
"""After each event, which do not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """The largest latency of the rows of each second in which any came into being."""

    at_s: Floats
    """The second, from the beginning of the run."""
    worst_ms: Floats


def latencies(run: Measurement, events: PhasedAds) -> Latencies:
    """Return the latency from when a row came into being to the commit of its timestep, worst of each second.

    Raises ValueError unless every row was committed once.
    """
    known = np.asarray(run["commits"], dtype=np.int64).reshape(-1, 3)
    known = known[known[:, 1] > known[:, 0]]
    if not len(known) or known[0, 0] != 0 or bool((known[1:, 0] != known[:-1, 1]).any()):
        raise ValueError("not every row was committed once")
    rows = np.arange(int(known[-1, 1]), dtype=np.int64)
    created = events.created(rows)
    committed = known[np.searchsorted(known[:, 1], rows, side="right"), 2]
    second = (created - events.start_ns) // SECOND
    worst = np.zeros(int(second.max()) + 1)
    np.maximum.at(worst, second, (committed - created) / 1e6)
    seen = np.unique(second)
    return Latencies(at_s=seen.astype(np.float64), worst_ms=worst[seen])


def counts(at_s: Floats, edges: Sequence[int], grace_s: float) -> npt.NDArray[np.bool_]:
    """Whether seconds lie outside of the time after each event, the beginning of the run included.

    edges: when each phase begins, and when the last one ends.
    """
    after = np.min([np.where(at_s >= edge, at_s - edge, np.inf) for edge in edges[:-1]], axis=0)
    found: npt.NDArray[np.bool_] = (after >= grace_s) & (at_s >= edges[0]) & (at_s < edges[-1])
    return found


def core_seconds(run: Measurement, edges: Sequence[int]) -> float:
    """Return executors over time, with a core each, from the beginning of the first phase to the end of the last."""
    (at, many), first, last = _executors(run), edges[0], edges[-1]
    ends = np.append(at[1:], last)
    lengths = np.clip(ends, first, last) - np.clip(at, first, last)
    return float((lengths * many).sum())


def _executors(run: Measurement) -> tuple[Floats, Floats]:
    known = np.asarray(run["executors"], dtype=np.float64).reshape(-1, 2)
    return (known[:, 0] - run["start_ns"]) / SECOND, known[:, 1]


def executors_over_time(run: Measurement) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return when there were how many executors: seconds, and numbers."""
    at, many = _executors(run)
    return tuple(at.tolist()), tuple(many.tolist())


def turns(run: Measurement, edges: Sequence[int]) -> int:
    """Return how often the number of executors turned round between two events: up and down, or down and up."""
    at, many = _executors(run)
    found = 0
    for first, last in pairwise(edges):
        steps = np.diff(many[(at >= first) & (at < last)])
        ways = np.sign(steps[steps != 0])
        found += int((ways[1:] != ways[:-1]).sum())
    return found


def taken_back(decisions: Iterable[Mapping[str, Any]]) -> int:
    """Return how many decisions took a change back."""
    return sum(each["outcome"] == "rolled back" for each in decisions)
