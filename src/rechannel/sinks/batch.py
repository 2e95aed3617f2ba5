"""What one timestep is to one sink: more than its number, which another job or a copy of the state may use as well."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Identify the rows that a sink is given.

    timestep: the number of the timestep. incarnation: of the sink, as the journal counts it: a sink that is removed and
    another one that is added under its name later have different ones; "" where the journal does not say. digest: 32
    hex digits of the intent that the rows follow from, the same whenever they are given again; a copy of the state
    directory that goes on by itself has other digests, and so has a timestep that was withdrawn and planned anew.
    """

    timestep: int
    incarnation: str = ""
    digest: str = ""

    def __post_init__(self) -> None:
        """Check the number."""
        if self.timestep < 0:
            msg = f"a timestep is numbered from 0 on, not {self.timestep}"
            raise ValueError(msg)
