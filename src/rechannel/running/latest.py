"""Answers that cost more than to be asked for: made once for everybody who asks until something has changed."""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from threading import Lock
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Latest(Generic[T]):
    """The latest answer to one question. Any thread may ask; one makes it, and the others wait for it."""

    def __init__(self) -> None:
        """Know none yet."""
        self._lock = Lock()
        self._made: tuple[tuple[Any, ...], T] | None = None

    def of(self, make: Callable[[], T], *values: object) -> T:
        """Return the answer for immutable values; it is made only if one of them is another object than last time."""
        with self._lock:
            known = self._made
            if known is not None and all(map(is_, known[0], values)):
                return known[1]
            made = make()
            self._made = values, made
            return made
