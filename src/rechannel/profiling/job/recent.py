"""Critical participation in the last timesteps of a running job, from the events that it told.

The trace is the one of a job's telemetry files (`trace.py`). Each timestep is a window, from its beginning to its end,
or to the beginning of the next if several are in flight. Some hundred tasks take about 20 ms; the first call compiles
the count of paths, or loads it, which takes seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import polars as pl

from rechannel.profiling.job.log import TIMESTEP_COLUMNS, JobLog
from rechannel.profiling.job.shares import CriticalShares
from rechannel.profiling.job.trace import job_trace, nanoseconds
from rechannel.profiling.model.pieces import Pieces
from rechannel.profiling.model.summaries import Profile, profiled
from rechannel.profiling.model.trace import MS
from rechannel.profiling.storage.stored import StoredTrace
from rechannel.telemetry.events import Event, TimestepStarted

_BEGAN, _RELEASED = TIMESTEP_COLUMNS.index("began"), TIMESTEP_COLUMNS.index("released")
_TASK = re.compile(r"(?P<operator>.+) task (?P<task>\d+)(?: \(\d+\))?", re.DOTALL)


def critical_shares(events: Iterable[Event], *, after: int, most: int) -> CriticalShares | None:
    """Return what the critical path of the last timesteps is made of; None if none of them is whole.

    events: in order. after: the latest timestep that does not count. most: timesteps.
    """
    log, begun = JobLog(), set[int]()
    for event in events:
        log.see(event)
        if isinstance(event, TimestepStarted):
            begun.add(event.timestep)
    log.close()
    steps = list(zip(log.numbers.tolist(), nanoseconds(log.steps).tolist(), strict=True))
    chosen = [(n, times) for n, times in steps if n > after and n in begun][-most:]
    windows = _windows([times for _, times in chosen])
    if not windows:
        return None
    pieces = Pieces.of(StoredTrace.of(job_trace(log).trace), windows, 0)
    return _shares(profiled(pieces), log, [number for number, _ in chosen], windows)


def _windows(steps: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Return beginnings and ends of timesteps, ns, without those that take no time.

    To the nanosecond those of the trace: no path leads through a window that ends after the last activity.
    """
    times = sorted((each[_BEGAN], each[_RELEASED]) for each in steps)
    until = [(began, min(end, following)) for (began, end), (following, _) in pairwise(times)]
    return [(began, end) for began, end in (*until, *times[-1:]) if end > began]


def _shares(
    found: Profile, log: JobLog, numbers: Sequence[int], windows: Sequence[tuple[int, int]]
) -> CriticalShares:
    tasks: dict[str, dict[int, float]] = {}
    mine = ~pl.col("message") & (pl.col("operator") >= 0)
    for worker, _, critical in _rows(found.by("worker", "operator", where=mine)):
        if (named := _TASK.fullmatch(worker)) is not None:
            of = tasks.setdefault(named["operator"], {})
            of[int(named["task"])] = of.get(int(named["task"]), 0.0) + critical
    places: dict[str, dict[int, str]] = {}
    for (operator, task), executor in log.executors.items():
        places.setdefault(operator, {})[task] = executor
    return CriticalShares(
        first=numbers[0],
        last=numbers[-1],
        timesteps=len(windows),
        mean_ms=sum(end - began for began, end in windows) / len(windows) / MS,
        kinds={kind: critical for kind, critical in _named(found, "kind").items() if critical},
        operators={name: sum(of.values()) for name, of in tasks.items()},
        tasks=tasks,
        executors=places,
    )


def _named(found: Profile, what: str) -> Mapping[str, float]:
    return dict(found.by(what).select(what, "critical").iter_rows())


def _rows(frame: pl.DataFrame) -> Iterable[tuple[str, str, float]]:
    return frame.select("worker", "operator", "critical").iter_rows()
