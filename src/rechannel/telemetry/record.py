"""Values that are written as JSON objects and read again, by this version or a later one.

What is absent has its default, so a field with a default may be added without a new format; what
is unknown is ignored, so an older reader goes on reading.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from types import MappingProxyType
from typing import Any, ClassVar, Self

EMPTY: Mapping[str, Any] = MappingProxyType({})

_SCALARS = frozenset((str, int, float))

_MEMBERS: dict[type[Any], tuple[tuple[str, Any], ...]] = {}
"""What `_members` found: to ask dataclasses for every event would cost more than the event."""


class Record:
    """Base of frozen dataclasses whose fields are JSON values, or are named in NESTED.

    NESTED: by field name, what makes the field's value of its JSON.
    """

    __slots__ = ()

    NESTED: ClassVar[Mapping[str, Callable[[Any], Any]]] = EMPTY

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; fields that have their default are left out."""
        out = {}
        for name, default in _members(type(self)):
            value = getattr(self, name)
            if value is not default and value != default:
                out[name] = _plain(value)
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Invert `to_json`. Raises TypeError, ValueError or KeyError for what is no such record."""
        values = {name: data[name] for name, _ in _members(cls) if name in data}
        for name, make in cls.NESTED.items():
            if values.get(name) is not None:
                values[name] = make(values[name])
        return cls(**values)

    def check_natural(self, *names: str) -> None:
        """Raise ValueError if one of the fields is negative; None passes."""
        for name in names:
            value = getattr(self, name)
            if value is not None and value < 0:
                msg = f"{type(self).__name__}.{name} cannot be negative: {value}"
                raise ValueError(msg)

    def freeze(self, *names: str) -> None:
        """Make the mappings in these fields read-only copies."""
        for name in names:
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))


def several(make: Callable[[Any], Any]) -> Callable[[list[Any]], tuple[Any, ...]]:
    """A maker for NESTED: a tuple of records."""
    return lambda data: tuple(make(item) for item in data)


def by_name(make: Callable[[Any], Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """A maker for NESTED: a mapping of names to records."""
    return lambda data: {name: make(item) for name, item in data.items()}


def _members(cls: type[Any]) -> tuple[tuple[str, Any], ...]:
    """(name, default) of every field; MISSING where there is none."""
    if cls not in _MEMBERS:
        _MEMBERS[cls] = tuple(
            (f.name, f.default if f.default_factory is MISSING else f.default_factory())
            for f in fields(cls)
        )
    return _MEMBERS[cls]


def _plain(value: Any) -> Any:
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Record):
        return value.to_json()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return value
