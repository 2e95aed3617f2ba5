"""A span as a value. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Key: TypeAlias = tuple[str | int, ...]
"""What tells a span from all others of a job, such as ("timestep", 7)."""

Value: TypeAlias = str | bool | int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """That a span has to do with another one, which is not its parent."""

    to: Key
    attributes: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What happened from one time to another, Unix milliseconds."""

    key: Key
    name: str
    start_ms: float
    end_ms: float
    parent: Key | None = None
    """None = it is the root of a trace."""
    attributes: Mapping[str, Value] = field(default_factory=dict)
    links: tuple[Link, ...] = ()
    error: str | None = None
    """Why it failed; None = it did not."""
