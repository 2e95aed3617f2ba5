"""Names of nodes, and where in the user's program they come from.

A name that the user gives is kept unchanged. A name that Rechannel derives follows from what leads
to the node and from nothing else, so it stays when a branch is added elsewhere:

* a source is called after its files' directory, its function or its kind;
* a stateless node `<anchor>.<kind>-<n>`, where the anchor is the nearest source, keyed operator or
  given name upstream and n counts the nodes of that kind since;
* a keyed operator `<anchor>.<kind>-by-<keys>`;
* a sink after its format and path, its table, or what it writes.

Two branches off one stream can thus derive one name. Where nothing is kept under a name (stateless
nodes, console), it is a `FreeName`, and the second, third, ... bearer in the order in which the
sinks lead to them is numbered (`settle`). Sources, keyed operators and other sinks keep offsets,
state or files under theirs, and a number could come to mean another one: there the user is asked
for a name.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from rechannel.dataflow.graph.nodes import Dataflow, Node, Union, Where
from rechannel.errors import DataflowError

_PACKAGE = __name__.partition(".")[0]

_NAME = re.compile(r"\w[\w.\- ]{0,127}")


class DerivedName(str):
    """A name that Rechannel made up."""

    __slots__ = ()


class FreeName(DerivedName):
    """A name under which nothing is kept: it may be numbered to tell it from another."""

    __slots__ = ()


def caller() -> Where:
    """The nearest line on the stack that is not Rechannel's own."""
    frame = inspect.currentframe()
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module != _PACKAGE and not module.startswith(f"{_PACKAGE}."):
            return Where(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return Where("<unknown>", 0)


def given(name: str | None, derived: DerivedName) -> str:
    """The user's name if there is one, else the derived one. Raises DataflowError."""
    if name is None:
        return derived
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        msg = (
            f"{name!r} cannot be a name: use letters, digits, '_', '-', '.' and spaces, "
            "at most 128, and begin with a letter, a digit or '_'"
        )
        raise DataflowError(msg)
    if name.startswith("_rc"):
        msg = f"{name!r} cannot be a name: names that begin with '_rc' are reserved"
        raise DataflowError(msg)
    return name


def stateless_name(upstream: Node, kind: str) -> FreeName:
    """`<anchor>.<kind>-<n>` for a node downstream of the given one."""
    stem = f"{anchor(upstream)}.{kind}-"
    before = sum(
        isinstance(node.name, FreeName) and node.name.startswith(stem)
        for node in ancestors(upstream)
    )
    return FreeName(f"{stem}{before + 1}")


def keyed_name(upstream: Node, kind: str, keys: tuple[str, ...]) -> DerivedName:
    """`<anchor>.<kind>-by-<keys>`."""
    if not keys:
        return DerivedName(f"{anchor(upstream)}.{kind}")
    return DerivedName(f"{anchor(upstream)}.{kind}-by-{'-'.join(map(plain, keys))}")


def files_name(path: str) -> str:
    """The last part of a path that is not a pattern, without its suffix."""
    parts = [part for part in PurePosixPath(path).parts if not set(part) & set("*?[{")]
    stem = PurePosixPath(parts[-1]).name.partition(".")[0] if parts else ""
    return plain(stem) or "files"


def plain(text: str) -> str:
    """Text with everything that a name cannot hold taken out."""
    return re.sub(r"\W+", "_", text).strip("_")


def function_name(function: object, otherwise: str) -> str:
    """A function's own name, or the other word for lambdas and objects."""
    return plain(str(getattr(function, "__name__", ""))).replace("lambda", "") or otherwise


def anchor(node: Node) -> str:
    """The nearest name, upstream and first inputs first, that others are derived from."""
    while isinstance(node.name, FreeName):
        node = node.upstreams[0]
    return node.name


def ancestors(node: Node) -> Iterator[Node]:
    """The node and everything upstream of it, each once."""
    return iter(Dataflow.of(node).nodes)


def origins(node: Node) -> Iterator[Node]:
    """The node and everything that its rows come from, each once: no broadcast inputs."""
    found: dict[int, Node] = {}

    def visit(each: Node) -> None:
        if id(each) not in found:
            found[id(each)] = each
            for one in each.feeds:
                visit(one)

    visit(node)
    return iter(found.values())


def settle(dataflow: Dataflow) -> Dataflow:
    """Number free names that are alike: the first keeps it, the others get `~2`, `~3`, ..."""
    taken = Counter(node.name for node in dataflow.nodes if not isinstance(node.name, FreeName))
    settled: dict[int, Node] = {}
    for node in dataflow.nodes:
        changes = with_upstreams(node, settled)
        if isinstance(node.name, FreeName):
            taken[node.name] += 1
            if taken[node.name] > 1:
                changes["name"] = FreeName(f"{node.name}~{taken[node.name]}")
        settled[id(node)] = replace(node, **changes) if changes else node
    return Dataflow(tuple(settled.values()))


def with_upstreams(node: Node, settled: dict[int, Node]) -> dict[str, Any]:
    """The fields in which a node must change because something upstream of it did."""
    new = tuple(settled[id(up)] for up in node.upstreams)
    if all(a is b for a, b in zip(new, node.upstreams, strict=True)):
        return {}
    if isinstance(node, Union):
        return {"inputs": new}
    return {"upstream": new[0], **({"broadcasts": new[1:]} if new[1:] else {})}
