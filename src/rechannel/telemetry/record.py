"""What events and their parts have in common.

An absent member has its default, so a field with a default may be added without a new format. An
unknown member is ignored, so an older reader goes on reading.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from rechannel.model.codec import sparse

EMPTY: Mapping[str, Any] = MappingProxyType({})


@cache
def _getter(names: tuple[str, ...]) -> Callable[[object], tuple[Any, ...]]:
    """Return what gets the values of some fields together."""
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda of: (get(of),)


@sparse
class Record:
    """Base of frozen dataclasses that are written without the fields that have their defaults."""

    __slots__ = ()

    def check_natural(self, *names: str) -> None:
        """Raise ValueError if one of the fields is negative; None passes."""
        values = _getter(names)(self)
        if None not in values and min(values) >= 0:
            return
        for name, value in zip(names, values, strict=True):
            if value is not None and value < 0:
                msg = f"{type(self).__name__}.{name} cannot be negative: {value}"
                raise ValueError(msg)

    def freeze(self, *names: str) -> None:
        """Make the mappings in these fields read-only copies."""
        for name in names:
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
