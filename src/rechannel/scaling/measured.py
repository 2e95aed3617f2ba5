"""From what a stream of ours has measured to the windows that policies see. Pure.

`spans.py` says which timesteps make a window. Their tasks, added up by their numbers, are the reports of instances.

Tasks that read a source process its rows too, so they are an operator like any other, and what feeds them is outside:
the source of `Seen` is `arriving(name)`, without tasks of its own. The same holds for an operator to which no other
sends rows by an exchange; what reaches it is what it received.

What is not known stays at its default: without `Machines` there are no `Cores`, without backlogs the arrivals are what
was read.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, islice, pairwise, takewhile
from operator import attrgetter
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from rechannel.errors import RefusedError
from rechannel.kernels.tasks.binned import unpack_bins
from rechannel.model.configuration import Configuration
from rechannel.scaling.allocated import idle_s, waiting
from rechannel.scaling.model.rates import Floats, Reports
from rechannel.scaling.model.topology import Topology, topology
from rechannel.scaling.policies.policy import Activity, Arrivals, Cores, Seen, Tasks
from rechannel.scaling.spans import Span, Step, spans
from rechannel.telemetry.arrivals import arrival_rate
from rechannel.telemetry.facts import TimestepProgress
from rechannel.telemetry.recent_tasks import OperatorTasks, TimestepTasks
from rechannel.telemetry.task_sums import Summed, summed

NO_CONFIGURATIONS: Mapping[int, Configuration] = MappingProxyType({})
NO_ROWS: Mapping[str, Sequence[float]] = MappingProxyType({})

Edges: TypeAlias = Iterable[tuple[str, str]]
"""Pairs (producer, consumer)."""


def arriving(name: str) -> str:
    """Return the name of what feeds an operator from outside; no operator has a name like it."""
    return f"arrivals of {name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """What a stream runs on."""

    executors: int
    cores_per_executor: int

    def __post_init__(self) -> None:
        """Check the numbers. Raises RefusedError."""
        if self.executors < 1 or self.cores_per_executor < 1:
            raise RefusedError(f"{self}: give at least one executor with one core")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredWindow:
    """A window, and the timesteps that it is made of."""

    seen: Seen
    first: int
    """Timestep."""
    last: int
    """Timestep; the next windows are those after it."""
    configuration: int | None
    """Version of the Configuration; None if unknown."""


def measured_windows(
    progress: Sequence[TimestepProgress],
    tasks: Iterable[TimestepTasks],
    *,
    length_s: float,
    after: int = 0,
    configurations: Mapping[int, Configuration] = NO_CONFIGURATIONS,
    edges: Edges | None = None,
    machines: Machines | None = None,
    rows_per_bin: Mapping[str, Sequence[float]] = NO_ROWS,
) -> tuple[MeasuredWindow, ...]:
    """Return all windows that are complete, oldest first.

    progress, tasks: of committed timesteps, oldest first. length_s: seconds that a window covers at least; see
    `spans.MOST_TIMESTEPS`. after: the latest timestep that does not count, such as the last one of the window before.
    configurations: by version; an unknown one has the tasks that reported, one timestep in flight, and the interval at
    which timesteps began. edges: None = as tasks have sent rows. rows_per_bin: by operator, for the latest window;
    without them, they are those of the latest timestep that has them.

    Raises RefusedError for a length that is not above 0.
    """
    if not 0 < length_s < float("inf"):
        raise RefusedError(f"windows of {length_s} s: give a length above 0")
    found = {each.timestep: each for each in tasks}
    known = edges_of(found.values()) if edges is None else tuple(edges)
    made = list(spans(progress, found, after, length_s * 1e3))
    return tuple(
        MeasuredWindow(
            seen=_seen(
                span,
                known,
                configurations.get(span.configuration or -1),
                machines,
                rows_per_bin if span is made[-1] else NO_ROWS,
                idle=idle_s(_until(found, span), machines.executors) if machines else (),
            ),
            first=span.steps[0].facts.timestep,
            last=span.steps[-1].facts.timestep,
            configuration=span.configuration,
        )
        for span in made
    )


LOOKED_AT = 20
"""Timesteps from which the number of cores is taken."""


def edges_of(tasks: Iterable[TimestepTasks]) -> tuple[tuple[str, str], ...]:
    """Return who has sent to whom, as (producer, consumer)."""
    pairs: dict[tuple[str, str], None] = {}
    last: tuple[tuple[str, str], ...] = ()
    for each in tasks:
        if each.edges != last:
            pairs |= dict.fromkeys(each.edges)
            last = each.edges
    return tuple(pairs)


def machines_of(tasks: Iterable[TimestepTasks]) -> Machines | None:
    """Return the executors and cores that tasks were seen on, in the latest timesteps; None without any task.

    Cores are those that were taken at the same time: fewer than there are if none of the operators has a task for each.
    Of the latest timesteps with as many executors, the one counts whose tasks took most: those of a small one may be
    over before the next begins.
    """
    latest = list(islice((each for each in reversed(list(tasks)) if each.at_once), LOOKED_AT))
    if not latest:
        return None
    alike = takewhile(lambda each: each.executors == latest[0].executors, latest)
    executors = max(1, latest[0].executors)
    most = max(each.at_once for each in alike)
    return Machines(executors=executors, cores_per_executor=-(-most // executors))


def _seen(
    span: Span,
    edges: Sequence[tuple[str, str]],
    configuration: Configuration | None,
    machines: Machines | None,
    rows_per_bin: Mapping[str, Sequence[float]],
    *,
    idle: tuple[float, ...],
) -> Seen:
    names = dict.fromkeys(name for step in span.steps for name in step.tasks.operators)
    inner = [(a, b) for a, b in edges if a in names and b in names]
    receivers = {b for _, b in inner}
    fed = [name for name in names if name not in receivers]
    graph = _topology((*((arriving(name), name) for name in fed), *inner))
    columns: dict[str, list[OperatorTasks]] = {name: [] for name in names}
    for step in span.steps:
        for name, of in step.tasks.operators.items():
            columns[name].append(of)
    sums = summed([step.tasks.sums for step in span.steps])
    if sums is None:
        sums = {name: _summed(of) for name, of in columns.items()}
    sent: dict[str, dict[str, float]] = {name: {} for name in names}
    for edge, count in _sent(span.steps).items():
        sent[edge[0]][edge[1]] = count
    return Seen(
        start_s=span.start_ms / 1e3,
        end_s=span.end_ms / 1e3,
        topology=graph,
        activities={
            name: _activity(
                name, columns[name], sums[name], sent[name], configuration, rows_per_bin
            )
            for name in names
        },
        arrivals=_arrivals(span, fed, sums),
        cores=None if machines is None else _cores(span, sums, configuration, machines, idle),
    )


def _sent(steps: Sequence[Step]) -> dict[tuple[str, str], float]:
    """Return how many rows have arrived in all of the timesteps, by edge."""
    total: dict[tuple[str, str], float] = {}
    for edges, alike in groupby((step.tasks for step in steps), key=attrgetter("edges")):
        counts = map(sum, zip(*(each.sent for each in alike), strict=True))
        for edge, count in zip(edges, counts, strict=True):
            total[edge] = total.get(edge, 0.0) + count
    return total


def _until(found: Mapping[int, TimestepTasks], span: Span) -> list[TimestepTasks]:
    last = span.steps[-1].facts.timestep
    return [each for number, each in found.items() if number <= last]


@lru_cache(maxsize=32)
def _topology(edges: tuple[tuple[str, str], ...]) -> Topology:
    return topology(edges)


def _summed(columns: Sequence[OperatorTasks]) -> Summed:
    """Return what an operator did whose tasks were not the same in all timesteps."""
    numbers = np.concatenate([each.numbers for each in columns]).astype(np.int64)
    rows = np.concatenate([each.rows for each in columns])
    core_ms = np.concatenate([each.core_ms for each in columns])
    busy_ms = np.concatenate([each.busy_ms for each in columns])
    by_task = np.bincount(numbers, rows).astype(np.float64)
    return Summed(
        rows=by_task,
        busy_s=np.bincount(numbers, busy_ms).astype(np.float64) / 1e3,
        total=float(rows.sum()),
        most=float(by_task.max()),
        core_ms=float(core_ms.sum()),
        picked=np.stack([rows, core_ms]),
    )


def _arrivals(span: Span, fed: Sequence[str], sums: Mapping[str, Summed]) -> dict[str, Arrivals]:
    facts = [span.before, *(step.facts for step in span.steps)]
    out: dict[str, Arrivals] = {}
    for name in fed:
        told = arrival_rate(facts, name) if name in facts[-1].sources else None
        out[arriving(name)] = Arrivals(
            rate=sums[name].total / span.window_s if told is None else told.rate,
            backlog=0.0 if told is None else float(told.backlog or 0),
        )
    return out


# Operators and cores -------------------------------------------------------------------------------


def _activity(
    name: str,
    columns: Sequence[OperatorTasks],
    sums: Summed,
    sent: Mapping[str, float],
    configuration: Configuration | None,
    rows_per_bin: Mapping[str, Sequence[float]],
) -> Activity:
    given = None if configuration is None else configuration.operators.get(name)
    told = len(sums.rows)
    parallelism = told if given is None else max(told, given.tasks)
    bins = _bins(columns, rows_per_bin.get(name))
    total = 0.0 if bins is None else float(bins.sum())
    routing = None if given is None else given.routing
    most = routing.bins if routing is not None else None if bins is None else len(bins)
    return Activity(
        reports=Reports(
            parallelism=parallelism,
            records_in=_padded(sums.rows, parallelism),
            useful_s=_padded(sums.busy_s, parallelism),
            records_out=sent,
            totals=(sums.total, sums.most),
        ),
        tasks=Tasks(rows=sums.picked[0], ms=sums.picked[1]),
        heaviest_bin=None if bins is None or not total else float(bins.max()) / total,
        has_bins=given is None or routing is not None,
        most_tasks=most,
    )


def _padded(figures: Floats, tasks: int) -> Floats:
    """Return figures of tasks with 0 for those that reported nothing, shape (tasks,)."""
    missing = tasks - len(figures)
    return np.concatenate([figures, np.zeros(missing)]) if missing else figures


def _bins(columns: Sequence[OperatorTasks], rows: Sequence[float] | None) -> Floats | None:
    """Return rows per bin: those given, or those of the latest timestep that has them."""
    if rows is not None:
        return np.asarray(rows, dtype=np.float64)
    packed = next((each.bins for each in reversed(columns) if each.bins), None)
    if packed is None:
        return None
    counts = [unpack_bins(each) for each in packed]
    if len({len(each) for each in counts}) != 1:
        return None  # tasks of different routing tables
    found: Floats = np.sum(counts, axis=0, dtype=np.float64)
    return found


def _cores(
    span: Span,
    sums: Mapping[str, Summed],
    configuration: Configuration | None,
    machines: Machines,
    idle: tuple[float, ...],
) -> Cores:
    used_ms = sum(each.core_ms for each in sums.values())
    number = machines.executors * machines.cores_per_executor
    there_ms = number * span.window_s * 1e3
    waiting_tasks, waiting_s = waiting(span.steps[-1].tasks, number)
    in_flight = 1 if configuration is None else configuration.in_flight
    launches = [ms for step in span.steps if (ms := step.tasks.launch_ms) is not None]
    times = [span.start_ms, *(step.now_ms for step in span.steps)]
    began_ms = float(statistics.median(b - a for a, b in pairwise(times)))
    return Cores(
        executors=machines.executors,
        cores_per_executor=machines.cores_per_executor,
        busy=min(1.0, used_ms / there_ms),
        waiting_tasks=waiting_tasks,
        waiting_s=waiting_s,
        idle_s=idle,
        interval_ms=began_ms if configuration is None else float(configuration.interval_ms),
        durations_ms=tuple(step.facts.duration_ms for step in span.steps),
        in_flight=in_flight,
        cut=False,
        driver_ms=statistics.median(_driver_ms(step, in_flight) for step in span.steps),
        launch_ms=statistics.median(launches) if launches else 0.0,
    )


def _driver_ms(step: Step, in_flight: int) -> float:
    """Return what the driver needed for a timestep.

    With several in flight, a timestep waits for others between its turns: then only planning and committing count.
    """
    if in_flight == 1:
        return step.tasks.driver_ms
    phases = step.facts.phases
    return max(0.0, phases.get("plan", 0.0) + phases.get("commit", 0.0))
