"""Output of commands: tables and JSON on standard output, everything else on standard error."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from rich.console import Console
from rich.table import Table

from rechannel.cli.words import in_options

_LONG = 40

UNBOUNDED = 10_000
"""Width at which no line is cut."""

STEPS = ("B", "KiB", "MiB", "GiB", "TiB")


def out() -> Console:
    """The present standard output. If it is not a terminal, lines are as long as necessary."""
    console = Console(highlight=False, markup=False, emoji=False)
    return console if console.is_terminal else _unbounded()


def err() -> Console:
    """The present standard error."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def _unbounded() -> Console:
    return Console(highlight=False, markup=False, emoji=False, width=UNBOUNDED)


def complain(error: BaseException) -> None:
    """Print an error without a traceback, with options of commands in place of Python arguments."""
    console = err()
    console.print("error:", style="bold red", end=" ")
    console.print(in_options(str(error).rstrip()), soft_wrap=True)


def say(text: str) -> None:
    """Print a line on standard error."""
    err().print(text, soft_wrap=True)


def show(text: str) -> None:
    """Print a line on standard output."""
    out().print(text, soft_wrap=True)


def show_json(value: Any, *, indent: int | None = 2) -> None:
    """Print a JSON value on standard output; with `indent=None` as one line."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=_jsonable)
    out().out(text, highlight=False)


def table(*headers: str, right: Iterable[str] = ()) -> Table:
    """Make an empty table. right: headers of columns that are aligned right."""
    numbers = set(right)
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for header in headers:
        made.add_column(
            header,
            justify="right" if header in numbers else "left",
            no_wrap=header in numbers,
            overflow="fold",
        )
    return made


def show_table(rows: Table) -> None:
    """Print a table on standard output."""
    out().print(rows)


def show_rows(found: Any) -> None:
    """Make a table of the rows of an Arrow table, with long values cut."""
    numbers = [field.name for field in found.schema if _is_number(str(field.type))]
    rows = table(*found.column_names, right=numbers)
    columns = [column.to_pylist() for column in found.columns]
    for values in zip(*columns, strict=True):
        rows.add_row(*map(_text, values))
    show_table(rows)


def count(number: float | None) -> str:
    """A number with separated thousands; a dash for None."""
    return "-" if number is None else f"{number:,.0f}"


def size(bytes_: float | None) -> str:
    """A number of bytes with its unit."""
    if bytes_ is None:
        return "-"
    for step in STEPS[:-1]:
        if bytes_ < 1024:
            return f"{bytes_:,.0f} {step}" if step == "B" else f"{bytes_:,.1f} {step}"
        bytes_ /= 1024
    return f"{bytes_:,.1f} {STEPS[-1]}"


def moment(ms: float) -> str:
    """A time in UTC, from Unix milliseconds."""
    when = datetime.fromtimestamp(ms / 1000, UTC)
    return when.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")


def share(part: float | None) -> str:
    """A share from 0 to 1 as a percentage."""
    return "-" if part is None else f"{part:.1%}"


def some(names: Sequence[object], most: int = 8) -> str:
    """The first few of many names, and their number."""
    shown = ", ".join(str(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown}, ... ({len(names)} in all)"


def _jsonable(value: Any) -> Any:
    """The text of a value that JSON does not have."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal | timedelta):
        return str(value)
    msg = f"{type(value).__name__} has no JSON form"
    raise TypeError(msg)


def _is_number(kind: str) -> bool:
    return kind.startswith(("int", "uint", "float", "double", "decimal"))


def _text(value: object) -> str:
    if value is None:
        return "NULL"
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= _LONG else text[: _LONG - 3] + "..."
