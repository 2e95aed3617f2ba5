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
"""Checks a call at a stream position. Returns a function that carries it out and returns the answer, or raises."""

ANSWER_SECONDS = 120.0
"""A driver answers between two timesteps; a caller that has waited longer than this gets an error."""

_ENDED = "the job has ended, so nothing can be changed: start it again first"


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
        """Hand over a call. Any thread may call this."""
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
        """Whether a call has no answer yet."""
        return not self._waiting.empty()

    def answer(self, position: StreamPosition) -> bool:
        """Answer all pending calls; returns whether there were any. Only the driver's thread calls this."""
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
    """Wait for an answer. If the wait is interrupted, a call that has not begun is withdrawn.

    what: the call, in words. Raises NoAnswerError after `seconds`; if the driver has begun the call by then, after as
    long again.
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
            return _wait_again(answer, seconds, what)  # it has begun in the meantime
        # The driver's thread is carrying it out: the outcome will be known soon.
        answer.exception(seconds)
        raise


def _wait_again(answer: Future[T], seconds: float, what: str) -> T:
    try:
        return answer.result(seconds)
    except TimeoutError as error:
        if answer.done():
            raise
        msg = (
            f"the driver began {what} and has not finished it in {seconds:,.0f} s; it may still be carried out."
            " job.status shows what the driver waits for; check job.open_reconfigurations and job.history() before you"
            " request it again"
        )
        raise NoAnswerError(msg) from error


def _not_begun(what: str, seconds: float) -> NoAnswerError:
    return NoAnswerError(
        f"the driver has not begun {what} in {seconds:,.0f} s: it answers between two timesteps, and is running a long"
        " one or hangs. The request was withdrawn, and no part of it will be carried out. job.status shows what the"
        " driver waits for; then request it again"
    )
