"""The change that takes other changes back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rechannel.model.configuration import Configuration, OperatorConfiguration, Resources
from rechannel.model.routing import Routing
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.changes.pace import SetBound, SetCombine, SetInFlight, SetInterval
from rechannel.reconfigure.changes.resources import AssignResources, Place, SetExecutors
from rechannel.reconfigure.changes.spreading import Gather, Side, Spread, gathered
from rechannel.reconfigure.changes.tasks import AssignWorkload, Rescale
from rechannel.reconfigure.changes.together import MOST_CHANGES, one_change


def way_back(before: Configuration, now: Configuration, touched: Iterable[str]) -> Change | None:
    """Return the change to the previous values of what a change has touched; None = there is no such change.

    A change of the program is not taken back (`Job.start(revert=True)` does that), nor is a number of executors where
    the session decided before.
    """
    names = [name for name in touched if name in now.operators]
    if before.dataflow != now.dataflow or any(name not in before.operators for name in names):
        return None
    if now.executors is not None and before.executors is None:
        return None
    made = [change for n in names for change in _operator(n, before.operators[n], now.operators[n])]
    made += _job(before, now) if set(touched) - set(names) else []
    return one_change(made) if 0 < len(made) <= MOST_CHANGES else None


def _operator(
    name: str, before: OperatorConfiguration, now: OperatorConfiguration
) -> Iterator[Change]:
    routing = before.routing
    if routing is not None and now.routing is not None and routing != now.routing:
        yield from _routing(name, routing, now.routing)
    elif before.tasks != now.tasks:
        yield Rescale(name, before.tasks)
    if before.combine != now.combine:
        yield SetCombine(name, before.combine)
    if before.resources != now.resources:
        needs = before.resources or Resources()
        amounts = dict(needs.amounts)
        yield AssignResources(name, cpus=needs.cpus, memory_mb=needs.memory_mb, amounts=amounts)
    for task in range(before.tasks):
        if before.placement.get(task) != now.placement.get(task):
            yield Place(name, task, before.placement.get(task))


def _routing(name: str, before: Routing, now: Routing) -> Iterator[Change]:
    """Gather what was not spread, place bins as they were, and spread what was."""
    gone = [one for one in now.spreads if one not in before.spreads]
    missing = [one for one in before.spreads if one not in now.spreads]
    yield from (Gather(operator=name, hash=one.lo) for one in gone)
    had, left = gathered(before, missing), gathered(now, gone)
    if had != left:
        yield AssignWorkload(name, had.starts, had.owners, had.tasks)
    for one in reversed(missing):  # a cut changes the numbers of later bins only
        yield Spread(
            operator=name,
            hash=one.lo if one.cut else None,
            bin=None if one.cut else had.bin_of(one.lo),
            over=one.tasks,
            side=tuple(Side)[one.side],
        )


def _job(before: Configuration, now: Configuration) -> Iterator[Change]:
    if before.interval_ms != now.interval_ms:
        yield SetInterval(before.interval_ms)
    if before.in_flight != now.in_flight:
        yield SetInFlight(before.in_flight)
    for source in sorted({*before.bounds, *now.bounds, *before.byte_bounds, *now.byte_bounds}):
        rows, size = before.bounds.get(source), before.byte_bounds.get(source)
        if (rows, size) != (now.bounds.get(source), now.byte_bounds.get(source)):
            yield SetBound(source, rows, size)
    if before.executors is not None and before.executors != now.executors:
        yield SetExecutors(before.executors)
