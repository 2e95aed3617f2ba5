"""Close a job: every step runs, even if earlier ones failed, and together they take a bounded time.

An error of a step is logged and returned, never raised: a step that fails must not keep the next one from releasing
what it holds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from rechannel.engine.failures.blame import is_severed
from rechannel.errors import FencedError, RechannelError, gone_error, one_sentence
from rechannel.logs import fields
from rechannel.threads import daemon_thread

_LOG = logging.getLogger("rechannel")

ClosingStep = tuple[str, Callable[[], object]]
"""What a step closes, in words, and the function that does it."""

SECONDS = 60.0
"""How long all steps may take together, in seconds."""

GONE_SECONDS = 4.0
"""The same if Spark or its JVM has died, so that nothing can answer."""

_LEAST_SECONDS = 0.2
_DYING_SECONDS = 2.0


def close_all(steps: Sequence[ClosingStep], seconds: float) -> list[str]:
    """Run all steps in order. Returns a sentence per failure.

    A step that takes too long continues in a thread that no caller joins, and the next step starts.
    """
    deadline = time.monotonic() + seconds
    failures = []
    for what, step in steps:
        failure = _taken(what, step, max(_LEAST_SECONDS, deadline - time.monotonic()))
        if failure is not None:
            _LOG.warning(failure, extra=fields("not_closed", reason=failure))
            failures.append(failure)
    return failures


def _taken(what: str, step: Callable[[], object], seconds: float) -> str | None:
    raised: list[BaseException] = []

    def take() -> None:
        try:
            step()
        except BaseException as error:
            raised.append(error)

    thread = daemon_thread(take, f"rechannel-close-{what}")
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        return f"closing {what} takes longer than {seconds:.1f} s and is not waited for"
    if raised:
        return f"closing {what} failed: {type(raised[0]).__name__}: {one_sentence(raised[0])}"
    return None


def reason_of(
    error: BaseException,
    fenced: Callable[[], FencedError | None],
    gone: Callable[[], str | None],
) -> BaseException:
    """Return the cause of an error that ends a job: another driver, whose sweeps remove files, or a dead JVM."""
    if not isinstance(error, Exception) or isinstance(error, FencedError):
        return error
    found: RechannelError | None = None
    with suppress(RechannelError, OSError):
        found = fenced()
    if found is None and (why := settled(error, gone)) is not None:
        found = gone_error(why)
    if found is None:
        return error
    found.__cause__ = error
    return found


def settled(error: Exception, gone: Callable[[], str | None]) -> str | None:
    """Return what `gone` returns; after a call was cut off, ask for a while, as sockets close before a process dies."""
    deadline = time.monotonic() + _DYING_SECONDS
    while (why := gone()) is None and is_severed(error) and time.monotonic() < deadline:
        time.sleep(0.05)
    return why
