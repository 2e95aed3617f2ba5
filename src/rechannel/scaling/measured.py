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
from typing import Any, TypeAlias

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
from rechannel.telemetry.recent_tasks import TimestepTasks
from rechannel.telemetry.task_sums import Summed, added_up, summed

NO_CONFIGURATIONS: Mapping[int, Configuration] = MappingProxyType({})
NO_ROWS: Mapping[str, Sequence[float]] = MappingProxyType({})
NOTHING: Mapping[str, Any] = MappingProxyType({})

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
    sums = summed([step.tasks.sums for step in span.steps])
    if sums is None:
        sums = added_up([step.tasks.operators for step in span.steps])
    graph, fed = _graph(sums.names, edges)
    return Seen(
        start_s=span.start_ms / 1e3,
        end_s=span.end_ms / 1e3,
        topology=graph,
        activities=_activities(
            sums,
            sent=_sent(span.steps),
            bins=_bins(span.steps, rows_per_bin),
            configuration=configuration,
        ),
        arrivals=_arrivals(span, fed, dict(zip(sums.names, sums.totals, strict=True))),
        cores=None
        if machines is None
        else _cores(span, sums.core_ms, configuration, machines, idle),
    )


def _sent(steps: Sequence[Step]) -> dict[str, dict[str, float]]:
    """Return how many rows have arrived in all of the timesteps, by producer and consumer."""
    total: dict[str, dict[str, float]] = {}
    for edges, alike in groupby((step.tasks for step in steps), key=attrgetter("edges")):
        counts = map(sum, zip(*(each.sent for each in alike), strict=True))
        for (producer, consumer), count in zip(edges, counts, strict=True):
            sent = total.setdefault(producer, {})
            sent[consumer] = sent.get(consumer, 0.0) + count
    return total


def _bins(steps: Sequence[Step], given: Mapping[str, Sequence[float]]) -> dict[str, Floats]:
    """Return rows per bin of those operators that have any: those given, or of the latest timestep that has them."""
    latest = {name: step.tasks.operators[name] for step in steps for name in step.tasks.binned}
    bins = {name: np.asarray(rows, dtype=np.float64) for name, rows in given.items()}
    for name in latest.keys() - given.keys():
        counts = [unpack_bins(each) for each in latest[name].bins]
        if len({len(each) for each in counts}) == 1:  # else of tasks of different routing tables
            bins[name] = np.sum(counts, axis=0, dtype=np.float64)
    return bins


def _until(found: Mapping[int, TimestepTasks], span: Span) -> list[TimestepTasks]:
    last = span.steps[-1].facts.timestep
    return [each for number, each in found.items() if number <= last]


@lru_cache(maxsize=32)
def _graph(
    names: tuple[str, ...], edges: tuple[tuple[str, str], ...]
) -> tuple[Topology, tuple[str, ...]]:
    """Return who reads whom, and the operators to which no other sends."""
    inner = [(a, b) for a, b in edges if a in names and b in names]
    receivers = {b for _, b in inner}
    fed = tuple(name for name in names if name not in receivers)
    return topology((*((arriving(name), name) for name in fed), *inner)), fed


def _arrivals(span: Span, fed: Sequence[str], received: Mapping[str, float]) -> dict[str, Arrivals]:
    facts = [span.before, *(step.facts for step in span.steps)]
    out: dict[str, Arrivals] = {}
    for name in fed:
        told = arrival_rate(facts, name) if name in facts[-1].sources else None
        out[arriving(name)] = Arrivals(
            rate=received[name] / span.window_s if told is None else told.rate,
            backlog=0.0 if told is None else float(told.backlog or 0),
        )
    return out


# Operators and cores -------------------------------------------------------------------------------


def _activities(
    sums: Summed,
    *,
    sent: Mapping[str, Mapping[str, float]],
    bins: Mapping[str, Floats],
    configuration: Configuration | None,
) -> dict[str, Activity]:
    configured = NOTHING if configuration is None else configuration.operators
    rows, ms = sums.points
    start = first = 0
    out: dict[str, Activity] = {}
    for place, name in enumerate(sums.names):
        end, last = sums.ends[place], sums.points_ends[place]
        given = configured.get(name)
        parallelism = end - start if given is None else max(end - start, given.tasks)
        routing = None if given is None else given.routing
        own_bins = bins.get(name)
        most_tasks = None if own_bins is None else len(own_bins)
        out[name] = Activity(
            reports=Reports(
                parallelism=parallelism,
                records_in=_padded(sums.rows[start:end], parallelism),
                useful_s=_padded(sums.busy_s[start:end], parallelism),
                records_out=sent.get(name, NOTHING),
                totals=(sums.totals[place], sums.most[place]),
            ),
            tasks=Tasks(rows=rows[first:last], ms=ms[first:last]),
            heaviest_bin=None if own_bins is None else _heaviest_share(own_bins),
            has_bins=given is None or routing is not None,
            most_tasks=most_tasks if routing is None else routing.bins,
        )
        start, first = end, last
    return out


def _heaviest_share(bins: Floats) -> float | None:
    """Return the share of all rows that the heaviest bin received; None without any rows."""
    total = float(bins.sum())
    return float(bins.max()) / total if total else None


def _padded(figures: Floats, tasks: int) -> Floats:
    """Return figures of tasks with 0 for those that reported nothing, shape (tasks,)."""
    missing = tasks - len(figures)
    return np.concatenate([figures, np.zeros(missing)]) if missing else figures


def _cores(
    span: Span,
    used_ms: float,
    configuration: Configuration | None,
    machines: Machines,
    idle: tuple[float, ...],
) -> Cores:
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
