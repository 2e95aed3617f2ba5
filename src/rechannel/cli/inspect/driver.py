"""What can be known about the driver of a state directory from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from rechannel.engine.journal.lease import FRESH_MS, Holder, Where, lives
from rechannel.engine.journal.state import JournalState


class Condition(StrEnum):
    """The condition of a driver."""

    NEW = "new"
    """No driver has ever begun."""

    RUNNING = "running"
    """It renews its lease."""

    SILENT = "silent"
    """It has not renewed its lease for a while."""

    DIED = "died"
    """Its process is gone."""

    STOPPED = "stopped"
    """It was stopped."""

    FAILED = "failed"
    """It ended with an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The process that asks."""

    where: Where
    """Its host and process table."""

    wall_ms: int
    """Its time, Unix milliseconds."""

    started: Callable[[int], int | None]
    """Start of the process with an id there, as in `Holder.started_ms`; None if it is gone."""


def condition(state: JournalState, lease: Holder | None, place: Place) -> Condition:
    """The condition of the driver.

    The lease must have been read before the journal: a driver closes the journal before it returns
    the lease.
    """
    if state.driver is None:
        return Condition.NEW
    if state.closed:
        return Condition.STOPPED
    if lease is None:
        return Condition.FAILED
    if lease.where == place.where and not lives(lease, place.started):
        return Condition.DIED
    fresh = place.wall_ms - lease.heartbeat_ms < FRESH_MS
    return Condition.RUNNING if fresh else Condition.SILENT
