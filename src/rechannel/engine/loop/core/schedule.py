"""Which (operator, timestep) may run now: a pure scheduler over two dependencies.

A unit (operator, t) waits for the stages that feed it in t, and, when it has state, for (operator, t - 1). Nothing else
orders units, so the stages of one timestep and the timesteps of one operator overlap as far as these two allow: that is
timestep pipelining. Timesteps are committed in order, each when all its units are done.

    waiting --needs met--> running --reports--> done --all of t done, t-1 committed--> committed
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

Unit = tuple[str, int]
"""(operator, timestep)."""


class Needs(Struct, frozen=True, kw_only=True):
    """What the scheduler knows of a stage: the stages that feed it, and whether it has state."""

    stages: tuple[str, ...]
    stateful: bool


class Schedule(Struct, frozen=True):
    """Timesteps under way, in order, and how far each unit is."""

    needs: Mapping[str, Needs]
    timesteps: tuple[int, ...] = ()
    running: frozenset[Unit] = frozenset()
    done: frozenset[Unit] = field(default_factory=frozenset)

    def open(self, timestep: int) -> Schedule:
        """A further timestep is under way."""
        if self.timesteps and timestep <= self.timesteps[-1]:
            msg = f"timestep {timestep} does not follow {self.timesteps[-1]}"
            raise ValueError(msg)
        return replace(self, timesteps=(*self.timesteps, timestep))

    def ready(self) -> tuple[Unit, ...]:
        """Units that may start now, oldest timestep first."""
        return tuple(
            (stage, t) for t in self.timesteps for stage in self.needs if self._may_start(stage, t)
        )

    def _may_start(self, stage: str, timestep: int) -> bool:
        unit = (stage, timestep)
        if unit in self.running or unit in self.done:
            return False
        needs = self.needs[stage]
        fed = all((name, timestep) in self.done for name in needs.stages)
        return fed and not (needs.stateful and self._earlier_open(stage, timestep))

    def _earlier_open(self, stage: str, timestep: int) -> bool:
        return any(t < timestep and (stage, t) not in self.done for t in self.timesteps)

    def start(self, unit: Unit) -> Schedule:
        """A unit was handed to a runner."""
        return replace(self, running=self.running | {unit})

    def finish(self, unit: Unit) -> Schedule:
        """A unit's reports have arrived."""
        return replace(self, running=self.running - {unit}, done=self.done | {unit})

    def committable(self) -> int | None:
        """The oldest timestep, if all its units are done."""
        if not self.timesteps:
            return None
        first = self.timesteps[0]
        return first if all((stage, first) in self.done for stage in self.needs) else None

    def close(self, timestep: int) -> Schedule:
        """The oldest timestep was committed."""
        if not self.timesteps or self.timesteps[0] != timestep:
            msg = f"timestep {timestep} is not the oldest under way: {self.timesteps}"
            raise ValueError(msg)
        done = frozenset(unit for unit in self.done if unit[1] != timestep)
        return replace(self, timesteps=self.timesteps[1:], done=done)
