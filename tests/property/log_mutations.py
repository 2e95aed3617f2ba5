"""Event logs that Spark wrote, changed at random: fields, lines, and bytes of files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from rechannel.profiling.spark.event_files import log_files, log_lines

LOGS = Path(__file__).parents[1] / "unit" / "profiling" / "spark_logs"
Lines = list[bytes]

HUGE = (10**9, 1 << 31, 10**12, 1 << 43, 1 << 53, (1 << 62) - 1, 1 << 63, 1 << 64, 10**30, 1e300)
OTHER: tuple[Any, ...] = (
    "",
    "x",
    "12",
    "NaN",
    "-1",
    [],
    {},
    [[]],
    [None],
    {"": None},
    True,
    False,
    0,
    0.5,
    None,
)


@cache
def places() -> list[Path]:
    """All logs."""
    return sorted(LOGS.iterdir())


@cache
def lines_of(place: Path) -> Lines:
    """The lines of a log."""
    return list(log_lines(place))


def slots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every object or list within a value, with each of its keys or places."""
    if isinstance(value, dict | list):
        for key, each in list(value.items() if isinstance(value, dict) else enumerate(value)):
            yield value, key
            yield from slots(each)


def nested(rng: Random) -> Any:
    """A value in many lists."""
    value: Any = 1
    for _ in range(rng.choice((3, 50, 400))):
        value = [value] if rng.random() < 0.5 else {"children": [value]}
    return value


def _with_value(value: Callable[[Random, Any], Any]) -> Callable[[Random, Any, Any], None]:
    def change(rng: Random, held: Any, key: Any) -> None:
        held[key] = value(rng, held[key])

    return change


def _remove(_: Random, held: Any, key: Any) -> None:
    del held[key]


def _negative(rng: Random, old: Any) -> Any:
    number = isinstance(old, int | float) and not isinstance(old, bool)
    return -old if number and rng.random() < 0.5 else -rng.choice(HUGE)


def _near(rng: Random, old: Any) -> Any:
    """A time or a size that is off by a factor, or a year."""
    if isinstance(old, bool) or not isinstance(old, int):
        return old
    return rng.choice(
        (old * 1_000, old // 1_000, old + 31_536_000_000, old - 86_400_000, old * 2, 0)
    )


FIELDS: dict[str, Callable[[Random, Any, Any], None]] = {
    "remove": _remove,
    "null": _with_value(lambda rng, old: None),
    "huge": _with_value(lambda rng, old: rng.choice(HUGE)),
    "negative": _with_value(_negative),
    "other": _with_value(lambda rng, old: rng.choice(OTHER)),
    "near": _with_value(_near),
    "nested": _with_value(lambda rng, old: nested(rng)),
    "long": _with_value(lambda rng, old: "x" * rng.choice((100, 10_000))),
}
"""What becomes of a field."""


def fields(rng: Random, lines: Lines) -> Lines:
    """Change a field of one line, or the field of that name in all lines."""
    at = rng.randrange(len(lines))
    try:
        value = json.loads(lines[at])
    except (ValueError, RecursionError):
        return lines
    found = list(slots(value))
    if not found:
        return lines
    what = FIELDS[rng.choice(list(FIELDS))]
    held, key = rng.choice(found)
    if isinstance(held, list) or rng.random() < 0.5:
        what(rng, held, key)
        return [*lines[:at], _written(value), *lines[at + 1 :]]
    share = rng.choice((0.1, 1))
    return [_everywhere(rng, line, key, what) if rng.random() < share else line for line in lines]


def _everywhere(
    rng: Random, line: bytes, name: str, what: Callable[[Random, Any, Any], None]
) -> bytes:
    if name.encode() not in line:
        return line
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return line
    for held, key in [
        each for each in slots(value) if each[1] == name and isinstance(each[0], dict)
    ]:
        if name in held:
            what(rng, held, key)
    return _written(value)


def _written(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def again(rng: Random, lines: Lines) -> Lines:
    """Write all lines as another tool would."""
    style = rng.choice(({"separators": (", ", ": ")}, {"sort_keys": True}, {"ensure_ascii": False}))
    out = []
    for line in lines:
        try:
            out.append(
                json.dumps(json.loads(line), **style).encode("utf-8", "surrogatepass") + b"\n"
            )
        except (ValueError, RecursionError):
            out.append(line)
    return out


def order(rng: Random, lines: Lines) -> Lines:
    """Swap, repeat, drop or reverse lines."""
    one, two = sorted(rng.randrange(len(lines)) for _ in range(2))
    cases = (
        [*lines[:one], *lines[two : two + 1], *lines[one:two], *lines[two + 1 :]],
        [*lines[:two], *lines[one:two], *lines[two:]],
        [*lines[:one], *[lines[one]] * rng.choice((2, 40)), *lines[one:]],
        [*lines[:one], *lines[two:]],
        lines[::-1],
        rng.sample(lines, len(lines)),
        [*lines, *lines_of(rng.choice(places()))],
    )
    return rng.choice(cases) or lines


def cut(rng: Random, lines: Lines) -> Lines:
    """Cut lines, or the whole log."""
    at = rng.randrange(len(lines))
    part = lines[at][: rng.randrange(len(lines[at]) + 1)]
    return rng.choice(([*lines[:at], part], [*lines[:at], part + b"\n", *lines[at + 1 :]]))


def bytes_(rng: Random, lines: Lines) -> Lines:
    """Change, insert or remove bytes."""
    at = rng.randrange(len(lines))
    return [*lines[:at], flipped(rng, lines[at]), *lines[at + 1 :]]


def flipped(rng: Random, data: bytes) -> bytes:
    """Change some bytes."""
    held = bytearray(data)
    for _ in range(rng.choice((1, 3, 20))):
        at = rng.randrange(len(held) + 1)
        match rng.randrange(4):
            case 0:
                held[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                held[at:at] = rng.choice(
                    (b"\xff\xfe", b'"', b"{", b"]", b"\\", b"\n", b"9" * 25, b"\0")
                )
            case 2:
                del held[at : at + rng.choice((1, 10))]
            case _:
                held[at:at] = held[at : at + rng.choice((1, 50))]
    return bytes(held)


LINES = (fields, fields, fields, fields, again, order, cut, bytes_)


def mutated(seed: int, place: Path) -> Path:
    """Write a mutation of one of the logs into an empty directory; return the path to profile."""
    rng = Random(seed)
    chosen = rng.choice(places())
    if rng.random() < 0.15:
        return _damaged(rng, chosen, place)
    lines = lines_of(chosen)
    for _ in range(rng.choice((1, 1, 2, 4))):
        lines = rng.choice(LINES)(rng, lines) or lines
    file = place / "app-1"
    file.write_bytes(b"".join(lines))
    return file


def _damaged(rng: Random, chosen: Path, place: Path) -> Path:
    """Copy the files of a log, one of them damaged, cut or left out."""
    files = log_files(chosen)
    bad = rng.randrange(len(files))
    for number, file in enumerate(files):
        data = file.read_bytes()
        if number == bad:
            half = data[: rng.randrange(len(data))]
            data = rng.choice(
                (flipped(rng, data), half, data + data, data + half, b"", half + data)
            )
        if number != bad or len(files) == 1 or rng.random() < 0.8:
            (place / file.name).write_bytes(data)
    return place / files[0].name if len(files) == 1 else place
