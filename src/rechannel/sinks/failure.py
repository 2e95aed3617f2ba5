"""What becomes of a sink that cannot write, as its user chose. Pure.

A timestep that a sink does not take is tried again, with longer and longer pauses. When patience is at an end,

- `stop` ends the job: the timestep stays owed, and the next start tries again (the default);
- `skip` puts the sink in quarantine: it owes this timestep and all later ones until it is released;
- `dead_letter` writes this timestep's rows to another path, and goes on with the next one.

What no repetition mends (damaged state, a driver that was replaced, a Spark that died, output of another history) ends
the job whatever was chosen.
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
"""Where what failed is a store or a cluster that may come back: with the usual pauses, about a minute."""
_LONGEST_MS = 60_000
_FATAL = (FencedError, DamagedStateError, OtherHistoryError, SessionError)
_FIRM = (DataflowError, NotPermittedError, RefusedError, UserFunctionError)
"""Said once, said for good, unless the user counts attempts."""
_PASSING = (StorageError, ClusterError)


def fatal(error: BaseException) -> bool:
    """Whether nothing but the end of the job is left.

    State is damaged, the driver was replaced or dies, its Spark has died, or another history was published.
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
    """How patient a sink is, and what happens then.

    attempts: at one timestep; None = 4, 8 where a store does not answer or a cluster lost something, and 1 where a
    function of the user raised, the sink refuses or permission is missing. pause_ms: after
    the first failed attempt; it doubles, up to a minute. path: of dead letters.
    """

    then: Then = "stop"
    attempts: int | None = None
    pause_ms: int = 500
    path: str | None = None

    def __post_init__(self) -> None:
        """Check that the choice is one, and complete."""
        if self.then not in get_args(Then):
            msg = f"on_failure({self.then!r}): say 'stop', 'skip' or 'dead_letter'"
            raise DataflowError(msg)
        if (self.attempts is not None and self.attempts < 1) or self.pause_ms < 0:
            msg = f"on_failure: attempts >= 1 and pause_ms >= 0, not {self.attempts} and {self.pause_ms}"
            raise DataflowError(msg)
        if (self.then == "dead_letter") != bool(self.path):
            msg = "on_failure: 'dead_letter' needs path=, where the rows go, and nothing else takes one"
            raise DataflowError(msg)

    def verdict(self, failures: int, error: BaseException) -> Verdict:
        """Judge a failure. failures: attempts at this timestep that have failed, this one included."""
        if fatal(error):
            return Verdict.STOP
        allowed = self.attempts or _usual(error)
        return Verdict.RETRY if failures < allowed else _AT_LAST[self.then]

    def pause(self, failures: int) -> float:
        """Milliseconds until the next attempt."""
        return float(min(self.pause_ms * 2 ** min(failures - 1, 20), _LONGEST_MS))


def _usual(error: BaseException) -> int:
    if isinstance(error, _FIRM):
        return 1
    return _PATIENT_ATTEMPTS if isinstance(error, _PASSING) else _ATTEMPTS
