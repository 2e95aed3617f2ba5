"""Threads that the end of a process does not wait for.

Python waits at its exit for the threads of every `ThreadPoolExecutor`, daemons too. So a user's function that never
returns would keep a command or a script alive after its job was given up.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import copy_context
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def daemon_thread(target: Callable[[], object], name: str) -> threading.Thread:
    """Make a daemon thread with the context of this one: what it logs is about the same job."""
    return threading.Thread(target=copy_context().run, args=(target,), name=name, daemon=True)


class AtOnce(Executor):
    """Makes every call in the thread that gives it."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Make a call. What is no Exception is raised here."""
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class DaemonThreads(Executor):
    """Runs calls in daemon threads, which are made when needed and used again.

    Each call has the context of the thread that has given it.
    """

    def __init__(self, most: int, name: str) -> None:
        """most: threads; further calls wait. name: what names of threads begin with."""
        self._most, self._name = most, name
        self._changed = threading.Condition()
        self._calls: deque[tuple[Future[object], Callable[[], object]]] = deque()
        self._threads: list[threading.Thread] = []
        self._waiting = 0
        self._shut = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a call. Raises RuntimeError after `shutdown`."""
        future: Future[T] = Future()
        context = copy_context()
        with self._changed:
            if self._shut:
                msg = f"threads {self._name!r} were shut down"
                raise RuntimeError(msg)
            if self._waiting <= len(self._calls) and len(self._threads) < self._most:
                self._begin_thread()
            self._calls.append((future, lambda: context.run(fn, *args, **kwargs)))  # type: ignore[arg-type] # an object is any T
            self._changed.notify()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no further calls. wait: for those that were taken."""
        with self._changed:
            self._shut = True
            dropped = list(self._calls) if cancel_futures else []
            if cancel_futures:
                self._calls.clear()
            self._changed.notify_all()
        for future, _ in dropped:
            future.cancel()
        if wait:
            self.join()

    def join(self, timeout: float | None = None) -> bool:
        """Wait, after `shutdown`, for the calls that run. Returns False after `timeout` seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        for thread in self._threads:
            thread.join(None if until is None else max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _begin_thread(self) -> None:
        """Begin one more thread; it comes to its first call when the lock is free. Raises RuntimeError if it cannot."""
        name = f"{self._name}_{len(self._threads)}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _work(self) -> None:
        while (taken := self._next()) is not None:
            _carry_out(*taken)
            del taken

    def _next(self) -> tuple[Future[object], Callable[[], object]] | None:
        """Wait for a call; None when there will be none."""
        with self._changed:
            while not self._calls and not self._shut:
                self._waiting += 1
                self._changed.wait()
                self._waiting -= 1
            return self._calls.popleft() if self._calls else None


def _carry_out(future: Future[object], call: Callable[[], object]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        made = call()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(made)
    # An error refers to its frames, and these to the call: let it go with the future, not with the next collection.
    del future, call
