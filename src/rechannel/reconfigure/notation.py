"""How values are written as text: times, sizes, bin numbers, amounts. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rechannel.errors import RefusedError

MILLISECONDS = {"ms": 1.0, "s": 1e3, "min": 60e3}
BYTES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}

MOST_BINS = 1 << 20
"""Bins that an operator can have."""


def number_and_unit(text: str) -> tuple[float | None, str]:
    """`1.5 GB` -> (1.5, "gb"); the number is None where the text has another form."""
    found = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([A-Za-z]*)\s*", text)
    return (None, "") if found is None else (float(found[1]), found[2].lower())


def milliseconds(text: str) -> float:
    """Read `50ms`, `2s`, `1.5min`, or a number of milliseconds. Raises RefusedError."""
    number, unit = number_and_unit(text)
    if number is None or unit not in {"", *MILLISECONDS}:
        msg = f"{text!r} is not a time: write 50ms, 2s or 1min"
        raise RefusedError(msg)
    return number * MILLISECONDS.get(unit, 1.0)


def whole_milliseconds(text: str) -> int:
    """Read a time, rounded to milliseconds. Raises RefusedError."""
    return round(milliseconds(text))


def byte_count(text: str) -> int:
    """Read `10MB`, `512KiB`, or a number of bytes. Raises RefusedError."""
    number, unit = number_and_unit(text)
    if number is None or unit not in {"", *BYTES}:
        msg = f"{text!r} is not a size: write 10MB or 512KiB"
        raise RefusedError(msg)
    return round(number * BYTES.get(unit, 1))


def mebibytes(text: str) -> int:
    """Read a size, rounded down to MiB. Raises RefusedError."""
    return byte_count(text) // 2**20


def bin_numbers(text: str) -> tuple[int, ...]:
    """Read `3`, `0-7` or `0-3,9`. Raises RefusedError."""
    out: list[int] = []
    for part in text.split(","):
        ends = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)
        if ends is None or int(ends[2] or ends[1]) - int(ends[1]) not in range(MOST_BINS):
            msg = f"{text!r} is not a list of bins: write numbers and ranges, such as 0-3,9"
            raise RefusedError(msg)
        out.extend(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return tuple(out)


def task_numbers(text: str) -> int | tuple[int, ...]:
    """Read `4`, a number of tasks, or `0,2`, the tasks themselves. Raises RefusedError."""
    if not re.fullmatch(r"\s*\d{1,9}\s*(,\s*\d{1,9}\s*)*", text):
        msg = f"{text!r} names no tasks: write how many, such as 4, or which, such as 0,2"
        raise RefusedError(msg)
    numbers = tuple(map(int, text.split(",")))
    return numbers if len(numbers) > 1 else numbers[0]


def amounts(texts: Sequence[str]) -> dict[str, float]:
    """Read `gpu=0.5` and the like: amounts by name. Raises RefusedError."""
    out: dict[str, float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        value, unit = number_and_unit(number)
        if not name or value is None or unit:
            msg = f"{text!r} is not an amount: write it like gpu=0.5"
            raise RefusedError(msg)
        out[name] = value
    return out


def bound(text: str) -> int | None:
    """Read a number, or `none`. Raises RefusedError."""
    if text != "none" and not text.isdecimal():
        msg = f"{text!r} is not a bound: write a number, or none for the source's own bound"
        raise RefusedError(msg)
    return None if text == "none" else int(text)
