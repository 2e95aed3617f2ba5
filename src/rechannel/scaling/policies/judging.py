"""Whether a change was good: how a window went, and when a plan is worse than the one before it. Pure.

A window is measured by two figures:

    achieved   share of what arrived that the sources' consumers took in, at most 1: DS2's ratio of achieved and target
               rate. A backlog that is worked off does not make it larger. Of a window that is cut, the timestep that
               ends after it is taken for read: it has a share of the window
    lateness   median time of the timesteps over their interval, over the timesteps in flight, as if they had read only
               what arrives: rows of a backlog make a timestep longer, but no plan worse. Above 1 the stream lags

A stream whose timesteps take longer than an interval each, or with more of a backlog than arrives in two intervals, is
in another condition afterwards, whatever was changed: plans made then are not judged. Nor does a window count in which
a backlog is worked off, as after a change that took its time. Otherwise, a plan is worse than the one before it if less
is achieved, by the share `worse`, or if its timesteps are late and take longer, by that share. If the load has
meanwhile changed by more than `differs`, the two cannot be compared, and the plan stays.

A plan that was taken back is not tried again, nor is any that goes further in the same direction, until the load
differs by that share from the load under which it failed, or for `barred_s`. A stream that lags may grow nevertheless.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rechannel.scaling.policies.damping import EXECUTORS, Plan
from rechannel.scaling.policies.policy import Seen
from rechannel.scaling.policies.steering_settings import Steering

BACKLOG_INTERVALS = 2
CATCHING_UP = 1.05
"""Records read over records that arrive, above which a backlog is worked off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How a window went."""

    load: float
    """Records per second that arrived, at all sources."""
    achieved: float | None
    """None if nothing arrived or nothing was measured."""
    lateness: float | None
    """None for an engine without timesteps."""
    lagging: bool = False
    """Of an engine with timesteps: whether it is late, or a backlog waits."""
    catching_up: bool = False
    """Of an engine with timesteps: whether it reads more than arrives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A plan that was taken back."""

    at_s: float
    plan: Plan
    before: Plan
    load: float


def health(seen: Seen) -> Health:
    """Return how a window went."""
    load = sum(each.rate for each in seen.arrivals.values())
    cores = seen.cores
    lateness, lagging, catching_up = None, False, False
    if cores is not None and cores.durations_ms and cores.interval_ms > 0:
        took = statistics.median(cores.durations_ms) / (cores.interval_ms * cores.in_flight)
        lateness = took / max(
            1.0, read_share(seen, len(cores.durations_ms) * cores.interval_ms / 1e3)
        )
        catching_up = read_share(seen, seen.window_s) > CATCHING_UP
        backlog = sum(each.backlog for each in seen.arrivals.values())
        lagging = took > 1 or backlog > BACKLOG_INTERVALS * load * cores.interval_ms / 1e3
    return Health(
        load=load,
        achieved=achieved(seen),
        lateness=lateness,
        lagging=lagging,
        catching_up=catching_up,
    )


def achieved(seen: Seen) -> float | None:
    """Return the share of what arrived that was taken in, at most 1; None if that cannot be known.

    A source that reports what it emitted is measured by that; otherwise by its only consumer that reads nothing else.
    """
    arrived = taken = 0.0
    timesteps = len(seen.cores.durations_ms) if seen.cores is not None and seen.cores.cut else 0
    whole = 1 + 1 / timesteps if timesteps else 1.0
    for source, arrivals in seen.arrivals.items():
        emitted = _emitted(seen, source)
        if emitted is not None:
            arrived += arrivals.rate
            taken += min(emitted * whole / seen.window_s, arrivals.rate)
    return taken / arrived if arrived > 0 else None


def read_share(seen: Seen, span_s: float) -> float:
    """Return the records read over those that arrive in a time; 1 if that is not known."""
    read = [(_emitted(seen, source), each.rate) for source, each in seen.arrivals.items()]
    arriving = sum(rate for emitted, rate in read if emitted is not None) * span_s
    return sum(emitted or 0.0 for emitted, _ in read) / arriving if arriving else 1.0


def _emitted(seen: Seen, source: str) -> float | None:
    """Records that a source emitted in a window."""
    itself = seen.activities.get(source)
    if itself is not None and itself.reports.records_out:
        return max(itself.reports.records_out.values())
    alone = [
        seen.activities[name].reports.received
        for name, inputs in seen.topology.inputs.items()
        if inputs == (source,) and name in seen.activities
    ]
    return max(alone) if alone else None


def middle(windows: Sequence[Health]) -> Health:
    """Return the medians of some windows, at least one."""

    def of(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return statistics.median(known) if known else None

    return Health(
        load=statistics.median(each.load for each in windows),
        achieved=of([each.achieved for each in windows]),
        lateness=of([each.lateness for each in windows]),
    )


def comparable(load: float, other: float, differs: float) -> bool:
    """Return whether two loads are equal but for a share."""
    return abs(load - other) <= differs * max(load, other)


def why_worse(after: Health, before: Health, settings: Steering) -> str | None:
    """Return in words why a window is worse than an earlier one; None if it is not."""
    if before.lagging or not comparable(after.load, before.load, settings.differs):
        return None
    less, was = after.achieved, before.achieved
    if less is not None and was is not None and less < was * (1 - settings.worse):
        return f"{less:.0%} of what arrives is processed, and it was {was:.0%}"
    late, was = after.lateness, before.lateness
    if late is not None and was is not None and late > max(1.0, was * (1 + settings.worse)):
        return f"timesteps take {late:.2f} of their interval, and it was {was:.2f}"
    return None


def already_failed(plan: Plan, failed: Sequence[Failed]) -> Failed | None:
    """Return the plan taken back that a new plan equals, or that it exceeds in the same direction; None if none is.

    Where operators share executors, the number of these counts: other tasks on as few of them are no other plan.
    """
    for each in failed:
        moved = {
            name: number - each.before.get(name, number)
            for name, number in each.plan.items()
            if number != each.before.get(name, number)
        }
        moved = {EXECUTORS: moved[EXECUTORS]} if EXECUTORS in moved else moved
        if moved and all(
            name in plan and (plan[name] - each.plan[name]) * by >= 0 for name, by in moved.items()
        ):
            return each
    return None
