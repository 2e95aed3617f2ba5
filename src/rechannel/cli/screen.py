"""Output of commands: tables and JSON on standard output, everything else on standard error.

Names of applications, operators and files come from others. What would command the terminal in them (control
characters, escape sequences, changes of the direction of writing) is shown and never obeyed: `visible` has the rule,
and every console of the commands applies it to whatever it prints.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from textwrap import wrap
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from rechannel.cli.words import in_options
from rechannel.model.text import iso, iso_utc
from rechannel.profiling.model import words

_LONG = 40

BROKEN_PIPE = 141
"""Exit code of a command whose reader has gone: that of SIGPIPE, as a shell has it."""

UNBOUNDED = 10_000
"""Width at which no line is cut."""
PROSE = 80
"""Width of paragraphs on a terminal."""
_UNIT = re.compile(r"(\d) (%|ms|s|min|h|B|[KMGT]iB)(?!\w)")
"""Matches a figure and its unit, which stay on one line."""

_OBEYED = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""What a terminal would act on, or could not print: C0 but tab and line feed, C1, marks of direction, surrogates."""


def visible(text: str) -> str:
    """Return a text with a visible character, of one column, in place of each that a terminal would obey."""
    return _OBEYED.sub(lambda found: _picture(ord(found[0])), text)


def in_line(text: str) -> str:
    """Return a text as one line: line breaks and tabs are visible characters, too."""
    return visible(text).replace("\n", "\u240a").replace("\t", "\u2409")


def _picture(code: int) -> str:
    """Unicode has pictures of C0 and of DEL."""
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


class SafeConsole(Console):
    """A console that obeys its program, and not the texts that it prints."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)

    def on_broken_pipe(self) -> None:
        """End as a process does that writes to a pipe whose reader has gone."""
        with suppress(SystemExit):
            super().on_broken_pipe()
        raise SystemExit(BROKEN_PIPE)

    def render_str(self, text: str, **options: Any) -> Text:
        """Make a text of a string."""
        return super().render_str(visible(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Make segments of anything."""
        if isinstance(renderable, Text):
            shown = visible(renderable.plain)
            if shown != renderable.plain:
                renderable = renderable.copy()
                renderable.plain = shown
        return super().render(renderable, options)


def out() -> Console:
    """The present standard output. If it is not a terminal, lines are as long as necessary."""
    console = SafeConsole()
    return console if console.is_terminal else SafeConsole(width=UNBOUNDED)


def err() -> Console:
    """The present standard error."""
    return SafeConsole(stderr=True)


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


def show_prose(text: str, *, indent: int = 0) -> None:
    """Print a paragraph on standard output: wrapped on a terminal, at 80 columns at most, and else one line."""
    console = out()
    if not console.is_terminal:
        console.print(" " * indent + in_line(text), soft_wrap=True)
        return
    margin = " " * indent
    whole = _UNIT.sub("\\1\u00a0\\2", in_line(text))
    wrapped = wrap(
        whole, min(PROSE, console.width), initial_indent=margin, subsequent_indent=margin
    )
    for each in wrapped:
        console.print(each.replace("\u00a0", " "), soft_wrap=True)


def show_json(value: Any, *, indent: int | None = 2) -> None:
    """Print a JSON value on standard output; with `indent=None` as one line."""
    console = out()
    encode = partial(
        json.dumps, indent=indent, ensure_ascii=console.options.ascii_only, default=_jsonable
    )
    try:
        text = encode(value, allow_nan=False)
    except ValueError:  # JSON has no NaN and no infinity
        text = encode(_finite(json.loads(encode(value))))
    # JSON escapes C0 itself, and has an escape for the others.
    text = _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    console.out(text, highlight=False)


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
    return "-" if bytes_ is None else words.size(bytes_)


def moment(ms: float) -> str:
    """A time as ISO 8601 in UTC, from Unix milliseconds."""
    return iso_utc(ms)


def share(part: float | None) -> str:
    """A share from 0 to 1 as a percentage."""
    return "-" if part is None else f"{part:.1%}"


def some(names: Sequence[object], most: int = 8) -> str:
    """The first few of many names, and their number."""
    shown = ", ".join(str(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown}, ... ({len(names)} in all)"


def _finite(value: Any) -> Any:
    """Return a value of JSON with texts in place of what is no finite number."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _jsonable(value: Any) -> Any:
    """The text of a value that JSON does not have."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, date | time):
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
