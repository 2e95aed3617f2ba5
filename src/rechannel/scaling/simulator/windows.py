"""What a simulated engine is to its caller: it is advanced, says what was seen, and is changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rechannel.scaling.model.rates import Floats
from rechannel.scaling.policies.policy import Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One policy interval of a simulation: what the engine would report, and what only a simulator knows."""

    seen: Seen
    at_s: Floats
    """When latency was sampled: shape (samples,)."""
    spans_s: Floats
    """For how long each sample stands."""
    latency_s: Floats
    """Age of the oldest record that was not through."""
    core_seconds: float
    """What was paid for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle:
    """What one who knows the load would have run, changing at once and for nothing."""

    edges_s: Floats
    """Beginning of each span, and the end of the last: shape (spans + 1,)."""
    cores: Floats
    """The least cores that keep up with the mean load of each span: shape (spans,)."""
    parallelism: Mapping[str, Floats]
    """The same for each operator."""

    @property
    def core_seconds(self) -> float:
        """What the oracle pays for."""
        return float((self.cores * np.diff(self.edges_s)).sum())


class Engine(Protocol):
    """A simulated engine with a dataflow and its load."""

    @property
    def now_s(self) -> float:
        """Until when it was simulated, in seconds from the beginning."""
        ...

    @property
    def parallelism(self) -> dict[str, int]:
        """Instances, or tasks, by operator; without sources."""
        ...

    @property
    def cores(self) -> int:
        """Cores that are paid for."""
        ...

    @property
    def executors(self) -> int | None:
        """Executors that are there or on their way; None for an engine that has none."""
        ...

    def advance(self, until_s: float) -> Window:
        """Simulate until a time. Raises RefusedError for one that is not later than now."""
        ...

    def change(self, parallelism: Mapping[str, int], executors: int | None) -> None:
        """Change the parallelism of some operators, and the executors, now. Raises RefusedError for what cannot be."""
        ...

    def oracle(self, edges_s: Floats, *, utilisation: float = 1.0) -> Oracle:
        """Return the least that would have done between each of these times and the next.

        utilisation: share of an instance's time, or of an interval, that may be used.
        """
        ...
