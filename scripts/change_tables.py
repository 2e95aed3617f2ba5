#!/usr/bin/env python3
"""Write the tables of changes in the pages of docs/, from the registry of changes.

    scripts/change_tables.py            writes them
    scripts/change_tables.py --check    exit status 1 if a page has another table

A table stands between `<!-- changes: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rechannel.cli.remote.commands import changes
from rechannel.cli.remote.fields import Written, written
from rechannel.reconfigure import edits
from rechannel.reconfigure.changes.registry import KINDS, python_names, requestable

DOCS = Path(__file__).parent.parent / "docs"


def in_python() -> Iterator[str]:
    """A row per name of `rc.changes`: how it is called, and the docstring."""
    kinds = {kind.kind: kind for kind in KINDS}
    # Edits are registered when their module is imported.
    names = [*(n for n in python_names() if n not in edits.__all__), *edits.__all__]
    yield "| change | what it does |"
    yield "| -- | -- |"
    for name in names:
        function = python_names()[name]
        words = _paragraphs(kinds[name]) if name in kinds else _paragraphs(function)[:1]
        yield f"| `{name}({_arguments(function)})` | {' '.join(words)} |"


def on_the_command_line() -> Iterator[str]:
    """A row per sub-command: how it is written, and the first line of the docstring."""
    yield "| change | what it does |"
    yield "| -- | -- |"
    for name, kind in changes().items():
        usage = " ".join([name, *map(_usage, written(kind))])
        yield f"| `{usage}` | {_paragraphs(kind)[0]} |"


def over_http() -> Iterator[str]:
    """A row per kind: its fields, their defaults and what they mean."""
    yield "| `kind` | fields |"
    yield "| -- | -- |"
    for kind in requestable():
        yield f"| `{kind.kind}` | {' '.join(_field(one) for one in written(kind))} |"


TABLES: Mapping[str, Callable[[], Iterator[str]]] = {
    "python": in_python,
    "command line": on_the_command_line,
    "http": over_http,
}
PAGES = ("changing-a-stream.md", "cli.md", "http.md")


def with_tables(page: str) -> str:
    """The text of a page with its tables made anew."""

    def table(found: re.Match[str]) -> str:
        return "\n\n".join([found[1], "\n".join(TABLES[found[2]]()), found[3]])

    return re.sub(r"(<!-- changes: ([a-z ]+) -->).*?(<!-- end -->)", table, page, flags=re.DOTALL)


def _paragraphs(value: Any) -> list[str]:
    text = inspect.getdoc(value) or ""
    return [" ".join(part.split()) for part in text.split("\n\n")]


def _arguments(function: Callable[..., Any]) -> str:
    return ", ".join(_argument(one) for one in inspect.signature(function).parameters.values())


def _argument(parameter: inspect.Parameter) -> str:
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return f"*{parameter.name}"
    if parameter.default is inspect.Parameter.empty:
        return parameter.name
    plain = isinstance(parameter.default, int | float | str | None)
    return f"{parameter.name}={parameter.default!r}" if plain else f"{parameter.name}=..."


def _usage(field: Written) -> str:
    if field.cli.argument:
        words = field.cli.metavar or field.name.upper()
    else:
        value = field.cli.metavar or ("N" if field.type is int else field.name.upper())
        words = f"{field.flag} {value}"
    return f"[{words}]" if field.optional else words


def _field(field: Written) -> str:
    optional = " (optional)" if field.has_default else ""
    return f"`{field.name}`{optional}: {field.words}"


def main(arguments: list[str]) -> int:
    """Write or check the pages."""
    stale = []
    for name in PAGES:
        page = (DOCS / name).read_text(encoding="utf-8")
        made = with_tables(page)
        if made != page:
            stale.append(name)
            if "--check" not in arguments:
                (DOCS / name).write_text(made, encoding="utf-8")
    print(f"{', '.join(stale) or 'no page'} changed")
    return int("--check" in arguments and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
