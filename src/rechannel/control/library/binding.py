"""What binds the timesteps of a stream: from the critical path of the last ones, and what their tasks did. Pure.

Every kind of activity and message on the critical path belongs to one of three causes:

    scheduling      the driver plans, launches, commits and releases
    communication   rows are sent, travel, and are waited for
    processing      everything else that tasks do

Some of the processing is a straggler's: all wait for its task. An operator's turn is as long as its longest task, or as
the work of its busiest executor over its cores. It could be as short as all of its work over the speed of all cores; by
so much is the share of the critical path shorter that the longest task has. That is a matter of the

    machine   if the executor of the longest task is slow, or has more tasks than others
    skew      otherwise: the task has more rows than others, or rows that take longer

The work of a task is its time over the slowness of its executor, which is the time per row there over the median of all
executors. Whether rows are expensive or the executor is slow, one window cannot tell: a remedy is tried and checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from rechannel.profiling.job.shares import CriticalShares

Cause: TypeAlias = Literal["skew", "machine", "communication", "scheduling", "processing"]

SCHEDULING = ("planning", "scheduling", "commit", "release", "control message")
LAUNCHING = ("scheduling", "control message")
"""What grows with the number of tasks."""
COMMUNICATION = ("receive", "send", "shuffle write", "data message")
NEITHER = ("waiting", "idle", "unknown", "failed work", "publish")

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Load:
    """What the tasks of an operator did in some timesteps. Shapes (tasks,)."""

    operator: str
    rows: Floats
    busy_ms: Floats
    at: tuple[str, ...]
    """Executor of each task; "" where it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One thing that timesteps are long for."""

    cause: Cause
    share: float
    """Of the critical path."""
    gain: float
    """Share of a timestep that is saved at most if it is mended."""
    why: str
    """In words."""
    operator: str = ""
    """Of the straggler; "" for the stream."""
    executors: tuple[str, ...] = ()
    """Those that are slow."""


SLOW = 1.3
"""Times the median from which on an executor is called slow."""


def share_of(shares: CriticalShares, kinds: Iterable[str]) -> float:
    """Return the share of the critical path that some kinds of activities and messages have."""
    return sum(shares.kinds.get(kind, 0.0) for kind in kinds)


def bounds_of(
    shares: CriticalShares, loads: Iterable[Load], executors: Mapping[str, int], slots: int
) -> tuple[Bound, ...]:
    """Return what timesteps are long for, the largest gain first.

    loads: of the operators whose tasks can be changed. executors: cores by id; empty where tasks are not placed. slots:
    cores of all executors.
    """
    stragglers = [b for load in loads for b in _stragglers(shares, load, executors, slots)]
    scheduling, travel = share_of(shares, SCHEDULING), share_of(shares, COMMUNICATION)
    known = sum(shares.kinds.values()) - share_of(shares, NEITHER)
    work = max(0.0, known - scheduling - travel)
    lost = sum({b.operator: b.gain for b in sorted(stragglers, key=_gain)}.values())
    whole = [
        Bound(cause=cause, share=share, gain=gain, why=f"{cause} is {share:.0%} of a timestep")
        for cause, share, gain in _shared(scheduling, travel, work, lost)
    ]
    return tuple(sorted([*stragglers, *whole], key=_gain, reverse=True))


def _shared(
    scheduling: float, travel: float, work: float, lost: float
) -> tuple[tuple[Cause, float, float], ...]:
    return (
        ("scheduling", scheduling, scheduling),
        ("communication", travel, travel),
        ("processing", work, max(0.0, work - lost)),
    )


def _gain(bound: Bound) -> float:
    return bound.gain


def _stragglers(
    shares: CriticalShares, load: Load, executors: Mapping[str, int], slots: int
) -> list[Bound]:
    critical = shares.tasks.get(load.operator, {})
    if len(load.busy_ms) < 2 or not load.busy_ms.sum() or not critical:
        return []
    known = set(load.at) <= executors.keys()
    cores = dict(executors) if known else {"": slots}
    at = load.at if known else ("",) * len(load.at)
    slowness = slowness_of([load], cores)
    work = load.busy_ms / np.array([slowness.get(e, 1.0) for e in at])
    now = _turn(load.busy_ms, at, cores)
    speed = sum(count / slowness.get(e, 1.0) for e, count in cores.items())
    best = max(float(work.sum()) / speed, float(work.sum()) / len(work))
    longest = max(critical, key=lambda task: critical[task])
    if longest >= len(load.busy_ms):
        return []
    share = critical[longest]
    gain = share * (1 - best / now)
    if gain <= 0:
        return []
    slow = tuple(e for e in dict.fromkeys(at) if slowness.get(e, 1.0) >= SLOW)
    crowded = now > load.busy_ms.max()
    of = f"task {longest} of {load.operator!r} is {share:.0%} of the critical path"
    rows = load.rows[longest] / max(1.0, load.rows.sum())
    why = f"{of}: it has {rows:.0%} of the rows of {len(work)} tasks"
    if at[longest] in slow:
        times = slowness[at[longest]]
        why = f"{of}: rows take {times:.1f} times as long on executor {at[longest]}"
    elif crowded:
        why = f"{of}: executors have different shares of the tasks"
    return [
        Bound(
            cause="machine" if known and (at[longest] in slow or crowded) else "skew",
            operator=load.operator,
            share=share,
            gain=gain,
            why=why,
            executors=slow,
        )
    ]


def _turn(busy_ms: Floats, at: tuple[str, ...], cores: Mapping[str, int]) -> float:
    """Return how long an operator takes at least with its tasks on these executors."""
    work: dict[str, float] = dict.fromkeys(cores, 0.0)
    for executor, ms in zip(at, busy_ms.tolist(), strict=True):
        work[executor] += ms
    return max(float(busy_ms.max()), *(ms / max(1, cores[e]) for e, ms in work.items()))


def slowness_of(loads: Iterable[Load], executors: Iterable[str]) -> dict[str, float]:
    """Return milliseconds per row on each executor that had rows, over the median of them."""
    took: dict[str, float] = {}
    for executor in executors:
        mine = [(load, [e == executor for e in load.at]) for load in loads]
        rows = sum(float(load.rows[which].sum()) for load, which in mine)
        busy = sum(float(load.busy_ms[which].sum()) for load, which in mine)
        if rows and busy:
            took[executor] = busy / rows
    if len(took) < 2:
        return dict.fromkeys(took, 1.0)
    usual = _lower_median(took.values())
    return {executor: each / usual for executor, each in took.items()}


def _lower_median(values: Iterable[float]) -> float:
    """Return the median; of an even number, the lower of the two in the middle: of two, one may be slow."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2]
