"""What code says about itself: signatures, docstrings, arguments, and the words under fields."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

WIDTH = 100


def doc(value: Any) -> str:
    """The docstring of its own; "" if there is none."""
    text = getattr(value, "__doc__", None) if inspect.isclass(value) else inspect.getdoc(value)
    return inspect.cleandoc(text) if text else ""


def summary(value: Any) -> str:
    """The first sentence or paragraph, on one line."""
    return " ".join(doc(value).split("\n\n")[0].split())


def with_parameters(
    function: Callable[..., Any], *, skipped: int, returns: bool = True
) -> inspect.Signature:
    """The signature without the first parameters, such as `self`."""
    found = inspect.signature(function)
    kept = list(found.parameters.values())[skipped:]
    end = found.return_annotation if returns else inspect.Signature.empty
    return found.replace(parameters=kept, return_annotation=end)


def signature(name: str, called: Callable[..., Any] | inspect.Signature) -> str:
    """How it is called: on one line, or with a line per parameter."""
    found = called if isinstance(called, inspect.Signature) else inspect.signature(called)
    words = list(_parameters(found))
    returned = found.return_annotation
    end = "" if returned in {inspect.Signature.empty, "None", None} else f" -> {_type(returned)}"
    line = f"{name}({', '.join(words)}){end}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {word}," for word in words), f"){end}"])


def _parameters(found: inspect.Signature) -> Iterator[str]:
    kinds = [p.kind for p in found.parameters.values()]
    starred = False
    for number, one in enumerate(found.parameters.values()):
        if one.kind is one.VAR_POSITIONAL:
            starred = True
        if one.kind is one.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        yield _parameter(one)
        last_of_these = number + 1 == len(kinds) or kinds[number + 1] is not one.kind
        if one.kind is one.POSITIONAL_ONLY and last_of_these:
            yield "/"


def _parameter(one: inspect.Parameter) -> str:
    starred: dict[Any, str] = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}
    stars = starred.get(one.kind, "")
    typed = "" if one.annotation is one.empty else f": {_type(one.annotation)}"
    if one.default is one.empty:
        return f"{stars}{one.name}{typed}"
    return f"{stars}{one.name}{typed}{' = ' if typed else '='}{shown(one.default)}"


def _type(annotation: Any) -> str:
    if isinstance(annotation, str):
        return _bare(ast.parse(annotation, mode="eval").body)
    return getattr(annotation, "__name__", None) or str(annotation)


def shown(value: Any) -> str:
    """A default as it is written in a program."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return f"{type(value).__name__}(...)"
    name = getattr(value, "__name__", repr(value))
    return "..." if name.startswith("<") or " at 0x" in name else name


def arguments(function: Any) -> dict[str, str]:
    """What the section "Args:" of a docstring says of each parameter, on one line each."""
    found = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", doc(function), re.DOTALL | re.MULTILINE)
    said: dict[str, str] = {}
    name = ""
    for line in textwrap.dedent(found[1]).splitlines() if found else ():
        begun = re.match(r"([*\w, ]+): (.*)", line)
        if begun and not line.startswith(" "):
            name = begun[1].strip("*")
            said[name] = begun[2]
        elif name and line.strip():
            said[name] += f" {line.strip()}"
    return {one: words for names, words in said.items() for one in names.split(", ")}


def fields(kind: type) -> dict[str, tuple[str, str, str]]:
    """Fields of a class, those of its bases first: type, default as written ("" = needed), and the words on it."""
    found: dict[str, tuple[str, str, str]] = {}
    for each in reversed(kind.__mro__):
        if each.__module__.startswith("rechannel"):
            found |= _own_fields(each)
    return {name: each for name, each in found.items() if not name.startswith("_")}


def _own_fields(kind: type) -> dict[str, tuple[str, str, str]]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    if not isinstance(tree, ast.ClassDef):
        raise TypeError(kind)
    found: dict[str, tuple[str, str, str]] = {}
    for one, after in zip(tree.body, [*tree.body[1:], ast.Pass()], strict=True):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            default = ast.unparse(one.value) if one.value else ""
            words = _text(after) or _described(one.annotation)
            found[one.target.id] = (_bare(one.annotation), _plain(default), words)
    return found


def _bare(annotation: ast.expr) -> str:
    """A type as it is written, without what `Annotated` adds to it."""
    match annotation:
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[first, *_])):
            return _bare(first)
    return ast.unparse(annotation)


def _described(annotation: ast.expr) -> str:
    """The description that `Annotated` adds to a type."""
    for one in ast.walk(annotation):
        if isinstance(one, ast.keyword) and one.arg == "description":
            return str(ast.literal_eval(one.value))
    return ""


def _plain(default: str) -> str:
    made = re.fullmatch(r"field\(default_factory=([\w.]+)\)", default)
    return f"{made[1]}()" if made else default


def _text(node: ast.stmt) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return " ".join(str(node.value.value).split())
    return ""
