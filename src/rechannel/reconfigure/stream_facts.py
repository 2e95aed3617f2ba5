"""What is known of a running stream when a change is resolved: measurements, and limits of the cluster. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from rechannel.model.configuration import Resources


class Limits(Protocol):
    """What the cluster would refuse. Each method returns the reason as a sentence, or None to accept."""

    def refuses_executors(self, total: int) -> str | None:
        """Why there cannot be that many executors."""

    def refuses_resources(self, resources: Resources) -> str | None:
        """Why no executor could ever satisfy these resources."""

    def refuses_place(self, executor: str) -> str | None:
        """Why no task can run on this executor."""


class NoLimits:
    """A cluster that accepts everything, for plans made without one."""

    def refuses_executors(self, total: int) -> str | None:
        """Return None: everything is accepted."""

    def refuses_resources(self, resources: Resources) -> str | None:
        """Return None: everything is accepted."""

    def refuses_place(self, executor: str) -> str | None:
        """Return None: everything is accepted."""


class Divisible(Protocol):
    """How the rows of one key of an operator can be shared by several tasks."""

    def undivided(self, side: int) -> str | None:
        """Why rows of a side (0 = left, 1 = right) cannot be dealt out, as the rest of a sentence; None = they can."""

    def hash_of(self, key: Sequence[Any]) -> int:
        """The hash of a key. Raises RefusedError for one that does not fit the key columns."""


@dataclass(frozen=True, kw_only=True)
class StreamFacts:
    """What is known of a running stream."""

    loads: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Measured rows per bin of each stateful operator, shape (bins,), under its present routing."""

    hot: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """Rows of the keys that have many, by operator and hash, over the same timesteps as `loads`."""

    combinable: frozenset[str] = frozenset()
    """Operators that can pre-aggregate what they receive."""

    divisible: Mapping[str, Divisible] = field(default_factory=dict)
    """By operator with state, how several tasks can share the rows of a key."""

    rows_of_sides: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Rows that each operator with two inputs received over the last timesteps, (left, right)."""

    sources: frozenset[str] = frozenset()
    """Names of the sources whose timesteps can be bounded."""

    limits: Limits = field(default_factory=NoLimits)
    """What the cluster would refuse."""

    places: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """Executor of each placed task, by operator."""
