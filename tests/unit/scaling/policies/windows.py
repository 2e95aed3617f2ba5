"""Windows of streams as policies see them, made of a few numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rechannel.scaling.model.rates import ALL, Reports
from rechannel.scaling.model.topology import topology
from rechannel.scaling.policies.policy import Activity, Arrivals, Cores, Seen, Tasks

WORDS = topology([("source", "flatmap"), ("flatmap", "count")])

Rate = float
"""Records per second that one instance processes."""


def activity(
    records: list[float], useful_s: list[float], *, sent: float = 0.0, **more: Any
) -> Activity:
    """An operator whose instances received so much and were useful so long."""
    reports = Reports(
        parallelism=len(records),
        records_in=np.array(records, dtype=float),
        useful_s=np.array(useful_s, dtype=float),
        records_out={ALL: sent},
    )
    return Activity(reports=reports, **more)


def linear(
    arriving: float,
    plan: Mapping[str, int],
    rates: Mapping[str, Rate],
    *,
    ratio: float = 2.0,
    start_s: float = 0.0,
    window_s: float = 10.0,
    backlog: float = 0.0,
) -> Seen:
    """A window of source -> flatmap -> count with equal instances and back-pressure: the slowest sets the pace."""
    most = min(plan["flatmap"] * rates["flatmap"], plan["count"] * rates["count"] / ratio)
    pace = min(arriving, most)
    activities = {}
    for name, received in (("flatmap", pace), ("count", pace * ratio)):
        each = received / plan[name]
        activities[name] = activity(
            [each * window_s] * plan[name],
            [each / rates[name] * window_s] * plan[name],
            sent=received * ratio * window_s,
        )
    return Seen(
        start_s=start_s,
        end_s=start_s + window_s,
        topology=WORDS,
        activities=activities,
        arrivals={"source": Arrivals(rate=arriving, backlog=backlog)},
    )


def batches(
    *,
    executors: int = 2,
    cores_per_executor: int = 1,
    start_s: float = 0.0,
    window_s: float = 10.0,
    activities: Mapping[str, Activity] | None = None,
    rate: float = 100.0,
    backlog: float = 0.0,
    **of_cores: Any,
) -> Seen:
    """A window of a micro-batch engine."""
    cores = Cores(executors=executors, cores_per_executor=cores_per_executor, **of_cores)
    return Seen(
        start_s=start_s,
        end_s=start_s + window_s,
        topology=WORDS,
        activities=activities or {},
        arrivals={"source": Arrivals(rate=rate, backlog=backlog)},
        cores=cores,
    )


def tasks_of(
    rate: float,
    tasks: int,
    *,
    fixed_ms: float,
    row_ms: float,
    timesteps: int,
    interval_ms: float,
    shares: np.ndarray[Any, np.dtype[np.float64]] | None = None,
    ratio: float = 1.0,
    **more: Any,
) -> Activity:
    """An operator of a micro-batch engine whose tasks cost exactly what is given, by shares of the rows."""
    part = np.full(tasks, 1 / tasks) if shares is None else shares
    rows = rate * interval_ms / 1e3 * part
    ms = fixed_ms + row_ms * rows
    reports = Reports(
        parallelism=tasks,
        records_in=rows * timesteps,
        useful_s=ms * timesteps / 1e3,
        records_out={ALL: float(rows.sum()) * timesteps * ratio},
    )
    every = Tasks(rows=np.tile(rows, timesteps), ms=np.tile(ms, timesteps))
    return Activity(reports=reports, tasks=every, **more)
