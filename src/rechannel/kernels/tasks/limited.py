"""Bounds for code of users that may not hold up a task: seconds, and the bytes of a value."""

from __future__ import annotations

import ctypes
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import Any, TypeVar

T = TypeVar("T")

GRACE_SECONDS = 0.5
"""How long a call that was interrupted may take to end before it is left behind."""


class FailedCallError(Exception):
    """A call raised, whatever it was, or took longer than it may. Its text is a traceback, or says so."""


class _Interrupted(BaseException):
    """Raised inside of a call that takes too long. No `except Exception` catches it."""


def within(seconds: float, call: Callable[[], T]) -> T:
    """Return what a call returns.

    It runs in a thread of its own, which is interrupted after `seconds`. A call that is stuck in native code cannot be
    interrupted: its thread is left behind, and the caller goes on.

    Raises:
        FailedCallError: it raised, or `seconds` are over.
    """
    outcome: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(call())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="rechannel-control", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        _interrupt(thread)
        thread.join(GRACE_SECONDS)
        msg = f"it took longer than {seconds:g} s"
        raise FailedCallError(msg)
    if raised:
        raise FailedCallError("".join(traceback.format_exception(raised[0])))
    return outcome[0]


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
