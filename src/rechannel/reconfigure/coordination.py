"""All reconfigurations as one value, the fold of their events, and what the coordinator is told of the stream. Pure."""

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
from rechannel.reconfigure.facts import Facts
from rechannel.reconfigure.record import Record, begun
from rechannel.reconfigure.steps import BinMove, Sizes
from rechannel.reconfigure.strategies import Strategy

KEPT = 64
"""Reconfigurations that are over and stay in the journal's state; the history keeps all of them."""

KEPT_BYTES = 1 << 20
"""What those that are over may take together, as JSON: every snapshot of the journal holds them."""


@dataclass(frozen=True, kw_only=True)
class Coordination:
    """All reconfigurations, in the order in which they were asked for. serial: how many there ever were."""

    serial: int = 0
    records: tuple[Record, ...] = ()

    @property
    def open(self) -> tuple[Record, ...]:
        """Those that are not over."""
        return tuple(record for record in self.records if record.open)

    def rewritten_at(self, timestep: int) -> tuple[BinMove, ...]:
        """Bins whose state a timestep that is not committed yet writes anew."""
        return tuple(
            move
            for record in self.records
            for step, taken in zip(record.steps, record.taken, strict=False)
            if taken.timestep == timestep
            for move in step.moves
            if move.stays
        )

    def moved_at(self, timestep: int) -> float:
        """Bytes of state that got another task at the border before a timestep, as estimated."""
        return sum(
            taken.size
            for record in self.records
            for taken in takewhile(lambda t: t.timestep >= timestep, reversed(record.taken))
            if taken.timestep == timestep
        )

    def find(self, id: str) -> Record:  # noqa: A002 - that is what it is
        """A reconfiguration. Raises NotReadyError when there is none of that name (any more)."""
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
        """The state after timesteps from one on were withdrawn: steps that they began with are made at that one."""
        return replace(self, records=tuple(record.withdrawn(timestep) for record in self.records))


def _forgotten(records: list[Record], ended: str) -> frozenset[str]:
    """Those that are over and have no place any more: all but the ones that ended last, as many as the bounds admit.

    ended: which one ended just now; it stays, so that its caller can tell of it. What is open always stays.
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
    """The running stream at a border.

    timestep: the next one to begin. time_ms: its time. event_times: how far event time has come, of every operator that
    goes by it. configuration: what the one before runs under. drained: no timestep is under way. idle: and none is
    coming, so that steps are made without one. turns: how often an idle stream was looked at since a record's last
    step; each time counts as a timestep of its gap. facts, sizes: as measured. budget: most bytes that a step of a
    strategy may move now, or None.
    """

    timestep: int
    time_ms: int
    configuration: Configuration
    event_times: Mapping[str, int] = field(default_factory=dict)
    drained: bool = True
    idle: bool = False
    turns: Mapping[str, int] = field(default_factory=dict)
    facts: Facts = field(default_factory=Facts)
    sizes: Sizes = field(default_factory=Sizes)
    budget: Callable[[Strategy], float | None] = lambda strategy: strategy.budget_bytes


def meet(some: frozenset[str], others: frozenset[str]) -> bool:
    """Whether two changes must not overlap. A change of the program meets everything but the job's own numbers."""
    if some & others:
        return True
    return any(
        PROGRAM in one and bool(other - {JOB}) for one, other in ((some, others), (others, some))
    )


def finished(record: Record, now: Now, outcome: Any, reason: str) -> Finished:
    """The event that ends a reconfiguration."""
    return Finished(id=record.id, time_ms=now.time_ms, outcome=outcome, reason=reason)
