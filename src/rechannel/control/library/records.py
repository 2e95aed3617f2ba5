"""What controllers read from the records of changes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rechannel.control.controller import Control
from rechannel.reconfigure.coordination import meet
from rechannel.reconfigure.record import Record


def touching(records: Iterable[Record], name: str) -> tuple[Record, ...]:
    """The records that set an operator's configuration (or that of the job: JOB)."""
    return tuple(r for r in records if meet(r.touches, frozenset({name})))


def free_since(records: Sequence[Record], name: str) -> int | None:
    """The timestep that began with the latest step of a change of an operator; 0 = of none; None = one is open.

    One that waits for a moment of its own keeps nothing from happening.
    """
    met = [record for record in touching(records, name) if not record.scheduled]
    if any(record.open for record in met):
        return None
    return max((record.last_timestep or 0 for record in met), default=0)


def changed_by_others(control: Control[Any], name: str, timestep: int) -> bool:
    """Whether an operator was changed after a timestep (0 = there was none), and not by the controller itself."""
    others = (r for r in touching(control.changes, name) if not control.requested(r))
    return bool(timestep) and any((record.last_timestep or 0) > timestep for record in others)


def changed_besides(records: Iterable[Record], kind: str) -> int:
    """Return the timestep from which on timesteps may cost something else, for changes of other kinds."""
    other = (r.last_timestep or 0 for r in records if r.change.kind != kind)
    return max(other, default=0)
