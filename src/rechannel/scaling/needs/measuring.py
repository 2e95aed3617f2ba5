"""The windows that advice is made from: as they were measured, and at the load and interval asked for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rechannel.model.configuration import Configuration
from rechannel.scaling.measured import Machines, MeasuredWindow, machines_of, measured_windows
from rechannel.scaling.needs.asked import Asked
from rechannel.scaling.policies.policy import Arrivals, Seen
from rechannel.telemetry.facts import TimestepProgress
from rechannel.telemetry.recent_tasks import TimestepTasks

LEAST_MS = 1.0


def windows_of(
    progress: Sequence[TimestepProgress],
    tasks: Sequence[TimestepTasks],
    asked: Asked,
    configurations: Iterable[Configuration] = (),
    machines: Machines | None = None,
) -> tuple[tuple[MeasuredWindow, ...], tuple[str, ...]]:
    """Return the windows as they were measured, oldest first, and notes on what was assumed.

    progress, tasks: of the latest committed timesteps, oldest first. configurations: those that are known. machines:
    None = what tasks were seen on.
    """
    known = {each.version: each for each in configurations}
    there = _machines(tasks, asked, known, machines)
    length_s = asked.window_s
    if there is None:
        return (), ("no task was measured yet",)
    made = _measured(progress, tasks, length_s, known, there)
    notes: list[str] = []
    covered_s = _covered_s(progress)
    if not made and covered_s > 0:
        length_s = min(length_s, covered_s / 2)
        made = _measured(progress, tasks, length_s, known, there)
        if made:
            notes.append(f"no window of {asked.window_s:g} s is complete: it has {length_s:.3g} s")
    if not made:
        return (), (
            "no window is complete: at least two timesteps are needed, one after the other",
        )
    latest = made[-1].seen
    if latest.cores is not None and not latest.cores.interval_ms and asked.interval_ms is None:
        cores = as_asked(latest, asked).cores
        interval_ms = 0.0 if cores is None else cores.interval_ms
        notes.append(
            "timesteps have no interval: the advice is for that at which they began,"
            f" {interval_ms:,.0f} ms"
        )
    return made, tuple(notes)


def as_asked(seen: Seen, asked: Asked) -> Seen:
    """Return a window at the interval and the load that are asked for."""
    paced = _paced(seen, asked)
    return paced if asked.rate is None else _loaded(paced, asked.rate)


def _measured(
    progress: Sequence[TimestepProgress],
    tasks: Sequence[TimestepTasks],
    length_s: float,
    known: Mapping[int, Configuration],
    there: Machines,
) -> tuple[MeasuredWindow, ...]:
    return measured_windows(
        progress, tasks, length_s=length_s, configurations=known, machines=there
    )


def _machines(
    tasks: Sequence[TimestepTasks],
    asked: Asked,
    known: Mapping[int, Configuration],
    given: Machines | None,
) -> Machines | None:
    seen = given or machines_of(tasks)
    if seen is None:
        return None
    set_by_hand = None if not known else known[max(known)].executors
    return Machines(
        executors=seen.executors if given is not None else set_by_hand or seen.executors,
        cores_per_executor=asked.cores_per_executor or seen.cores_per_executor,
    )


def _covered_s(progress: Sequence[TimestepProgress]) -> float:
    times = [each.now_ms for each in progress if each.now_ms is not None]
    return (times[-1] - times[0]) / 1e3 if times else 0.0


def _paced(seen: Seen, asked: Asked) -> Seen:
    """Return a window with the interval that its timesteps have to keep."""
    cores = seen.cores
    if cores is None:
        return seen
    began_ms = seen.window_s * 1e3 / max(1, len(cores.durations_ms))
    interval_ms = asked.interval_ms or cores.interval_ms or max(LEAST_MS, began_ms)
    return replace(seen, cores=replace(cores, interval_ms=interval_ms))


def _loaded(seen: Seen, rate: float) -> Seen:
    """Return a window at which so many rows arrive per second, with the shares that sources had, without a backlog."""
    total = sum(each.rate for each in seen.arrivals.values())
    equal = 1 / max(1, len(seen.arrivals))
    arrivals = {
        name: Arrivals(rate=rate * (each.rate / total if total else equal))
        for name, each in seen.arrivals.items()
    }
    return replace(seen, arrivals=arrivals)
