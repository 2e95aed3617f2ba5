"""What a change means for a Configuration: (configuration, change, facts) -> configuration, or why not. Pure.

Every refusal names the operator, says why, and what would be accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import Any, Protocol

from rechannel.errors import RefusedError, UnknownOperatorError
from rechannel.model.codec import decode
from rechannel.model.configuration import Configuration, OperatorConfiguration, Resources
from rechannel.model.routing import Routing
from rechannel.reconfigure import changes as c
from rechannel.reconfigure.balance import evened, rebalanced, rescaled, too_hot

MOST_TASKS = 100_000
MOST_BINS = 1 << 20
MOST_CHANGES = 50
MOST_BINS_IN_ALL = 1 << 21
"""Bins that the changes of a list go through, one behind the other, in the driver's thread."""


class Limits(Protocol):
    """What the cluster would refuse, each as a sentence, or None where it would not."""

    def refuses_executors(self, total: int) -> str | None:
        """Why there cannot be that many executors."""

    def refuses_resources(self, resources: Resources) -> str | None:
        """Why no executor could ever satisfy that."""

    def refuses_place(self, executor: str) -> str | None:
        """Why no task can be sent there."""


class NoLimits:
    """A cluster that refuses nothing: for plans made without one."""

    def refuses_executors(self, total: int) -> str | None:
        """Nothing."""

    def refuses_resources(self, resources: Resources) -> str | None:
        """Nothing."""

    def refuses_place(self, executor: str) -> str | None:
        """Nothing."""


MOST_OF_A_BIN = 0.5
"""A key with so much of a bin's rows is what makes the bin hot."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of a running stream.

    loads: rows per bin of every stateful operator, as measured; shape (bins,) under its present routing.
    hot: rows of single keys that have many, by their hash, over the same time.
    combinable: operators that can pre-aggregate. sources: names of the sources. limits: of the cluster.
    places: by operator, the executor of every task that is placed.
    """

    loads: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    hot: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    combinable: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    limits: Limits = field(default_factory=NoLimits)
    places: Mapping[str, Mapping[int, str]] = field(default_factory=dict)


def resolve(configuration: Configuration, change: c.Change, facts: Facts) -> Configuration:
    """The Configuration after a change (with the version it had before).

    Raises UnknownOperatorError or RefusedError; nothing has happened then.
    """
    parts = c.parts_of(change)
    if len(parts) > MOST_CHANGES:
        msg = f"{len(parts)} changes in one list are too many; at most {MOST_CHANGES}: ask several times"
        raise RefusedError(msg)
    bins = 0
    for part in parts:
        configuration = _resolve(part, configuration, facts)
        bins += _bins_of(part, configuration)
        if len(parts) > 1 and bins > MOST_BINS_IN_ALL:
            msg = (
                f"a list of {len(parts)} changes goes through more than {MOST_BINS_IN_ALL} bins, one change behind"
                " the other: ask for fewer at once"
            )
            raise RefusedError(msg)
    return configuration


def _bins_of(change: c.Change, configuration: Configuration) -> int:
    operator = configuration.operators.get(getattr(change, "operator", ""))
    return 0 if operator is None or operator.routing is None else operator.routing.bins


@singledispatch
def _resolve(change: Any, configuration: Configuration, facts: Facts) -> Configuration:
    del configuration, facts
    msg = f"{change} cannot be resolved here: give the job's functions and streams to reconfigure()"
    raise RefusedError(msg)


def operator_of(configuration: Configuration, name: str) -> OperatorConfiguration:
    """An operator's configuration. Raises UnknownOperatorError with the names there are."""
    found = configuration.operators.get(name)
    if found is None:
        there = ", ".join(map(repr, sorted(configuration.operators)))
        msg = f"there is no operator {name!r}; there are {there}"
        raise UnknownOperatorError(msg)
    return found


def _routed(configuration: Configuration, name: str) -> tuple[OperatorConfiguration, Routing]:
    operator = operator_of(configuration, name)
    if operator.routing is None:
        keyed = sorted(n for n, o in configuration.operators.items() if o.routing is not None)
        msg = (
            f"operator {name!r} keeps no state, so it has no bins; operators with bins are {keyed}"
        )
        raise RefusedError(msg)
    return operator, operator.routing


def _set(configuration: Configuration, name: str, **fields: Any) -> Configuration:
    changed = replace(configuration.operators[name], **fields)
    return replace(configuration, operators={**configuration.operators, name: changed})


def _placed(operator: OperatorConfiguration, tasks: int) -> Mapping[int, str]:
    return {task: where for task, where in operator.placement.items() if task < tasks}


@_resolve.register
def _(change: c.AssignWorkload, configuration: Configuration, facts: Facts) -> Configuration:
    del facts
    operator, _routing = _routed(configuration, change.operator)
    if change.tasks > MOST_TASKS or len(change.starts) > MOST_BINS:
        msg = (
            f"operator {change.operator!r}: {len(change.starts)} bins at {change.tasks} tasks are too many;"
            f" at most {MOST_BINS} bins at {MOST_TASKS} tasks"
        )
        raise RefusedError(msg)
    try:
        routing = Routing(starts=change.starts, owners=change.owners, tasks=change.tasks)
    except ValueError as error:
        raise RefusedError(f"operator {change.operator!r}: {error}") from error
    return _set(
        configuration,
        change.operator,
        tasks=change.tasks,
        routing=routing,
        placement=_placed(operator, change.tasks),
    )


@_resolve.register
def _(change: c.Rescale, configuration: Configuration, facts: Facts) -> Configuration:
    del facts
    operator = operator_of(configuration, change.operator)
    if change.tasks > MOST_TASKS:
        msg = (
            f"operator {change.operator!r}: {change.tasks} tasks are too many; at most {MOST_TASKS}"
        )
        raise RefusedError(msg)
    placement = _placed(operator, change.tasks)
    if operator.routing is None:
        return _set(configuration, change.operator, tasks=change.tasks, placement=placement)
    if change.tasks == operator.tasks:
        return _set(configuration, change.operator, routing=evened(operator.routing))
    if change.tasks > operator.routing.bins:
        msg = (
            f"operator {change.operator!r} has {operator.routing.bins} bins: they can feed at most as many"
            f" tasks, not {change.tasks}; split bins first"
        )
        raise RefusedError(msg)
    routing = rescaled(operator.routing, change.tasks)
    return _set(
        configuration, change.operator, tasks=change.tasks, routing=routing, placement=placement
    )


@_resolve.register
def _(change: c.Rebalance, configuration: Configuration, facts: Facts) -> Configuration:
    _operator, routing = _routed(configuration, change.operator)
    loads = facts.loads.get(change.operator, ())
    if len(loads) != routing.bins or sum(loads) <= 0:
        msg = (
            f"operator {change.operator!r} has received no rows since its bins were cut: there is no load to"
            " balance; ask again after some timesteps, or place bins with move()"
        )
        raise RefusedError(msg)
    return _set(
        configuration, change.operator, routing=rebalanced(routing, loads, change.tolerance)
    )


def advice(configuration: Configuration, change: c.Change, facts: Facts) -> tuple[str, ...]:
    """What a change cannot do, and what would. Raises what `resolve` does."""
    said: list[str] = []
    parts = c.parts_of(change)
    for part in parts if any(isinstance(part, c.Rebalance | c.Split) for part in parts) else ():
        if isinstance(part, c.Split):
            said.extend(_hot_key(part, configuration, facts))
        configuration = _resolve(part, configuration, facts)
        if isinstance(part, c.Rebalance):
            said.extend(_hot(part, configuration, facts))
    return tuple(said)


def _hot_key(change: c.Split, configuration: Configuration, facts: Facts) -> tuple[str, ...]:
    """That a bin is hot because one key is."""
    name = change.operator
    _operator, routing = _routed(configuration, name)
    loads = facts.loads.get(name, ())
    if change.bin >= len(loads) or len(loads) != routing.bins or not loads[change.bin]:
        return ()
    lo, hi = routing.span(change.bin)
    rows = max((n for key, n in facts.hot.get(name, {}).items() if lo <= key < hi), default=0.0)
    share = min(1.0, rows / loads[change.bin])
    if share < MOST_OF_A_BIN:
        return ()
    return (
        f"operator {name!r}: one key has {share:.0%} of the rows of bin {change.bin}, and no cut parts the rows"
        f" of a key: {_instead(name, facts)}",
    )


def _instead(name: str, facts: Facts) -> str:
    if name in facts.combinable:
        return f"pre-aggregate it with combine({name!r}, 'on')"
    return "no placement spreads it"


def _hot(change: c.Rebalance, configuration: Configuration, facts: Facts) -> tuple[str, ...]:
    name = change.operator
    _operator, routing = _routed(configuration, name)
    hot = too_hot(routing, facts.loads[name], change.tolerance) if routing.tasks > 1 else ()
    if not hot:
        return ()
    bins = f"bin {hot[0]} alone has" if len(hot) == 1 else f"bins {list(hot)} each have"
    return (
        f"operator {name!r}: {bins} more than a task's share of the load: split({name!r}, {hot[0]})"
        f" cuts it; if one key is that hot, {_instead(name, facts)}",
    )


@_resolve.register
def _(change: c.Move, configuration: Configuration, facts: Facts) -> Configuration:
    del facts
    _operator, routing = _routed(configuration, change.operator)
    _check_bins(change.operator, routing, change.bins)
    if change.task >= routing.tasks:
        msg = (
            f"operator {change.operator!r} has tasks 0 to {routing.tasks - 1}, not {change.task};"
            " rescale it first"
        )
        raise RefusedError(msg)
    moved = routing.with_owners(dict.fromkeys(change.bins, change.task))
    return _set(configuration, change.operator, routing=moved)


@_resolve.register
def _(change: c.Split, configuration: Configuration, facts: Facts) -> Configuration:
    del facts
    _operator, routing = _routed(configuration, change.operator)
    _check_bins(change.operator, routing, (change.bin,))
    lo, hi = routing.span(change.bin)
    if hi - lo < change.into or routing.bins + change.into - 1 > MOST_BINS:
        msg = (
            f"operator {change.operator!r}: bin {change.bin} cannot be cut into {change.into}: it holds"
            f" {hi - lo} hashes, and there may be at most {MOST_BINS} bins. If one key is hot, cutting does not"
            f" help: pre-aggregate it with combine({change.operator!r}, 'on')"
        )
        raise RefusedError(msg)
    inner = [lo + (hi - lo) * i // change.into for i in range(1, change.into)]
    starts = sorted({*routing.starts, *inner})
    return _set(configuration, change.operator, routing=routing.with_starts(starts))


@_resolve.register
def _(change: c.Merge, configuration: Configuration, facts: Facts) -> Configuration:
    del facts
    _operator, routing = _routed(configuration, change.operator)
    bins = sorted(set(change.bins))
    _check_bins(change.operator, routing, bins)
    if len(bins) < 2 or bins != list(range(bins[0], bins[-1] + 1)):
        msg = (
            f"operator {change.operator!r}: bins {list(change.bins)} are no neighbours; merge a range,"
            f" such as {[bins[0], bins[0] + 1]}"
        )
        raise RefusedError(msg)
    if routing.bins - len(bins) + 1 < routing.tasks:
        msg = (
            f"operator {change.operator!r}: {routing.bins - len(bins) + 1} bins could not feed its"
            f" {routing.tasks} tasks; merge fewer, or rescale it first"
        )
        raise RefusedError(msg)
    together = routing.with_owners(dict.fromkeys(bins, routing.owners[bins[0]]))
    starts = [start for i, start in enumerate(routing.starts) if i not in bins[1:]]
    return _set(configuration, change.operator, routing=together.with_starts(starts))


@_resolve.register
def _(change: c.Rewrite, configuration: Configuration, facts: Facts) -> Configuration:
    del facts
    _routed(configuration, change.operator)
    return configuration  # nothing is placed elsewhere: what is to do is in the route


@_resolve.register
def _(change: c.SetCombine, configuration: Configuration, facts: Facts) -> Configuration:
    operator_of(configuration, change.operator)
    if change.operator not in facts.combinable:
        msg = (
            f"operator {change.operator!r} cannot pre-aggregate what it receives; operators that can are"
            f" {sorted(facts.combinable)}"
        )
        raise RefusedError(msg)
    return _set(configuration, change.operator, combine=change.mode)


@_resolve.register
def _(change: c.AssignResources, configuration: Configuration, facts: Facts) -> Configuration:
    if change.operator is None:
        msg = (
            "the resources of all operators are those of each: ask for them, or make a plan of them"
        )
        raise RefusedError(msg)
    operator_of(configuration, change.operator)
    resources = Resources(
        cpus=change.cpus, memory_mb=change.memory_mb, amounts=dict(change.amounts)
    )
    _unless(facts.limits.refuses_resources, resources, f"operator {change.operator!r}: ")
    usual = resources == Resources()
    return _set(configuration, change.operator, resources=None if usual else resources)


@_resolve.register
def _(change: c.Place, configuration: Configuration, facts: Facts) -> Configuration:
    operator, _routing = _routed(configuration, change.operator)
    if change.task >= operator.tasks:
        msg = f"operator {change.operator!r} has tasks 0 to {operator.tasks - 1}, not {change.task}"
        raise RefusedError(msg)
    placement = {task: at for task, at in operator.placement.items() if task != change.task}
    if change.executor is not None:
        _unless(facts.limits.refuses_place, change.executor, f"operator {change.operator!r}: ")
        placement[change.task] = change.executor
    return _set(configuration, change.operator, placement=placement)


@_resolve.register
def _(change: c.SetExecutors, configuration: Configuration, facts: Facts) -> Configuration:
    _unless(facts.limits.refuses_executors, change.executors, "")
    return replace(configuration, executors=change.executors)


@_resolve.register
def _(change: c.SetInterval, configuration: Configuration, facts: Facts) -> Configuration:
    del facts
    return replace(configuration, interval_ms=change.interval_ms)


@_resolve.register
def _(change: c.SetInFlight, configuration: Configuration, facts: Facts) -> Configuration:
    del facts
    return replace(configuration, in_flight=change.timesteps)


@_resolve.register
def _(change: c.SetBound, configuration: Configuration, facts: Facts) -> Configuration:
    if change.source not in facts.sources:
        msg = f"there is no source {change.source!r}; there are {sorted(facts.sources)}"
        raise RefusedError(msg)
    return replace(
        configuration,
        bounds=_bounded(configuration.bounds, change.source, change.most),
        byte_bounds=_bounded(configuration.byte_bounds, change.source, change.bytes),
    )


def _bounded(bounds: Mapping[str, int], source: str, most: int | None) -> dict[str, int]:
    others = {name: held for name, held in bounds.items() if name != source}
    return others if most is None else {**others, source: most}


@_resolve.register
def _(change: c.ChangeProgram, configuration: Configuration, facts: Facts) -> Configuration:
    del facts
    if change.base is not None and change.base != configuration.dataflow:
        msg = (
            f"{change} was made from version {change.base} of the dataflow, and there is version"
            f" {configuration.dataflow} by then: ask for it again"
        )
        raise RefusedError(msg)
    operators = {
        name: replace(operator, logic=change.logic.get(name, operator.logic))
        for name, operator in configuration.operators.items()
        if name not in change.removed
    }
    for name, given in change.operators.items():
        operators[name] = decode(OperatorConfiguration, given)
    return replace(configuration, operators=operators, dataflow=change.version)


def _check_bins(name: str, routing: Routing, bins: tuple[int, ...] | list[int]) -> None:
    beyond = [number for number in bins if number >= routing.bins]
    if beyond:
        msg = f"operator {name!r} has bins 0 to {routing.bins - 1}, not {beyond}"
        raise RefusedError(msg)


def _unless(refuses: Callable[[Any], str | None], asked: Any, what: str) -> None:
    why = refuses(asked)
    if why is not None:
        raise RefusedError(f"{what}{why}")
