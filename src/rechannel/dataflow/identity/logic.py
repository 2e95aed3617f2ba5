"""Which logic a node runs: where it can be imported from, and a digest of what it does.

The journal says which logic a timestep ran under. It can be brought back by its import path (`load_logic`), and
the digest tells whether what stands there is still the same. Nothing is ever unpickled.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from typing import Any

from rechannel.dataflow.graph.nodes import (
    Dataflow,
    MapBatches,
    Node,
    Side,
    Sink,
    Source,
    Stateful,
    Transform,
)
from rechannel.dataflow.graph.rules import kind_of
from rechannel.dataflow.identity.digests import Digest, digest_of, path_of
from rechannel.errors import DataflowError
from rechannel.kernels.functions.dead_letters import Apart, Malformed
from rechannel.kernels.functions.expectations import Expect
from rechannel.kernels.functions.masks import MaskFilter
from rechannel.kernels.functions.resources import WithResource
from rechannel.kernels.functions.row_functions import RowFilter, RowFlatMap, RowMap
from rechannel.kernels.functions.select import Select, Where
from rechannel.kernels.protocol.two_sides import Sided
from rechannel.kernels.shuffle.watermarks import EventTime
from rechannel.operators.window.logic import AssignWindows
from rechannel.sources.connector import Connector


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicIdentity:
    """Which logic a node runs.

    path: "module:qualname" of the user's function; None where it has none (lambdas, local
    functions, SQL, aggregates, sources, sinks). digest: sha256 in hex of what it does. importable:
    whether another process finds this function at the path. complete: whether the digest saw
    everything the function holds.
    """

    path: str | None
    digest: str
    importable: bool
    complete: bool = True


def logic_identity(node: Node) -> LogicIdentity:
    """Identity of a node's logic. Names, keys, tasks and what feeds the node are not part of it."""
    digest = _digest(node)
    function = function_of(node)
    path = None if function is None else path_of(function)
    return LogicIdentity(
        path=path,
        digest=digest.text,
        importable=path is not None and find_loaded(path) is function,
        complete=digest.complete,
    )


def dataflow_identity(dataflow: Dataflow) -> dict[str, dict[str, Any]]:
    """Every node by name, as plain JSON: kind, upstreams (names), path, digest; keys of operators."""
    out: dict[str, dict[str, Any]] = {}
    for node in dataflow.nodes:
        identity = logic_identity(node)
        out[str(node.name)] = {
            "kind": kind_of(node),
            "upstreams": [str(up.name) for up in node.upstreams],
            "path": identity.path if identity.importable else None,
            "digest": identity.digest,
        }
        if isinstance(node, Stateful):
            out[str(node.name)]["keys"] = list(node.keys)
    return out


def function_of(node: Node) -> Callable[..., Any] | None:
    """The user's own function of a node: the one that a path can stand for. None = there is none."""
    if isinstance(node, Side):
        return None
    if isinstance(node, MapBatches):
        function = node.function.function if isinstance(node.function, Apart) else node.function
        if isinstance(
            function, EventTime | AssignWindows | Sided | Select | MaskFilter | Malformed | Expect
        ):
            return None
        if isinstance(function, Where):
            return function.condition.function
        inner = isinstance(function, RowMap | RowFlatMap | RowFilter | WithResource)
        return function.function if inner else function  # type: ignore[attr-defined]
    if isinstance(node, Transform):
        return node.function if path_of(node.function) else None
    if isinstance(node, Stateful):
        return node.spec.user_function
    return None


def load_logic(path: str) -> Callable[..., Any]:
    """The function at an import path "package.module:qualname". Raises DataflowError."""
    module_name, colon, name = path.partition(":") if isinstance(path, str) else ("", "", "")
    if not colon or not module_name or not name:
        msg = f"{path!r} is not the import path of a function: write 'package.module:function'"
        raise DataflowError(msg)
    if "<" in name:
        msg = (
            f"{path!r} is a lambda or a function inside a function: nothing can be imported from "
            "there; define it at the top of a module"
        )
        raise DataflowError(msg)
    if module_name == "__main__":
        msg = f"{path!r} is in the program that is run itself; move it into a module of its own"
        raise DataflowError(msg)
    try:
        found: Any = import_module(module_name)
    except (
        Exception,
        SystemExit,
    ) as error:  # a module may be a program, which ends when it is imported
        msg = f"cannot import {module_name!r} for {path!r}: {type(error).__name__}: {error}"
        raise DataflowError(msg) from error
    for part in name.split("."):
        if not hasattr(found, part):
            msg = f"there is no {name!r} in module {module_name!r}"
            raise DataflowError(msg)
        found = getattr(found, part)
    if not callable(found):
        msg = f"{path!r} is a {type(found).__name__}, which cannot be called"
        raise DataflowError(msg)
    function: Callable[..., Any] = found
    return function


def _digest(node: Node) -> Digest:
    if isinstance(node, Source):
        return digest_of(("source", node.connector.describe()))
    if isinstance(node, Sink):
        return digest_of(("sink", node.outlet.describe()))
    if isinstance(node, Transform):
        return digest_of((node.function, node.materialise))
    if isinstance(node, MapBatches):
        return digest_of((node.function, node.schema))
    if isinstance(node, Stateful):
        return digest_of(node.spec)
    return digest_of(type(node).__name__)


def other_settings(one: Connector, other: Connector) -> list[str]:
    """Return the names of settings that two connectors do not have in common, as far as digests show."""
    if one is other:
        return []
    if type(one) is not type(other) or not is_dataclass(one):
        return ["connector"]
    settings = (f.name for f in fields(one) if not f.metadata.get("running"))
    pairs = ((name, getattr(one, name), getattr(other, name)) for name in settings)
    return [
        name
        for name, mine, theirs in pairs
        if mine is not theirs and digest_of(mine).text != digest_of(theirs).text
    ]


def find_loaded(path: str) -> object:
    """What stands at a path in this process, without importing anything."""
    module_name, _, name = path.partition(":")
    found: object = None if module_name == "__main__" else sys.modules.get(module_name)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found
