"""All reconfigurations as one value, the fold of their events, and the stream as the coordinator sees it. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from rechannel.errors import NotReadyError
from rechannel.model.codec import encode
from rechannel.model.configuration import Configuration
from rechannel.reconfigure.changes.change import JOB, PROGRAM
from rechannel.reconfigure.events import Event, Finished, Requested
from rechannel.reconfigure.record import Record, begun
from rechannel.reconfigure.steps import BinMove, Sizes
from rechannel.reconfigure.strategies import Strategy
from rechannel.reconfigure.stream_facts import StreamFacts

KEPT = 64
"""Finished reconfigurations that stay in the journal's state. The history keeps all of them."""

KEPT_BYTES = 1 << 20
"""Bytes that finished reconfigurations may take together, as JSON: every snapshot of the journal holds them."""


@dataclass(frozen=True, kw_only=True)
class Coordination:
    """All reconfigurations."""

    serial: int = 0
    """How many there ever were."""

    records: tuple[Record, ...] = ()
    """In the order of their requests."""

    @property
    def open(self) -> tuple[Record, ...]:
        """Records of reconfigurations that are not finished."""
        return tuple(record for record in self.records if record.open)

    def rewritten_at(self, timestep: int) -> tuple[BinMove, ...]:
        """Bins whose state an uncommitted timestep writes anew."""
        return tuple(
            move
            for record in self.records
            for step, taken in zip(record.steps, record.taken, strict=False)
            if taken.timestep == timestep
            for move in step.moves
            if move.stays
        )

    def moved_at(self, timestep: int) -> float:
        """Estimated bytes of state that move to another task at the boundary before a timestep."""
        return sum(
            taken.size
            for record in self.records
            for taken in takewhile(lambda t: t.timestep >= timestep, reversed(record.taken))
            if taken.timestep == timestep
        )

    def find(self, id: str) -> Record:  # noqa: A002 - that is what it is
        """The record of an id. Raises NotReadyError if there is none, or none any more."""
        for record in self.records:
            if record.id == id:
                return record
        msg = f"there is no reconfiguration {id!r}; there are {[r.id for r in self.records]}"
        raise NotReadyError(msg)

    def after(self, event: Event) -> Coordination:
        """The state after one more event. Raises ValueError when it cannot happen."""
        if isinstance(event, Requested):
            if event.id != f"r{self.serial + 1}":
                msg = f"the next reconfiguration is r{self.serial + 1}, not {event.id}"
                raise ValueError(msg)
            records = [
                _superseded(r, event) if r.id in event.supersedes else r for r in self.records
            ]
            return Coordination(serial=self.serial + 1, records=(*records, begun(event)))
        if all(record.id != event.id for record in self.records):
            msg = f"{event.kind} of {event.id}, which does not exist"
            raise ValueError(msg)
        records = [r.after(event) if r.id == event.id else r for r in self.records]
        gone = _forgotten(records, event.id) if isinstance(event, Finished) else frozenset()
        return replace(self, records=tuple(r for r in records if r.id not in gone))

    def withdrawn(self, timestep: int) -> Coordination:
        """The state after the timesteps from one on were withdrawn: their steps are made at that timestep."""
        return replace(self, records=tuple(record.withdrawn(timestep) for record in self.records))


def _forgotten(records: list[Record], ended: str) -> frozenset[str]:
    """Ids of finished records beyond the bounds; those that ended last stay.

    ended: the one that ended just now. It stays, so that its caller can report it. Open ones always stay.
    """
    over = [record for record in records if not record.open]
    over.sort(key=lambda record: (record.id == ended, record.ended_ms))
    kept: list[str] = []
    size = 0
    for record in reversed(over):
        size += len(json.dumps(encode(record)))
        if kept and (len(kept) == KEPT or size > KEPT_BYTES):
            break
        kept.append(record.id)
    return frozenset(record.id for record in over) - frozenset(kept)


def _superseded(record: Record, by: Requested) -> Record:
    reason = f"superseded by {by.id}"
    return record.after(
        Finished(id=record.id, time_ms=by.time_ms, outcome="superseded", reason=reason)
    )


@dataclass(frozen=True, kw_only=True)
class Now:
    """The running stream at a timestep boundary."""

    timestep: int
    """The next timestep to begin."""

    time_ms: int
    """Its time, Unix milliseconds."""

    configuration: Configuration
    """What the previous timestep runs under."""

    event_times: Mapping[str, int] = field(default_factory=dict)
    """How far event time has come, by operator with event time. Microseconds."""

    drained: bool = True
    """Whether no timestep is in flight."""

    idle: bool = False
    """Whether none is coming either, so that steps are made without a timestep."""

    turns: Mapping[str, int] = field(default_factory=dict)
    """Polls of an idle stream since a record's last step, by id. Each counts as a timestep of its gap."""

    facts: StreamFacts = field(default_factory=StreamFacts)
    """Measurements, and limits of the cluster."""

    sizes: Sizes = field(default_factory=Sizes)
    """Measured bytes of the bins."""

    budget: Callable[[Strategy], float | None] = lambda strategy: strategy.budget_bytes
    """Most bytes that a step of a strategy may move now; None = any number."""


def meet(some: frozenset[str], others: frozenset[str]) -> bool:
    """Whether two changes conflict. A change of the program conflicts with all but the job's own fields."""
    if some & others:
        return True
    return any(
        PROGRAM in one and bool(other - {JOB}) for one, other in ((some, others), (others, some))
    )


def finished(record: Record, now: Now, outcome: Any, reason: str) -> Finished:
    """The event that ends a reconfiguration."""
    return Finished(id=record.id, time_ms=now.time_ms, outcome=outcome, reason=reason)
