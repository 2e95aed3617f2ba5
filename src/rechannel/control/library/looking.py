"""What Autopilot sees in one evaluation: a profile of the latest timesteps, what binds, how late they are. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np

from rechannel.control.controller import Control
from rechannel.control.library.attempt import SETTLE
from rechannel.control.library.binding import SCHEDULING, Bound, Load, bounds_of, share_of
from rechannel.control.library.judging import Figures, between, figures_of
from rechannel.control.library.placing import Placing
from rechannel.control.library.remedies import at_places
from rechannel.control.library.traffic import TaskLoad, Traffic
from rechannel.profiling.job.shares import CriticalShares
from rechannel.scaling.measured import machines_of
from rechannel.telemetry.facts import TimestepProgress
from rechannel.telemetry.recent_tasks import OperatorTasks, TimestepTasks

CALM = 0.5
"""Pressure below which a straggler is left alone."""
BUSY = 1.0
"""Pressure from which on the stream is late, or soon will be."""
URGENT = 2
"""Timesteps in a row that have to be late for a stream to be looked at every timestep, and by no more than these."""
FAR = 1.5
"""Times what a timestep may take, and what the ones before have taken, from which on it alone is enough."""
LIKE = 0.2
"""Share of their time by which timesteps under the same circumstances differ."""
COMPARED = 9
"""Timesteps, the latest included."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class View:
    """One evaluation."""

    shares: CriticalShares
    bounds: tuple[Bound, ...]
    """What timesteps are long for, the largest gain first."""
    loads: Mapping[str, Load]
    """Of the operators with state whose tasks were the same in all of these timesteps."""
    pressure: float
    """Duration of a timestep over what it may take; `BUSY` where timesteps follow each other without an interval."""
    figures: Figures

    @property
    def fixed(self) -> float:
        """Share of a timestep that does not depend on its rows."""
        return min(1.0, share_of(self.shares, SCHEDULING))

    @property
    def by_cause(self) -> dict[str, float]:
        """Share of the critical path by cause; of stragglers, that of the worst."""
        return {bound.cause: bound.share for bound in reversed(self.bounds)}


def allowed_ms(control: Control[Any], utilisation: float, latency_ms: float | None) -> float | None:
    """Return what a timestep may take; None where it has no interval to keep."""
    interval = float(control.configuration.interval_ms) or None
    if latency_ms is not None:
        longest = longest_interval_ms(latency_ms, utilisation, control.configuration.in_flight)
        interval = longest if interval is None else min(interval, longest)
    return None if interval is None else utilisation * interval * control.configuration.in_flight


def longest_interval_ms(latency_ms: float, utilisation: float, in_flight: int) -> float:
    """Return the longest interval that keeps a latency.

    A row waits for the interval, and then for its timestep, which may take a share of as many as are in flight.
    """
    return latency_ms / (1 + utilisation * in_flight)


def urgent(progress: Sequence[TimestepProgress], most: float | None) -> int | None:
    """Return by how many of the latest timesteps a stream that is late is looked at; None if it is not late.

    most: milliseconds that a timestep may take; None = it has no interval to keep.
    """
    if most is None or not progress:
        return None
    *before, last = (facts.duration_ms for facts in progress[-COMPARED:])
    if before and last > FAR * max(most, statistics.median(before)):
        return 1
    latest = progress[-URGENT:]
    late = len(latest) == URGENT and all(facts.duration_ms > most for facts in latest)
    return URGENT if late else None


def alike(progress: Sequence[TimestepProgress]) -> int:
    """Return how many of the latest timesteps are like the latest one: those before ran under other circumstances.

    They took as long, or as long for each row, but for the share `LIKE`.
    """
    if not progress:
        return 0
    last = progress[-1]
    return sum(1 for _ in takewhile(lambda each: _like(each, last), reversed(progress)))


def _like(one: TimestepProgress, other: TimestepProgress) -> bool:
    long = one.duration_ms, other.duration_ms
    each = one.duration_ms / max(1, one.rows_in), other.duration_ms / max(1, other.rows_in)
    return any(abs(a - b) <= LIKE * max(a, b) for a, b in (long, each))


def looked(
    control: Control[Any], window: int, utilisation: float, latency_ms: float | None
) -> View | None:
    """Return what the latest timesteps show; None as long as there are too few since the latest change, or too few that
    are alike. If the stream is late, only one timestep after a change does not count: the next may be very long."""
    most = allowed_ms(control, utilisation, latency_ms)
    late = urgent(control.progress, most)
    least = window = min(window, late or window)
    changed = max((record.last_timestep or 0 for record in control.changes), default=0)
    after = changed + (SETTLE if late is None else 1) - 1 if changed else -1
    there = between(control.progress, after, control.timestep + 1)
    if len(there) < window:
        return None
    least, window = min(URGENT, least), min(window, alike(there))
    if window < least:
        return None
    shares = control.profile(timesteps=window, after=after)
    if shares is None or shares.timesteps < window:
        return None
    facts = between(control.progress, shares.first - 1, shares.last + 1)
    figures = figures_of(facts)
    if figures is None:
        return None
    steps = [each for each in control.tasks if shares.first <= each.timestep <= shares.last]
    loads = loads_of(control, steps)
    machines = machines_of(steps)
    slots = sum(control.executors.values()) or (
        1 if machines is None else machines.executors * machines.cores_per_executor
    )
    return View(
        shares=shares,
        bounds=bounds_of(shares, loads.values(), control.executors, slots),
        loads=loads,
        pressure=BUSY if most is None else figures.latency_ms / most,
        figures=figures,
    )


def loads_of(control: Control[Any], steps: Iterable[TimestepTasks]) -> dict[str, Load]:
    """Return what the tasks of each operator with state did in some timesteps, added up."""
    found: dict[str, list[OperatorTasks]] = {}
    for each in steps:
        for name, tasks in each.operators.items():
            found.setdefault(name, []).append(tasks)
    loads = {}
    for name, columns in found.items():
        operator = control.configuration.operators.get(name)
        if operator is None or operator.routing is None:
            continue
        numbers = np.concatenate([each.numbers for each in columns]).astype(np.int64)
        if int(numbers.max(initial=0)) >= operator.tasks:
            continue
        rows, busy = (
            np.bincount(numbers, np.concatenate(values), minlength=operator.tasks).astype(
                np.float64
            )
            for values in ([c.rows for c in columns], [c.busy_ms for c in columns])
        )
        load = Load(operator=name, rows=rows, busy_ms=busy, at=("",) * operator.tasks)
        loads[name] = at_places(load, control.places.get(name, {}))
    return loads


def row_ms_of(loads: Mapping[str, Load], operators: Collection[str]) -> float | None:
    """Return the milliseconds that tasks of some operators took for a row; None without rows."""
    some = [load for name, load in loads.items() if name in operators]
    rows = sum(float(load.rows.sum()) for load in some)
    return sum(float(load.busy_ms.sum()) for load in some) / rows if rows else None


def placing_of(view: View, traffic: Mapping[str, Traffic] | None = None) -> Placing:
    """Return what is known of the places of tasks, per timestep. traffic: of one timestep; None = from the loads."""
    samples = view.shares.timesteps if traffic is None else 1
    of = traffic if traffic is not None else {n: _traffic(load) for n, load in view.loads.items()}
    places = {name: load.at for name, load in view.loads.items() if all(load.at)}
    return Placing(samples=samples, traffic=of, places=places)


def _traffic(load: Load) -> Traffic:
    each = zip(load.rows.tolist(), load.busy_ms.tolist(), strict=True)
    tasks = (TaskLoad(task=n, rows=int(rows), busy_ms=ms) for n, (rows, ms) in enumerate(each))
    return Traffic(tasks=tuple(tasks))


def usable(control: Control[Any], view: View, avoided: Collection[str]) -> dict[str, int]:
    """Return the cores of the executors that may get tasks. avoided: those that were slow; they keep what they have."""
    used = {executor for load in view.loads.values() for executor in load.at}
    return {e: cores for e, cores in control.executors.items() if e in used or e not in avoided}


def chosen(
    view: View, least: float, barred: Mapping[str, float | None], *, scaled: bool
) -> Bound | None:
    """Return what is to be mended next; None if that is for AutoScale to do, or nothing is.

    least: gain below which nothing is done. barred: causes with their operators, see `named`, and up to which gain;
    None = any. One that would save `least` more than that is another matter. scaled: whether AutoScale has just found
    that it cannot help.
    """
    for bound in view.bounds:
        if bound.gain < least or (bound.cause == "processing" and not scaled):
            return None
        straggler = bound.cause in ("skew", "machine")
        if bound.cause == "processing" or view.pressure < (CALM if straggler else BUSY):
            continue
        if not _barred(bound, least, barred):
            return bound
    return None


def _barred(bound: Bound, least: float, barred: Mapping[str, float | None]) -> bool:
    if named(bound) not in barred:
        return False
    up_to = barred[named(bound)]
    return up_to is None or bound.gain < up_to + least


def named(bound: Bound) -> str:
    """Return under which name a cause is barred."""
    return f"{bound.cause} {bound.operator}".strip()
