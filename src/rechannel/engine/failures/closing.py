"""The end of a job: every step is taken, whatever became of those before it, and together they take a bounded time.

What a step raises is logged and told, never raised: who waits for the end must hear of it, and a step that fails must
not keep the next one from giving back what it holds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from rechannel.engine.failures.blame import is_severed
from rechannel.errors import FencedError, RechannelError, gone_error

_LOG = logging.getLogger(__name__)

Step = tuple[str, Callable[[], object]]
"""What it puts away, in words, and how."""

SECONDS = 60.0
"""How long all steps of an end may take together."""

GONE_SECONDS = 4.0
"""The same where nothing can be waited for: what would have answered has died."""

_LEAST_SECONDS = 0.2
_DYING_SECONDS = 2.0


def close_all(steps: Sequence[Step], seconds: float) -> list[str]:
    """Take all steps in order; what went wrong, a sentence each.

    A step that is not over in time goes on in a thread that is not waited for, and the next one begins.
    """
    deadline = time.monotonic() + seconds
    failures = []
    for what, step in steps:
        failure = _taken(what, step, max(_LEAST_SECONDS, deadline - time.monotonic()))
        if failure is not None:
            _LOG.warning(failure)
            failures.append(failure)
    return failures


def _taken(what: str, step: Callable[[], object], seconds: float) -> str | None:
    raised: list[BaseException] = []

    def take() -> None:
        try:
            step()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=take, name=f"rechannel-close-{what}", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        return f"closing {what} takes longer than {seconds:.1f} s and is not waited for"
    if raised:
        return f"closing {what} failed: {type(raised[0]).__name__}: {raised[0]}"
    return None


def reason_of(
    error: BaseException,
    fenced: Callable[[], FencedError | None],
    gone: Callable[[], str | None],
) -> BaseException:
    """What is behind an error that ends a job: another driver, whose sweeps take files, or a dead Spark."""
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
    """What `gone` tells; of a call that was cut off a moment later, since sockets close before a process is dead."""
    deadline = time.monotonic() + _DYING_SECONDS
    while (why := gone()) is None and is_severed(error) and time.monotonic() < deadline:
        time.sleep(0.05)
    return why
