"""The page of every public name: how it is called, and its docstring."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import is_dataclass
from enum import Enum
from importlib import import_module
from textwrap import fill, indent
from types import ModuleType
from typing import Any

import rechannel as rc
from rechannel import strategies
from rechannel.dataflow.streams import cogroups, keyed, reader, stream, windowed, writer
from rechannel.reconfigure.changes.registry import python_names
from scripts.reference.docstrings import WIDTH, doc, fields, signature, with_parameters

HEAD = """\
# Every public name

How each name is called, and what its docstring says, on one page: to search, to read in a checkout,
and for tools. The site has the same [page by page](README.md), with links between types. Settings
and commands have [a page of their own](settings.md).

`python -m scripts.reference_pages` makes this page from the code.
"""

STREAMS = (
    reader.Reader,
    stream.Stream,
    keyed.KeyedStream,
    windowed.WindowedStream,
    cogroups.Cogrouped,
    writer.Writer,
    writer.FormatWriter,
)
"""What `rc.read()` and operators return. Programs do not import these by name."""

MADE = frozenset(python_names().values()) | {getattr(strategies, n) for n in strategies.__all__}
"""Programs make these and read none of their members."""

GROUPS = (
    *("aggregates", "windows", "states", "changes", "strategies", "expectations", "formats"),
    *("sources", "sinks", "frames", "monitoring", "control", "control.library", "errors"),
    *("testing", "testing.scaling"),
)


def page() -> str:
    """The whole page."""
    parts = [HEAD, *_part("rechannel", _root())]
    parts += _part("Streams", {kind.__name__: kind for kind in STREAMS})
    for group in GROUPS:
        parts += _part(f"rechannel.{group}", _members(import_module(f"rechannel.{group}"), group))
    return "\n".join(parts)


def _root() -> dict[str, Any]:
    """Names of the root that are no groups."""
    values = {name: getattr(rc, name) for name in rc.__all__}
    return {
        f"rc.{name}": value
        for name, value in values.items()
        if not isinstance(value, ModuleType) and name != "__version__"
    }


def _members(module: ModuleType, group: str) -> dict[str, Any]:
    prefix = group if group.startswith("testing") else f"rc.{group}"
    values = {name: getattr(module, name) for name in module.__all__}
    return {f"{prefix}.{n}": v for n, v in values.items() if not isinstance(v, ModuleType)}


def _part(title: str, values: dict[str, Any]) -> Iterator[str]:
    yield f"## {title}\n"
    for name, value in values.items():
        yield from _entry(name, value)


def _entry(name: str, value: Any) -> Iterator[str]:
    yield f"### {name}\n"
    if inspect.isclass(value):
        text = "\n\n".join(_class(name, value))
    elif callable(value):
        text = _told(signature(name, value), doc(value))
    else:
        text = _told(name, doc(value))
    yield f"```python\n{text}\n```\n"


def _told(head: str, *words: str) -> str:
    """What is called, and the words on it, as in a program."""
    text = "\n\n".join(word for word in words if word)
    last = "\n" if "\n" in text else ""
    quoted = f'"""{text}{last}"""'
    return f"{head}\n{indent(quoted, '    ')}" if text else head


def _class(name: str, kind: type) -> Iterator[str]:
    """The class, then each of its public members."""
    yield _told(f"class {_made(name, kind)}", doc(kind), _constructor(kind), _fields(kind))
    if kind not in MADE:
        for member, method in _methods(kind):
            yield _told(f"{name.rpartition('.')[2]}.{method}", doc(member))


def _made(name: str, kind: Any) -> str:
    """How an instance is made; the bare name of what programs do not make."""
    abstract = getattr(kind, "_is_protocol", False) or kind.__init__ is object.__init__
    if abstract or issubclass(kind, BaseException | Enum):
        return name
    return signature(name, with_parameters(kind.__init__, skipped=1, returns=False))


def _constructor(kind: type) -> str:
    """What the constructor's own docstring says."""
    written = vars(kind).get("__init__")
    return doc(written) if written and not is_dataclass(kind) else ""


def _fields(kind: type) -> str:
    """Members of an enumeration, or attributes with the words below them in the source."""
    if issubclass(kind, Enum):
        return "\n".join(each.name for each in kind)
    said = {name: words for name, (_, _, words) in fields(kind).items() if words}
    return "\n".join(
        fill(f"{name}: {words}", width=WIDTH - 4, subsequent_indent="    ")
        for name, words in said.items()
    )


def _methods(kind: type) -> Iterator[tuple[Any, str]]:
    """Public methods and properties that are of this package, in the order of the source, with how they are called."""
    homes = {n: each for each in reversed(kind.__mro__) for n in vars(each)}
    attributes = fields(kind)
    for name, home in homes.items():
        if (
            name.startswith("_")
            or name in attributes
            or not home.__module__.startswith("rechannel")
        ):
            continue
        value = vars(home)[name]
        if isinstance(value, property):
            yield value, name
        elif isinstance(value, staticmethod):
            yield value.__func__, signature(name, value.__func__)
        elif isinstance(value, classmethod):
            yield value.__func__, signature(name, with_parameters(value.__func__, skipped=1))
        elif inspect.isfunction(value):
            yield value, signature(name, with_parameters(value, skipped=1))
