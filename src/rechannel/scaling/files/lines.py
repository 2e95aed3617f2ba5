"""Lines of files: comments and empty lines are skipped; whatever is wrong is named with its file and line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from rechannel.errors import TraceError

Read = TypeVar("Read")

SHOWN = 10
"""Bad lines that a message names at most."""


def read_lines(files: Iterable[Path], read: Callable[[Path, str], Read | None]) -> list[Read]:
    """Return what each line of files says, in order.

    read: from a file and a line to a value, or None for a line to be skipped; it raises ValueError, with a message, for
    a line that is wrong. Raises TraceError that names all lines that are wrong, or for a file that cannot be read.
    """
    found: list[Read] = []
    bad: list[str] = []
    for file in files:
        for number, line in enumerate(_text(file).splitlines(), start=1):
            if not line.strip() or line.startswith("#"):
                continue
            try:
                made = read(file, line.strip())
            except ValueError as error:
                bad.append(f"{file}, line {number}: {error}")
                continue
            if made is not None:
                found.append(made)
    if bad:
        more = [f"and {len(bad) - SHOWN} more lines"] if len(bad) > SHOWN else []
        raise TraceError("\n".join([*bad[:SHOWN], *more]))
    return found


def fields(line: str, header: str) -> list[str]:
    """Return the fields of a line of a CSV file. header: their names. Raises ValueError for another number of them."""
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(header.split(",")):
        msg = f"{len(cells)} fields instead of {len(header.split(','))}; write {header}, and no commas in names"
        raise ValueError(msg)
    return cells


def whole(text: str, what: str, *, least: int = 0) -> int:
    """Return an integer. Raises ValueError if it is not one, or too small."""
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        msg = f"{what} is {text!r}; write an integer of at least {least}"
        raise ValueError(msg)
    return number


def rate(text: str, what: str) -> float | None:
    """Return a rate; None for one that is infinite or not a number, as engines write it for no time.

    Raises ValueError for what is no rate.
    """
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if number < 0 and not math.isinf(number):
        msg = f"{what} is {text!r}; write a number of at least 0"
        raise ValueError(msg)
    return number if math.isfinite(number) else None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        msg = f"{file} cannot be read: {error.strerror or error}"
        raise TraceError(msg) from error
