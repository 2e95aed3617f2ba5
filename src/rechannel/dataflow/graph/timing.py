"""Where operators have their event time from: a walk upstream, to the nearest places at which it is declared."""

from __future__ import annotations

from collections.abc import Iterator

from rechannel.dataflow.graph.nodes import MapBatches, Node, Paired, Side, Source, Stateful
from rechannel.kernels.shuffle.watermarks import EventTime
from rechannel.model.eventtime import TimeInput


def time_inputs(node: Stateful, *, changelog: bool = False) -> tuple[TimeInput, ...]:
    """Inputs of time of an operator, in a fixed order; none if no rows with event time get there.

    changelog: whether its changelog is read.
    """
    if node.spec.processing or (changelog and silent_timeout(node)):
        return (TimeInput(name=node.name, processing=True, finished=node.spec.finished),)
    beside = TimeInput(name=node.name, processing=True, beside=True, finished=node.spec.finished)
    inputs = tuple(_input(each) for each in _declared(_leading(node)))
    return (*inputs, beside) if node.spec.processing_beside else inputs


def silent_timeout(node: Stateful) -> bool:
    """Whether keys end by the time of timesteps, and no row is emitted then."""
    spec = node.spec
    return spec.timeout_ms is not None and not spec.needs_time and not spec.processing


def time_names(node: Node) -> tuple[str, ...]:
    """Names of the inputs of time of a node's own rows."""
    return tuple(each.name for each in _declared(node))


def untimed(node: Node) -> list[Node]:
    """Sources, late rows and dead letters that reach a node without an event time."""
    if _own(node) is not None:
        return []
    by_timesteps = isinstance(node, Stateful) and node.spec.processing
    if by_timesteps or isinstance(node, Source | Side):
        return [node]
    upstreams = (_leading(node),) if isinstance(node, Stateful) else node.upstreams
    return list({id(n): n for up in upstreams for n in untimed(up)}.values())


def declared_column(node: Node) -> str | None:
    """Return the column of event times of a node's rows.

    None if its inputs declare different ones or none, or if an operator comes between.
    """
    columns = {own.column if (own := _own(each)) else None for each in _declared(node)}
    return columns.pop() if len(columns) == 1 else None


def _declared(node: Node) -> list[MapBatches | Stateful]:
    return list({id(each): each for each in _walk(node)}.values())


def _walk(node: Node) -> Iterator[MapBatches | Stateful]:
    if isinstance(node, Side):
        return
    if isinstance(node, MapBatches) and _own(node):
        yield node
    elif isinstance(node, Stateful):
        if _declared(_leading(node)) and not node.spec.processing:
            yield node
    else:
        for upstream in node.upstreams:
            yield from _walk(upstream)


def _leading(node: Stateful) -> Node:
    """What brings an operator its event time: of one that looks rows up in a table, the rows, and not the table."""
    upstream = node.upstream
    if node.spec.has_table and isinstance(upstream, Paired):
        return upstream.inputs[0]
    return upstream


def _own(node: Node) -> EventTime | None:
    """The event time that a node declares itself."""
    function = node.function if isinstance(node, MapBatches) else None
    return function if isinstance(function, EventTime) else None


def _input(node: MapBatches | Stateful) -> TimeInput:
    own = _own(node)
    if own is None:
        return TimeInput(name=node.name)
    return TimeInput(
        name=node.name, delay_us=own.delay_us, idle_ms=own.idle_ms, finished=own.finished
    )
