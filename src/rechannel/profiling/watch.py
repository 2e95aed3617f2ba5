"""A running session, profiled in a background thread."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from threading import Condition, Event, Thread, current_thread

from rechannel.errors import one_sentence
from rechannel.logs import fields
from rechannel.profiling.model.analysis import Analysis
from rechannel.profiling.model.summaries import Profile, joined
from rechannel.profiling.report.notebook import notebook_html
from rechannel.profiling.spark.live import LiveSession
from rechannel.profiling.storage.cells import SpilledCells

_LOG = logging.getLogger("rechannel")
KEPT = 120
"""Windows that are kept."""
_FAILURES = 3
"""Consecutive failures after which the thread gives up: the session has stopped."""


@dataclass(slots=True)
class Watch:
    """Windows of a running session.

    Iterating yields the windows that are kept, then waits for the next one; it ends after `stop`.
    """

    live: LiveSession
    """The session."""
    window_ms: int
    """Length of a window."""
    tell: Callable[[Analysis], None] | None = None
    """Called with every window, in the background thread."""
    keep: int = KEPT
    """Number of windows that are kept."""
    _windows: deque[Analysis] = field(init=False)
    _seen: int = 0
    _stopped: Event = field(default_factory=Event)
    _changed: Condition = field(default_factory=Condition)
    _thread: Thread = field(init=False)

    def __post_init__(self) -> None:
        """Start the thread."""
        self.live.begin()
        self._windows = deque(maxlen=self.keep)
        self._thread = Thread(target=self._look, name="rechannel-watch", daemon=True)
        self._thread.start()

    @property
    def windows(self) -> list[Analysis]:
        """The newest windows, oldest first."""
        with self._changed:
            return list(self._windows)

    @property
    def latest(self) -> Analysis | None:
        """The newest window; None before the first has ended."""
        with self._changed:
            return self._windows[-1] if self._windows else None

    def profile(self) -> Profile:
        """Return all windows that are kept, as one profile."""
        return joined([each.profile for each in self.windows], SpilledCells())

    def stop(self) -> None:
        """Stop the thread. Windows stay available."""
        self._end()
        if current_thread() is not self._thread:
            self._thread.join(timeout=10)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __iter__(self) -> Iterator[Analysis]:
        next_ = 0
        while True:
            with self._changed:
                while self._seen <= next_ and not self._stopped.is_set():
                    self._changed.wait()
                if self._seen <= next_:
                    return
                # A slow reader misses windows that are no longer kept.
                next_ = max(next_, self._seen - len(self._windows))
                found = self._windows[next_ - self._seen]
            next_ += 1
            yield found

    def _end(self) -> None:
        self._stopped.set()
        with self._changed:
            self._changed.notify_all()

    def _look(self) -> None:
        """Look at one window after the other. However that ends, iterating over the windows ends, too."""
        try:
            self._look_at_windows()
        except Exception as error:  # py4j raises what the other side throws, and more
            _LOG.warning(
                "%s is no longer profiled: %s",
                self.live.title,
                one_sentence(error),
                extra=fields("profiling_ended", reason=error),
            )
        finally:
            self._end()

    def _look_at_windows(self) -> None:
        start, failures = self.live.clock(), 0
        while not self._stopped.is_set():
            end = start + self.window_ms
            while (left := self.live.ready(end)) > 0 and not self._stopped.wait(left):
                pass
            if self._stopped.is_set() or self.live.stopped():
                return
            try:
                found = replace(self.live.window(start, end), page=notebook_html)
                failures = 0
            except Exception as error:  # py4j raises what the other side throws, and more
                failures += 1
                _LOG.warning(
                    "a window of %s could not be profiled: %s",
                    self.live.title,
                    one_sentence(error),
                    extra=fields("profiling_failed", reason=error, failures=failures),
                )
                if failures == _FAILURES:
                    raise
            else:
                with self._changed:
                    self._windows.append(found)
                    self._seen += 1
                    self._changed.notify_all()
                self._tell(found)
            start = end

    def _tell(self, found: Analysis) -> None:
        """Call the user's function; a function that failed is not called again."""
        if self.tell is None:
            return
        try:
            self.tell(found)
        except Exception:  # a user's function may raise anything
            _LOG.exception(
                "the function passed as tell= failed, and is not called again",
                extra=fields("profiling_function_failed"),
            )
            self.tell = None
