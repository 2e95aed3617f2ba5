"""Which task attempts go wrong, as a value that a test writes down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Attempt = tuple[str, int, int, int]
"""(operator, timestep, task, attempt number from 0)."""

KINDS = ("before", "after", "twice", "late")


@dataclass(frozen=True)
class TaskFaults:
    """What happens to chosen attempts of tasks; all others succeed.

    planned: by attempt, one of
    "before" (the task dies before it ran),
    "after" (it dies when it has written its files, which stay behind),
    "twice" (a speculative copy runs as well, and wins),
    "late" (a copy loses, and is still writing when the timestep is over).
    A task that dies four times in a row fails its timestep, which the driver runs again: attempts are counted on.
    """

    planned: Mapping[Attempt, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the kinds."""
        unknown = sorted(set(self.planned.values()) - set(KINDS))
        if unknown:
            msg = f"there is no fault {unknown[0]!r}; there are {', '.join(KINDS)}"
            raise ValueError(msg)

    def __call__(self, operator: str, timestep: int, task: int, attempt: int) -> str | None:
        """What goes wrong with an attempt; None = nothing."""
        return self.planned.get((operator, timestep, task, attempt))
