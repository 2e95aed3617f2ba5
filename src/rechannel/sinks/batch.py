"""The identity of one timestep for one sink: more than its number, which another job or a copy of
the state may use too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Identifies the rows that a sink receives."""

    timestep: int
    """Number of the timestep."""
    incarnation: str = ""
    """Incarnation of the sink, as counted by the journal: a sink that is removed, and another one
    added later under its name, have different ones. "" if the journal does not record it.
    """
    digest: str = ""
    """32 hex digits of the intent that determines the rows, the same whenever they are delivered
    again. A copy of the state directory that continues by itself has other digests, and so has
    a timestep that was withdrawn and planned again.
    """

    def __post_init__(self) -> None:
        """Check the number. Raises ValueError."""
        if self.timestep < 0:
            msg = f"the number of a timestep must be at least 0, not {self.timestep}"
            raise ValueError(msg)
