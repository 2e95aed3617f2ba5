"""Calls of other threads into the driver's thread: judged first, then done, and answered.

Judging changes nothing, so whatever goes wrong there is told to who asked, and the driver goes on. What goes wrong
while it is done (the journal cannot be written) ends the driver as well. Whoever stops waiting before it was begun
has not asked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

from rechannel.errors import RefusedError

T = TypeVar("T")

Judge: TypeAlias = Callable[[], Callable[[], Any]]
"""Raises what is wrong with a call; what it returns does it, and gives the answer."""

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

    def answer(self) -> bool:
        """Answer all that wait; whether there were any. The driver's thread does."""
        happened = False
        while not self._waiting.empty():
            happened = True
            _answer(self._waiting.get())
        return happened

    def close(self) -> None:
        """Nobody answers any more."""
        with self._lock:
            self._closed = True
        while not self._waiting.empty():
            answer = self._waiting.get().answer
            if answer.set_running_or_notify_cancel():
                answer.set_exception(RefusedError(_ENDED))


def _answer(call: _Call) -> None:
    if not call.answer.set_running_or_notify_cancel():
        return
    do: Callable[[], Any] | None = None
    try:
        do = call.judge()
        call.answer.set_result(do())
    except BaseException as error:
        call.answer.set_exception(error)
        if do is not None or not isinstance(error, Exception):
            raise


def waited(answer: Future[T], seconds: float) -> T:
    """The answer. Raises TimeoutError after so long: then, as when the wait is broken off, the call does not come."""
    try:
        return answer.result(seconds)
    except BaseException as error:
        if answer.cancel():
            raise
        if isinstance(error, TimeoutError):
            return answer.result(seconds)  # it has begun at the last moment
        # The driver's thread is at it: what comes of it is known in a moment.
        answer.exception(seconds)
        raise
