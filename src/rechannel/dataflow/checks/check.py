"""Checks of a whole dataflow before anything runs, and what tells its state from another's."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from rechannel.dataflow.checks.changelogs import check_changelogs
from rechannel.dataflow.checks.dead import check_letters
from rechannel.dataflow.checks.replays import check_replays
from rechannel.dataflow.checks.serialise import Dumps, check_functions
from rechannel.dataflow.graph.nodes import Dataflow, Node, Sink, Stateful
from rechannel.dataflow.graph.rules import label
from rechannel.dataflow.graph.schema import bind_all
from rechannel.errors import DataflowError, DuplicateNameError
from rechannel.model.ddl import columns_text


def check(dataflow: Dataflow, dumps: Dumps | None = None) -> None:
    """Check everything that needs no engine.

    dumps: how functions are pickled for workers; None leaves that unchecked.
    Raises DuplicateNameError, UnknownColumnError, SerialisationError or another DataflowError.
    """
    check_names(dataflow)
    check_ends(dataflow)
    check_letters(dataflow)
    check_replays(dataflow)
    check_changelogs(dataflow)
    check_outlets(dataflow)
    bind_all(dataflow)
    if dumps is not None:
        check_functions(dataflow, dumps)


def check_names(dataflow: Dataflow) -> None:
    """Raise DuplicateNameError if two nodes carry one name."""
    seen: dict[str, Node] = {}
    for node in dataflow.nodes:
        other = seen.setdefault(node.name, node)
        if other is not node:
            msg = (
                f"two nodes are called {node.name!r}: {label(other)} and {label(node)}; "
                "give one of them another name with name="
            )
            raise DuplicateNameError(msg)


def check_ends(dataflow: Dataflow) -> None:
    """Raise DataflowError if the dataflow has no end that does anything."""
    for node in dataflow.nodes:
        used = any(True for _ in dataflow.consumers(node))
        if not used and not isinstance(node, Sink | Stateful):
            msg = (
                f"{label(node)}: no sink reads its rows; end the stream with a sink, "
                "as in stream.write.parquet('out')"
            )
            raise DataflowError(msg)
    if not dataflow.nodes:
        msg = "the dataflow is empty; give the job at least one stream that ends in a sink"
        raise DataflowError(msg)


def check_outlets(dataflow: Dataflow) -> None:
    """Raise DuplicateNameError if two sinks write to one place."""
    seen: dict[str, Sink] = {}
    for node in dataflow.nodes:
        if not isinstance(node, Sink) or node.outlet.place is None:
            continue
        place = node.outlet.place
        other = seen.setdefault(place, node)
        if other is not node:
            msg = f"{label(other)} and {label(node)} both write to {place}; give one another place"
            raise DuplicateNameError(msg)


def fingerprint(
    dataflow: Dataflow, schemas: Mapping[str, pa.Schema] | None = None
) -> dict[str, str]:
    """What the stored state of every keyed operator depends on, by name, as readable text.

    schemas: columns of every node, from `resolve`; with them, key and state types count too.
    """
    return {
        node.name: _fingerprint(node, schemas)
        for node in dataflow.nodes
        if isinstance(node, Stateful)
    }


def _fingerprint(node: Stateful, schemas: Mapping[str, pa.Schema] | None) -> str:
    if schemas is None:
        return f"{node.spec.fingerprint()} by {', '.join(node.keys)}"
    logic = node.spec.bind(node.keys, schemas[node.upstream.name])
    keys, state = columns_text(logic.key_schema), columns_text(logic.state_schema)
    return f"{node.spec.fingerprint()} by {keys} keeping {state}"
