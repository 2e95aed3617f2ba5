"""How values are written on the command line: times, sizes, lists of bins, moments."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rechannel.errors import RefusedError

TIMES = {"ms": 1.0, "s": 1e3, "min": 60e3}
SIZES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}

MOST_BINS = 1 << 20
EVENT = "event:"


def milliseconds(text: str) -> float:
    """`50ms`, `2s`, `1.5min`, or a number of milliseconds. Raises RefusedError."""
    number, unit = _parts(text)
    if number is None or unit not in {"", *TIMES}:
        msg = f"{text!r} is no time: write 50ms, 2s or 1min"
        raise RefusedError(msg)
    return number * TIMES.get(unit, 1.0)


def seconds(text: str) -> float:
    """`500ms`, `30s`, `2min`, always with a unit. Raises RefusedError."""
    number, unit = _parts(text)
    if number is None or unit not in TIMES:
        msg = f"{text!r} is no length of time: write a number and its unit, as 30s or 2min"
        raise RefusedError(msg)
    return number * TIMES[unit] / 1e3


def byte_count(text: str) -> int:
    """`10MB`, `512KiB`, or a number of bytes. Raises RefusedError."""
    number, unit = _parts(text)
    if number is None or unit not in {"", *SIZES}:
        msg = f"{text!r} is no size: write 10MB or 512KiB"
        raise RefusedError(msg)
    return round(number * SIZES.get(unit, 1))


def budget(text: str) -> dict[str, float | int]:
    """`50ms` or `10MB` -> the field of a strategy that it is. Raises RefusedError."""
    _, unit = _parts(text)
    if unit in TIMES:
        return {"budget_ms": milliseconds(text)}
    if unit in SIZES:
        return {"budget_bytes": byte_count(text)}
    msg = f"{text!r} is no budget: write what a timestep may pay for moves, as 50ms or 10MB"
    raise RefusedError(msg)


def numbers(text: str) -> list[int]:
    """`3`, `0-7`, `0-3,9` -> the numbers. Raises RefusedError."""
    out: list[int] = []
    for part in text.split(","):
        ends = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)
        if ends is None or int(ends[2] or ends[1]) - int(ends[1]) not in range(MOST_BINS):
            msg = f"{text!r} is no list of bins: write numbers and ranges, as 0-3,9"
            raise RefusedError(msg)
        out.extend(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return out


def amounts(texts: Sequence[str]) -> dict[str, float]:
    """`gpu=0.5` and so on -> amounts by name. Raises RefusedError."""
    out: dict[str, float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        value, unit = _parts(number)
        if not name or value is None or unit:
            msg = f"{text!r} is no amount: write it as gpu=0.5"
            raise RefusedError(msg)
        out[name] = value
    return out


def border(text: str) -> int | str | dict[str, str]:
    """A timestep's number, a time, or `event:TIME[@OPERATOR]`; times are read by the job."""
    if not text.startswith(EVENT):
        return int(text) if text.isdecimal() else text
    moment, _, operator = text.removeprefix(EVENT).partition("@")
    return {"event_time": moment, **({"operator": operator} if operator else {})}


def _parts(text: str) -> tuple[float | None, str]:
    """A number and its unit in lower case; no number where it is none."""
    found = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([A-Za-z]*)\s*", text)
    return (None, "") if found is None else (float(found[1]), found[2].lower())
