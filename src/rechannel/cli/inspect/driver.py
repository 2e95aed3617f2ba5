"""What is known of the driver of a state directory, from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from rechannel.engine.journal.lease import FRESH_MS, Holder
from rechannel.engine.journal.state import JournalState

_SAME_START_MS = 1_000


class Condition(StrEnum):
    """How a driver is.

    NEW: none ever began. RUNNING: it gives signs. SILENT: it should, and has not for a while.
    DIED: its process is gone. STOPPED: it was asked to. FAILED: it ended with an error.
    """

    NEW = "new"
    RUNNING = "running"
    SILENT = "silent"
    DIED = "died"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """From where one looks. started: start of a living process of this host, Unix milliseconds."""

    host: str
    now_ms: int
    started: Callable[[int], int | None]


def condition(state: JournalState, lease: Holder | None, place: Place) -> Condition:
    """How the driver is.

    The lease must have been read before the journal: a driver first closes the journal and then
    gives the lease back.
    """
    if state.driver is None:
        return Condition.NEW
    if state.closed:
        return Condition.STOPPED
    if lease is None:
        return Condition.FAILED
    if lease.host == place.host and not _lives(lease, place):
        return Condition.DIED
    fresh = place.now_ms - lease.heartbeat_ms < FRESH_MS
    return Condition.RUNNING if fresh else Condition.SILENT


def _lives(lease: Holder, place: Place) -> bool:
    since = place.started(lease.pid)
    return since is not None and abs(since - lease.started_ms) < _SAME_START_MS
