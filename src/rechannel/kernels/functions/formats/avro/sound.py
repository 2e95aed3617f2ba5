"""Whether the bytes of a record can be values of its schema at all. Pure.

fastavro takes a number below 0 as the place of a branch or a symbol counted from the end, any byte as a boolean, and of
a number of any length the lowest 64 bits. So a record is passed here before fastavro reads it, which also must not find
it nested so deeply that its stack is full. One that breaks off is left to fastavro, which has the words for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Passes: TypeAlias = Callable[[bytes, int], int]
"""Passes a part: (value, where it begins) -> where it ends. Raises BrokenError.

Where bytes are missing, it raises IndexError or returns a place after them.
"""

NUMBER = re.compile(
    rb"[\x80-\xff]{0,9}\Z|([\x80-\xff]{0,8}[\x00-\x7f]|[\x80-\xff]{9}[\x00\x01])"
).match
"""Finds what is left of a number that breaks off, or as its group one of at most 64 bits."""

EMPTY = 1 << 24
"""Most items without bytes of a block: a few bytes could say that there are more than memory holds."""


class BrokenError(ValueError):
    """Bytes that are no value of their type."""


class Sound:
    """Looks at records of one schema."""

    def __init__(self, schema: Any) -> None:
        """Begin. schema: as fastavro has parsed it."""
        named = schema.get("__named_schemas", {}) if isinstance(schema, Mapping) else {}
        self._passes = _Passing(named).of(schema, "")

    def broken(self, value: bytes, head: int) -> str | None:
        """Return what is wrong with a record; None if nothing is, or bytes are missing. head: bytes before it."""
        try:
            self._passes(value, head)
        except BrokenError as error:
            return str(error)
        except IndexError:
            return None
        except RecursionError:
            return "records are nested too deeply within each other"
        return None


class _Passing:
    """Makes what passes the parts of a record."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._made = dict[str, Passes]()

    def of(self, schema: Any, field: str) -> Passes:
        """Return what passes a field."""
        if isinstance(schema, list):
            return _union(tuple(self.of(each, field) for each in schema), field)
        if isinstance(schema, str):
            schema = self._named.get(schema, {"type": schema})
        kind = schema["type"]
        if isinstance(kind, Mapping | list):
            return self.of(kind, field)
        if kind in PLAIN:
            return PLAIN[kind]
        made: Mapping[str, Callable[[], Passes]] = {
            "boolean": lambda: _boolean(field),
            "enum": lambda: _symbol(len(schema["symbols"]), field),
            "fixed": lambda: _fixed(schema["size"]),
            "array": lambda: _blocks(self.of(schema["items"], f"{field}[]")),
            "map": lambda: _blocks(_both(_counted, self.of(schema["values"], f"{field}{{}}"))),
        }
        return made[kind]() if kind in made else self._record(schema, field)

    def _record(self, schema: Mapping[str, Any], field: str) -> Passes:
        """Return what passes a record, of which there is one for all fields: it may be within itself."""
        name = schema["name"]
        if name in self._made:
            return self._made[name]
        parts = list[Passes]()

        def record(value: bytes, at: int) -> int:
            for part in parts:
                at = part(value, at)
            return at

        self._made[name] = record
        for each in schema["fields"]:
            parts.append(self.of(each["type"], f"{field}.{each['name']}".lstrip(".")))
        return record


def _end(value: bytes, at: int) -> int:
    """Return where a whole number ends."""
    if value[at] < 0x80:
        return at + 1
    found = NUMBER(value, at)
    if found is None:
        raise BrokenError("a whole number has more than 64 bits")
    if not found[1]:
        raise IndexError
    return found.end()


def _number(value: bytes, at: int) -> tuple[int, int]:
    """Return a whole number, and where it ends."""
    found = value[at]
    if found < 0x80:
        return found >> 1 ^ -(found & 1), at + 1
    end, found = _end(value, at), 0
    for byte in reversed(value[at:end]):
        found = found << 7 | byte & 0x7F
    return found >> 1 ^ -(found & 1), end


def _counted(value: bytes, at: int) -> int:
    """Pass bytes after their number."""
    size = value[at]
    if size < 0x80 and not size & 1:
        return at + 1 + (size >> 1)
    size, at = _number(value, at)
    if size < 0:
        raise BrokenError(f"a text or bytes have the length {size}")
    return at + size


def _fixed(size: int) -> Passes:
    return lambda value, at: at + size


def _boolean(field: str) -> Passes:
    def boolean(value: bytes, at: int) -> int:
        if value[at] > 1:
            raise BrokenError(f"field {field} has {value[at]} as a boolean")
        return at + 1

    return boolean


def _symbol(count: int, field: str) -> Passes:
    known = frozenset(range(0, min(2 * count, 0x80), 2))  # as they are written in one byte

    def symbol(value: bytes, at: int) -> int:
        if value[at] in known:
            return at + 1
        number, at = _number(value, at)
        if not 0 <= number < count:
            raise BrokenError(f"field {field} has symbol {number} of an enum of {count}")
        return at

    return symbol


def _union(branches: tuple[Passes, ...], field: str) -> Passes:
    known = {2 * place: each for place, each in enumerate(branches[:0x40])}  # in one byte

    def union(value: bytes, at: int) -> int:
        part = known.get(value[at])
        if part is not None:
            return part(value, at + 1)
        number, at = _number(value, at)
        if not 0 <= number < len(branches):
            raise BrokenError(f"field {field} has branch {number} of a union of {len(branches)}")
        return branches[number](value, at)

    return union


def _both(one: Passes, other: Passes) -> Passes:
    return lambda value, at: other(value, one(value, at))


def _blocks(item: Passes) -> Passes:
    """Return what passes an array or a map: blocks of items, the last of which has none."""

    def blocks(value: bytes, at: int) -> int:
        size = len(value)
        count, at = _number(value, at)
        while count:
            if count < 0:  # the bytes of the block follow
                at = _end(value, at)
            for _ in range(abs(count)):
                start, at = at, item(value, at)
                if at > size:
                    raise IndexError
                if at == start:  # so all of them are
                    _few(abs(count))
                    break
            count, at = _number(value, at)
        return at

    return blocks


def _few(count: int) -> None:
    if count > EMPTY:
        raise BrokenError(f"a block has {count} items without bytes")


PLAIN: Mapping[str, Passes] = {
    "null": _fixed(0), "int": _end, "long": _end, "float": _fixed(4), "double": _fixed(8),
    "string": _counted, "bytes": _counted,
}  # fmt: skip
