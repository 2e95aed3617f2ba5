"""Which nodes have dead letters, and that a sink reads them: rows never vanish without a word."""

from __future__ import annotations

from rechannel.dataflow.graph.naming import caller
from rechannel.dataflow.graph.nodes import Dataflow, DeadLetters, MapBatches, Node, Stateful
from rechannel.dataflow.graph.rules import label
from rechannel.errors import DataflowError
from rechannel.kernels.functions.dead_letters import divides
from rechannel.kernels.functions.expectations import Expect
from rechannel.model.bad_rows import AtMost

_CHOICES = ("fail", "dead_letter")


def has_dead_letters(what: str, on_error: object) -> bool:
    """Whether `on_error=` says so. Raises DataflowError for what it cannot be."""
    if isinstance(on_error, AtMost):
        return True
    if on_error not in _CHOICES:
        msg = (
            f"{what} ({caller()}): on_error must be 'fail' or 'dead_letter', not {on_error!r}; or say with"
            " rc.at_most(...) how many dead letters there may be"
        )
        raise DataflowError(msg)
    return on_error == "dead_letter"


def letters_leave(node: Node) -> bool:
    """Whether rows that a node cannot handle leave as dead letters."""
    if isinstance(node, MapBatches):
        return divides(node.function)
    return isinstance(node, Stateful) and divides(node.spec)


def bounds_of(dataflow: Dataflow) -> dict[str, AtMost]:
    """Return how many rows may be bad, by node that says so."""
    judges = {
        str(node.name): node.function if isinstance(node, MapBatches) else node.spec
        for node in dataflow.nodes
        if isinstance(node, MapBatches | Stateful)
    }
    bounds = {
        name: judge.bound if isinstance(judge, Expect) else getattr(judge, "on_error", None)
        for name, judge in judges.items()
    }
    return {name: bound for name, bound in bounds.items() if isinstance(bound, AtMost)}


def need_dead_letters(node: Node) -> None:
    """Raise DataflowError unless a node has dead letters."""
    if not letters_leave(node):
        msg = f"{label(node)} has no dead letters: give it on_error='dead_letter'"
        raise DataflowError(msg)


def check_letters(dataflow: Dataflow) -> None:
    """Raise DataflowError if dead letters of a node are not read, or are read of one that has none."""
    for node in dataflow.nodes:
        if isinstance(node, DeadLetters):
            need_dead_letters(node.upstream)
        readers = (user for user in dataflow.consumers(node) if isinstance(user, DeadLetters))
        if letters_leave(node) and next(readers, None) is None:
            msg = (
                f"no sink reads the dead letters of {label(node)}: end its .dead_letters in a sink, as in"
                " stream.dead_letters.write.parquet('dead'), or leave on_error= out"
            )
            raise DataflowError(msg)
