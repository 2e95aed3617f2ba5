"""Which operators have a changelog, and that the one that a stream asks for is there."""

from __future__ import annotations

from rechannel.dataflow.graph.nodes import Changelog, Dataflow, Node, Stateful
from rechannel.dataflow.graph.rules import label
from rechannel.dataflow.graph.timing import silent_timeout, time_inputs
from rechannel.errors import DataflowError


def need_changelog(node: Node) -> None:
    """Raise DataflowError unless a node is an operator whose rows change."""
    if not isinstance(node, Stateful):
        msg = (
            f"{label(node)} has no changelog: ask the stream of an operator with state for it, before other functions,"
            " as in stream.key_by(...).aggregate(...).changelog()"
        )
        raise DataflowError(msg)
    if node.spec.unchanging is not None:
        msg = f"{label(node)} has no changelog: {node.spec.unchanging}. Use the stream itself, whose rows are all inserts"
        raise DataflowError(msg)
    if silent_timeout(node) and time_inputs(node):
        msg = (
            f"{label(node)} ends keys by processing time, and passes event time on, so that its changelog cannot tell"
            " when they end: give it time='event', or expired=lambda key, state: None"
        )
        raise DataflowError(msg)


def has_changelog(dataflow: Dataflow, node: Stateful) -> bool:
    """Whether the changelog of an operator is read."""
    return any(isinstance(user, Changelog) for user in dataflow.consumers(node))


def check_changelogs(dataflow: Dataflow) -> None:
    """Raise DataflowError for a changelog of an operator that has none, such as after a change of its logic."""
    for node in dataflow.nodes:
        if isinstance(node, Changelog):
            need_changelog(node.upstream)
