"""Whose fault an error is, and so what to do about it. Pure.

    user, damaged      trying again gives the same error: the job ends
    cluster, store     it passes: the timestep runs again under the same intent

What this library raises is told by its class, what Spark raises by its words: it has one exception for all that can
become of a job. Whatever is not known to pass is the user's: a job that ends says why.
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
    """Who is to blame."""

    USER = "user"
    DAMAGED = "damaged"
    CLUSTER = "cluster"
    STORE = "store"

    @property
    def passes(self) -> bool:
        """Whether the same may succeed later."""
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
"""Nothing runs on this session any more: no patience helps."""

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
"""Executors, hosts or what they held went."""

_SEVERED = re.compile(
    r"Py4JNetworkError|Answer from Java side is empty|Connection refused|Connection reset|Broken pipe"
)
"""A call into the JVM was cut off: it may have died."""

_STORE = re.compile(
    r"ConnectException|ConnectTimeoutException|SocketTimeoutException|UnknownHostException"
    r"|NoRouteToHostException|NoHttpResponseException|AWSClientIOException|AWSServiceIOException"
    r"|AWSStatus5\d\d|SlowDown|503 Service Unavailable|Stale file handle|SafeModeException"
    r"|StandbyException"
)
"""What keeps bytes does not answer."""


def blame_of(error: BaseException) -> Blame:
    """Who is to blame for an error of a timestep, or of a look at a source."""
    if isinstance(error, RechannelError):
        return next(blame for kind, blame in _BY_CLASS if isinstance(error, kind))
    return blame_of_words("\n".join(_words(error)))


def blame_of_words(text: str) -> Blame:
    """The same of what Spark says."""
    if _OVER.search(text):
        return Blame.USER
    if _CLUSTER.search(text):
        return Blame.CLUSTER
    return Blame.STORE if _STORE.search(text) else Blame.USER


def is_over(text: str) -> bool:
    """Whether Spark says that nothing runs on this session any more."""
    return _OVER.search(text) is not None


def is_severed(error: BaseException) -> bool:
    """Whether an error looks like the death of the JVM that a call went to."""
    return _SEVERED.search("\n".join(_words(error))) is not None


def _words(error: BaseException | None) -> Iterator[str]:
    while error is not None:
        yield f"{type(error).__name__}: {error}"
        error = error.__cause__
