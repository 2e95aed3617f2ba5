"""What happens to a sink that cannot write, as its user chose. Pure.

A timestep that a sink does not take is retried, with growing pauses. When patience ends,

- `stop` ends the job: the timestep stays unpublished, and the next start retries it (the default);
- `skip` puts the sink in quarantine: this timestep and all later ones stay unpublished until it is
  released;
- `dead_letter` writes this timestep's rows to another path, and continues with the next one.

What no retry can help (damaged state, a driver that was replaced, a Spark that died, output of
another history) ends the job, whatever was chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal, get_args

from rechannel.errors import (
    ClusterError,
    DamagedStateError,
    DataflowError,
    FencedError,
    NotPermittedError,
    OtherHistoryError,
    RefusedError,
    SessionError,
    StorageError,
    UserFunctionError,
)

Then = Literal["stop", "skip", "dead_letter"]

_ATTEMPTS = 4
_PATIENT_ATTEMPTS = 8
"""Attempts if a store or a cluster failed that may come back: with the usual pauses, about a
minute.
"""
_LONGEST_MS = 60_000
_FATAL = (FencedError, DamagedStateError, OtherHistoryError, SessionError)
_FIRM = (DataflowError, NotPermittedError, RefusedError, UserFunctionError)
"""Errors that a retry does not help, unless the user sets a number of attempts."""
_PASSING = (StorageError, ClusterError)


def fatal(error: BaseException) -> bool:
    """Return whether the job has to end.

    State is damaged, the driver was replaced or dies, its Spark has died, or another history was
    published.
    """
    return not isinstance(error, Exception) or isinstance(error, _FATAL)


class Verdict(Enum):
    """What is done after a failed attempt."""

    RETRY = auto()
    STOP = auto()
    SKIP = auto()
    DEAD_LETTER = auto()


_AT_LAST = {
    "stop": Verdict.STOP,
    "skip": Verdict.SKIP,
    "dead_letter": Verdict.DEAD_LETTER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OnFailure:
    """How patient a sink is, and what happens afterwards."""

    then: Then = "stop"
    attempts: int | None = None
    """Attempts per timestep. None means 4; 8 if a store does not answer or the cluster lost
    something; 1 if a user's function raised, the sink refuses, or permission is missing.
    """
    pause_ms: int = 500
    """Pause after the first failed attempt; it doubles, up to a minute."""
    path: str | None = None
    """Path of dead letters."""

    def __post_init__(self) -> None:
        """Check that the choice is valid and complete. Raises DataflowError."""
        if self.then not in get_args(Then):
            msg = f"on_failure({self.then!r}): use 'stop', 'skip' or 'dead_letter'"
            raise DataflowError(msg)
        if (self.attempts is not None and self.attempts < 1) or self.pause_ms < 0:
            msg = f"on_failure: attempts must be >= 1 and pause_ms >= 0, not {self.attempts} and {self.pause_ms}"
            raise DataflowError(msg)
        if (self.then == "dead_letter") != bool(self.path):
            msg = "on_failure: 'dead_letter' needs path=, where the rows go; 'stop' and 'skip' have none"
            raise DataflowError(msg)

    def verdict(self, failures: int, error: BaseException) -> Verdict:
        """Decide what to do about a failure. failures: failed attempts at this timestep, including
        this one.
        """
        if fatal(error):
            return Verdict.STOP
        allowed = self.attempts or _usual(error)
        return Verdict.RETRY if failures < allowed else _AT_LAST[self.then]

    def pause(self, failures: int) -> float:
        """Return the milliseconds until the next attempt."""
        return float(min(self.pause_ms * 2 ** min(failures - 1, 20), _LONGEST_MS))


def _usual(error: BaseException) -> int:
    if isinstance(error, _FIRM):
        return 1
    return _PATIENT_ATTEMPTS if isinstance(error, _PASSING) else _ATTEMPTS
