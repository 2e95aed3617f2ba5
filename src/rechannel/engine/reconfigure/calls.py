"""Calls of other threads into the driver's thread: judged first, then done, and answered.

Judging changes nothing, so an error there is raised in the caller only, and the driver continues. An error while the
call is carried out (the journal cannot be written) also ends the driver. If a caller stops waiting before its call has
begun, the call is dropped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

from rechannel.engine.program.position import StreamPosition
from rechannel.errors import NoAnswerError, RefusedError

T = TypeVar("T")

Judge: TypeAlias = Callable[[StreamPosition], Callable[[], Any]]
"""Raises what is wrong with a call where the stream stands; what it returns does it, and gives the answer."""

ANSWER_SECONDS = 120.0
"""A driver answers between two timesteps; a caller that waits longer than this gets an error."""

_ENDED = "the job has ended: nothing can be changed any more; start it again first"


@dataclass(frozen=True, kw_only=True)
class _Call:
    judge: Judge
    answer: Future[Any]


class Calls:
    """A queue into the driver's thread."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """wake: makes the driver's thread look here."""
        self._wake = wake
        self._waiting: SimpleQueue[_Call] = SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, judge: Judge) -> Future[Any]:
        """Hand over a call. Any thread may."""
        answer: Future[Any] = Future()
        with self._lock:
            if self._closed:
                answer.set_exception(RefusedError(_ENDED))
                return answer
            self._waiting.put(_Call(judge=judge, answer=answer))
        self._wake()
        return answer

    @property
    def pending(self) -> bool:
        """Whether a call waits for its answer."""
        return not self._waiting.empty()

    def answer(self, position: StreamPosition) -> bool:
        """Answer all that wait; whether there were any. The driver's thread does."""
        happened = False
        while not self._waiting.empty():
            happened = True
            _answer(self._waiting.get(), position)
        return happened

    def close(self) -> None:
        """Answer no call from now on."""
        with self._lock:
            self._closed = True
        while not self._waiting.empty():
            answer = self._waiting.get().answer
            if answer.set_running_or_notify_cancel():
                answer.set_exception(RefusedError(_ENDED))


def _answer(call: _Call, position: StreamPosition) -> None:
    if not call.answer.set_running_or_notify_cancel():
        return
    do: Callable[[], Any] | None = None
    try:
        do = call.judge(position)
        call.answer.set_result(do())
    except BaseException as error:
        call.answer.set_exception(error)
        if do is not None or not isinstance(error, Exception):
            raise


def wait_for(answer: Future[T], what: str, seconds: float = ANSWER_SECONDS) -> T:
    """The answer. When the wait is broken off, the call does not come; or its outcome is known in a moment.

    what: was asked for, in words. Raises NoAnswerError after `seconds`, or, where the driver has begun with it by
    then, after as long again.
    """
    try:
        return answer.result(seconds)
    except BaseException as error:
        late = isinstance(error, TimeoutError) and not answer.done()
        if answer.cancel():
            if late:
                raise _not_begun(what, seconds) from error
            raise
        if late:
            return _wait_again(answer, seconds, what)  # it has begun at the last moment
        # The driver's thread is at it: what comes of it is known in a moment.
        answer.exception(seconds)
        raise


def _wait_again(answer: Future[T], seconds: float, what: str) -> T:
    try:
        return answer.result(seconds)
    except TimeoutError as error:
        if answer.done():
            raise
        msg = (
            f"the driver began with {what} and has not ended it in {seconds:,.0f} s; it may still be carried out. Look"
            " at job.status for what the driver waits for, and at job.reconfigurations before you ask again"
        )
        raise NoAnswerError(msg) from error


def _not_begun(what: str, seconds: float) -> NoAnswerError:
    return NoAnswerError(
        f"the driver has not come to {what} in {seconds:,.0f} s: it answers between two timesteps, and hangs or has a"
        " long one under way. The request was taken back: nothing of it will be carried out. Look at job.status for"
        " what the driver waits for, then ask again"
    )
