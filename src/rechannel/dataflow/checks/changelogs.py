"""Which operators have a changelog, and that the one that a stream asks for is there."""

from __future__ import annotations

from collections.abc import Iterator

from rechannel.dataflow.graph.nodes import Changelog, Dataflow, Node, Side, Sink, Stateful
from rechannel.dataflow.graph.rules import label
from rechannel.dataflow.graph.schema import known
from rechannel.dataflow.graph.timing import silent_timeout, time_inputs
from rechannel.errors import DataflowError
from rechannel.kernels.functions.changelog import ChangelogRows


def need_changelog(node: Node) -> None:
    """Raise DataflowError unless a node is an operator whose rows change."""
    if not isinstance(node, Stateful):
        msg = (
            f"{label(node)} has no changelog: ask the stream of an operator with state for it, before other functions,"
            " as in stream.key_by(...).aggregate(...).changelog()"
        )
        raise DataflowError(msg)
    if node.spec.unchanging is not None:
        msg = f"{label(node)} has no changelog: {node.spec.unchanging}"
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
    """Raise DataflowError for a changelog of an operator that has none, such as after a change of its logic.

    Also for one that a sink would take for the rows of a table.
    """
    for node in dataflow.nodes:
        if isinstance(node, Changelog):
            need_changelog(node.upstream)
        if isinstance(node, Sink) and node.outlet.takes_newest:
            for column in _columns_of_changes(node.upstream):
                msg = (
                    f"{label(node)}: rows of a changelog would be written by their keys as if they were rows of the"
                    f" table, deleted ones too. Give the sink changes={column!r}, or leave its keys out"
                )
                raise DataflowError(msg)


def _columns_of_changes(node: Node) -> Iterator[str]:
    """Yield the columns of the changelogs that rows of a node come from, as far as they are known to be there."""
    if isinstance(node, Changelog) and isinstance(node.function, ChangelogRows):
        yield node.function.column
    if isinstance(node, Stateful | Side):
        return
    schema = known(node)
    for upstream in node.upstreams:
        for column in _columns_of_changes(upstream):
            if schema is None or column in schema.names:
                yield column
