"""Classify errors by whose fault they are, which decides what happens next. Pure.

    user, damaged      a retry gives the same error: the job ends
    cluster, store     the cause passes: the driver retries the timestep under the same intent

Errors of this library are classified by class, errors of Spark by their message, since Spark has one exception for
everything that can happen to a job. An error that is not known to pass counts as the user's: the job ends with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

from rechannel.errors import (
    ClusterError,
    DamagedStateError,
    NotPermittedError,
    RechannelError,
    StorageError,
)


class Blame(StrEnum):
    """What is to blame for an error."""

    USER = "user"
    DAMAGED = "damaged"
    CLUSTER = "cluster"
    STORE = "store"

    @property
    def passes(self) -> bool:
        """Whether a retry may succeed."""
        return self in {Blame.CLUSTER, Blame.STORE}


_BY_CLASS: tuple[tuple[type[RechannelError], Blame], ...] = (
    (DamagedStateError, Blame.DAMAGED),
    (NotPermittedError, Blame.USER),
    (StorageError, Blame.STORE),
    (ClusterError, Blame.CLUSTER),
    (RechannelError, Blame.USER),
)

_OVER = re.compile(
    r"SparkContext was shut down|SparkContext has been shutdown|stopped SparkContext"
    r"|Cannot call methods on a stopped|Master removed our application|Application has been killed"
    r"|All masters are unresponsive"
)
"""The session is over: retries are pointless."""

_CLUSTER = re.compile(
    r"ExecutorLostFailure|ExecutorDeadException|Executor heartbeat timed out"
    r"|Remote RPC client disassociated|Lost executor|Slave lost|[Ww]orker lost"
    r"|FetchFailed|MetadataFetchFailed|Missing an output location for shuffle|failed to fetch"
    r"|has failed the maximum allowable number of times"
    r"|with indeterminate output|indeterminate stage|checksum mismatch"
    r"|cannot rollback the ResultStage"
    r"|Python worker exited unexpectedly|Python worker failed to connect back"
    r"|Failed to get broadcast|Could not (?:get|find) block|BlockNotFoundException|Block \S+ (?:was )?not found"
    r"|No space left on device|Connection reset by peer|Failed to connect to "
)
"""Executors, hosts or the data they held were lost."""

_SEVERED = re.compile(
    r"Py4JNetworkError|Answer from Java side is empty|Connection refused|Connection reset|Broken pipe"
    r"|Py4JError: An error occurred while calling [\w.]*\w$",
    re.MULTILINE,
)
"""A call into the JVM was cut off: the JVM may have died. An error that Java answers with has its trace in the text."""

_STORE = re.compile(
    r"ConnectException|ConnectTimeoutException|SocketTimeoutException|UnknownHostException"
    r"|NoRouteToHostException|NoHttpResponseException|AWSClientIOException|AWSServiceIOException"
    r"|AWSStatus5\d\d|SlowDown|503 Service Unavailable|Stale file handle|SafeModeException"
    r"|StandbyException"
)
"""A store does not answer."""


def blame_of(error: BaseException) -> Blame:
    """Classify an error of a timestep, or of polling a source."""
    if isinstance(error, RechannelError):
        return next(blame for kind, blame in _BY_CLASS if isinstance(error, kind))
    return blame_of_words("\n".join(_words(error)))


def blame_of_words(text: str) -> Blame:
    """Classify a message of Spark."""
    if _OVER.search(text):
        return Blame.USER
    if _CLUSTER.search(text):
        return Blame.CLUSTER
    return Blame.STORE if _STORE.search(text) else Blame.USER


def is_over(text: str) -> bool:
    """Return whether a message of Spark says that the session is over."""
    return _OVER.search(text) is not None


def is_severed(error: BaseException) -> bool:
    """Return whether an error looks as if the JVM died during a call."""
    return _SEVERED.search("\n".join(_words(error))) is not None


def _words(error: BaseException | None) -> Iterator[str]:
    seen: set[int] = set()  # an error can be its own cause, over others
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield f"{type(error).__name__}: {error}"
        error = error.__cause__
