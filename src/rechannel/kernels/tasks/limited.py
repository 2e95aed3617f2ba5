"""Bounds for code of users that may not hold up a task or the driver: seconds, and the form and size of a value."""

from __future__ import annotations

import ctypes
import json
import os
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from itertools import chain
from queue import SimpleQueue
from threading import Event
from time import monotonic
from typing import Any, TypeVar

from rechannel.model.codec import Json, encode

T = TypeVar("T")

GRACE_SECONDS = 0.5
"""How long a call that was interrupted may take to end before it is left behind."""

MOST_LEFT_OF_ONE = 8
"""Calls of one owner that may be stuck in a process before no more are made."""

MOST_LEFT = 64
"""The same for the calls of all owners."""

MOST_TRACE = 64 << 10
"""Characters of a traceback, the last ones: an exception may say anything, as long as it likes."""

MOST_LEVELS = 100
"""How deeply a value may be nested: a reader of the journal has less room on its stack."""


class FailedCallError(Exception):
    """A call raised, whatever it was, took longer than it may, or was not made. Its text is a traceback, or says so."""


class OverrunError(FailedCallError):
    """A call took longer than it may."""


class _Interrupted(BaseException):
    """Raised inside of a call that takes too long. No `except Exception` catches it."""


def within(seconds: float, call: Callable[[], T], owner: str = "") -> T:
    """Return what a call returns.

    It runs in another thread, which is interrupted after `seconds`. A call that is stuck in native code, or catches
    everything, cannot be interrupted: its thread is left behind, and the caller goes on. Beyond `MOST_LEFT_OF_ONE` such
    threads, calls of their owner fail without being made, until some have ended.

    owner: whose call it is.

    Raises:
        OverrunError: `seconds` are over.
        FailedCallError: it raised, or could not be made.
    """
    _check_left(owner)
    thread = _taken()
    outcome: list[T] = []
    raised: list[str] = []
    over = thread.call(lambda: outcome.append(call()), raised)
    if not over.wait(seconds):
        _interrupt(thread)
        thread.end()
        if not over.wait(GRACE_SECONDS):
            _left.append((owner, thread))
        raise OverrunError(f"it took longer than {seconds:g} s")
    _idle.append(thread)
    if raised:
        raise FailedCallError(raised[0])
    return outcome[0]


class Budget:
    """The seconds that several calls of one owner may take together."""

    def __init__(self, seconds: float, owner: str = "") -> None:
        """See `within`."""
        self._seconds, self._owner = seconds, owner
        self._left = seconds

    @property
    def spent(self) -> bool:
        """Whether no more calls are made."""
        return self._left <= 0

    def within(self, call: Callable[[], T]) -> T:
        """Return what a call returns. Raises like `within`, and OverrunError without a call once all is spent."""
        overrun = OverrunError(f"it took longer than {self._seconds:g} s")
        if self.spent:
            raise overrun
        began = monotonic()
        try:
            return within(self._left, call, self._owner)
        except OverrunError as error:
            self._left = 0
            raise overrun from error
        finally:
            self._left -= monotonic() - began


def _taken() -> _Thread:
    """Return a thread that waits for a call. Raises FailedCallError if none can be started."""
    with suppress(IndexError):
        return _idle.pop()
    try:
        return _Thread()
    except Exception as error:
        msg = f"no thread can be started for it: {error}"
        raise FailedCallError(msg) from error


def _check_left(owner: str) -> None:
    """Raise FailedCallError while too many calls are stuck in this process."""
    for each in [*_left]:
        if not each[1].is_alive():
            with suppress(ValueError):  # another thread has seen it too
                _left.remove(each)
    own = sum(each == owner for each, _ in _left)
    if own >= MOST_LEFT_OF_ONE or len(_left) >= MOST_LEFT:
        msg = (
            f"it is not called: {own} calls before it are stuck in process {os.getpid()}, {len(_left)} with those of"
            " others. Remove the code that cannot be interrupted, and restart the process"
        )
        raise FailedCallError(msg)


class _Thread(threading.Thread):
    """Makes one call after the other: to begin a thread for each costs ten times as much as such a call."""

    def __init__(self) -> None:
        super().__init__(name="rechannel-control", daemon=True)
        self._calls: SimpleQueue[tuple[Callable[[], None], list[str], Event] | None]
        self._calls = SimpleQueue()
        self.start()

    def call(self, call: Callable[[], None], raised: list[str]) -> Event:
        """Have a call made; returns what is set at its end. raised: takes the traceback of what it raises."""
        over = Event()
        self._calls.put((call, raised, over))
        return over

    def end(self) -> None:
        """Make no more calls."""
        self._calls.put(None)

    def run(self) -> None:
        """Make calls until the end, or until an interrupt arrives after the call that it was meant for."""
        with suppress(_Interrupted):
            self._make_calls()

    def _make_calls(self) -> None:
        while (each := self._calls.get()) is not None:
            call, raised, over = each
            try:
                call()
            except BaseException as error:
                # Here, since the text of an exception is the user's code too.
                raised.append("".join(traceback.format_exception(error))[-MOST_TRACE:])
            finally:
                over.set()
                del each, call, raised, over


_idle: list[_Thread] = []
"""Threads that wait for a call. A process that is forked begins with none: threads are not forked."""

_left: list[tuple[str, _Thread]] = []
"""Threads whose call could not be interrupted, with the owner of the call."""

os.register_at_fork(after_in_child=_idle.clear)
os.register_at_fork(after_in_child=_left.clear)


def _interrupt(thread: threading.Thread) -> None:
    number = ctypes.c_ulong(thread.ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(_Interrupted))


def exceeds(value: Any, most: int) -> bool:
    """Whether a value is certainly larger than `most` bytes as JSON. Stops as soon as that is certain."""
    left = most
    agenda: list[Iterator[Any]] = [iter((value,))]
    while agenda:
        each = next(agenda[-1], agenda)
        if each is agenda:
            agenda.pop()
            continue
        left -= len(each) if isinstance(each, str | bytes) else 1
        if left < 0:
            return True
        if isinstance(each, Mapping):
            agenda.append(chain.from_iterable(each.items()))
        elif isinstance(each, list | tuple | set | frozenset):
            agenda.append(iter(each))
        elif is_dataclass(each) and not isinstance(each, type):
            agenda.append(iter([getattr(each, one.name) for one in fields(each)]))
    return False


def jsonable(value: Any, most: int, what: str) -> Json:
    """Return a value as JSON has it, and as it is read again: keys are strings, tuples lists, records objects.

    most: bytes that it may have. what: the value in messages. Raises TypeError for what JSON cannot hold, ValueError
    for NaN, infinities, and what is too large or too deeply nested.
    """
    if exceeds(value, most):
        msg = f"{what} has more than {most:,} bytes: keep to a summary, or allow more"
        raise ValueError(msg)
    text = json.dumps(encode(value), allow_nan=False)
    if len(text) > most:
        msg = f"{what} has {len(text):,} bytes, over the limit of {most:,}: keep to a summary, or allow more"
        raise ValueError(msg)
    data = json.loads(text)
    if _levels(data) > MOST_LEVELS:
        msg = f"{what} is nested more than {MOST_LEVELS} levels deep: make it flatter"
        raise ValueError(msg)
    return data


def _levels(data: Json) -> int:
    """How deeply a JSON value is nested; 0 for a scalar."""
    levels, inner = 0, [data]
    while inner := [each for each in inner if isinstance(each, dict | list)]:
        levels += 1
        inner = [
            value for each in inner for value in (each.values() if isinstance(each, dict) else each)
        ]
    return levels
