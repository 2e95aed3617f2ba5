"""Listeners of a job: each receives what has happened since it last looked, in a thread of its own.

Nothing of the stream calls a listener or waits for it: its thread looks at values that the job keeps anyway. So one
that is slow, hangs or raises holds up neither the stream, nor another listener, nor the end of the job. What it costs
does not grow with its slowness either: a job keeps its latest timesteps only, and a listener misses what is older.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from rechannel.errors import one_sentence
from rechannel.logs import fields, logging_for
from rechannel.monitoring import JobListener, JobStatus, ReconfigurationSummary
from rechannel.telemetry.facts import TimestepProgress
from rechannel.telemetry.feed import Feed
from rechannel.threads import daemon_thread

_LOG = logging.getLogger("rechannel")
T = TypeVar("T")

EVERY_S = 0.1
"""Seconds between two looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What a listener receives of a job. No call waits for the stream."""

    status: Callable[[], JobStatus]
    progress: Callable[[], Sequence[TimestepProgress]]
    """The latest committed timesteps, oldest first."""
    ended: Callable[[], Iterable[str]]
    """Ids of reconfigurations that are over, in their order."""
    summary: Callable[[str], ReconfigurationSummary]
    follow: Callable[[], Feed]
    """Begins a feed of events."""
    leave: Callable[[Feed], None]
    """Ends it."""
    over: threading.Event
    """Set once the job has ended."""


def unheard(
    progress: Sequence[TimestepProgress], latest: int
) -> tuple[list[TimestepProgress], int]:
    """Return the timesteps after `latest`, and how many between them and it are not kept any more."""
    new = [each for each in progress if each.timestep > latest]
    return new, new[0].timestep - latest - 1 if new else 0


def wants_events(listener: JobListener) -> bool:
    """Whether a listener does anything with events: if not, none are kept for it."""
    return type(listener).on_events is not JobListener.on_events


def _same(what: T) -> T:
    return what


class Listening:
    """Calls a listener until the job ends or `close` is called."""

    def __init__(
        self,
        listener: JobListener,
        heard: Heard,
        ended: Callable[[], None] = lambda: None,
        looked: Callable[[], None] = lambda: None,
    ) -> None:
        """Hear what happens from now on. `RunningJob.listen` makes it. ended: called after the last call. looked: after
        each look, also if nothing has happened.
        """
        self._looked = looked
        self._ending = ended
        self._listener, self._heard = listener, heard
        self._closed = threading.Event()
        self._ended = set(heard.ended())
        known = heard.progress()
        self._latest = known[-1].timestep if known else heard.status().timestep
        self.missed = 0
        """Timesteps that the job no longer kept when the listener came to them."""
        self.failures = 0
        """Calls that have raised."""
        self._feed = heard.follow() if wants_events(listener) else None
        name = f"rechannel-listener-{type(listener).__name__}"
        with logging_for(heard.status().name):
            self._thread = daemon_thread(self._run, name)
        self._thread.start()

    def close(self) -> None:
        """Call the listener no more; a call that runs goes on. It does not wait for that."""
        self._closed.set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the listener has heard the end of the job, or is closed. Returns False after `timeout` seconds."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        self._tell(self._listener.on_started, self._heard.status)
        over = False
        while not over and not self._closed.is_set():
            over = self._heard.over.wait(EVERY_S)
            self._look()
            self._looked()
        if over:
            self._tell(self._listener.on_terminated, self._heard.status)
        if self._feed is not None:
            self._heard.leave(self._feed)
        self._ending()

    def _look(self) -> None:
        self._tell_progress()
        self._tell_events()
        self._tell_reconfigured()

    def _tell_progress(self) -> None:
        while True:  # others are committed while the listener is slow
            new, missed = unheard(self._heard.progress(), self._latest)
            self.missed += missed
            if not new or self._closed.is_set():
                break
            self._latest = new[0].timestep
            self._tell(self._listener.on_progress, partial(_same, new[0]))

    def _tell_events(self) -> None:
        if self._feed is None:
            return
        events, missed = self._feed.take()
        if events:
            call = partial(self._listener.on_events, missed=missed)
            self._tell(call, partial(_same, events), "on_events")

    def _tell_reconfigured(self) -> None:
        ended = list(self._heard.ended())
        for id_ in ended:
            if id_ not in self._ended:
                self._tell(self._listener.on_reconfigured, partial(self._heard.summary, id_))
        self._ended = set(ended)

    def _tell(self, call: Callable[[T], None], fact: Callable[[], T], name: str = "") -> None:
        """Make a call with a fact. What either raises is logged, the first time with its traceback."""
        if self._closed.is_set():
            return
        try:
            call(fact())
        except Exception as error:
            self.failures += 1
            first = self.failures == 1
            _LOG.warning(
                "listener %s failed in %s, and the job goes on: %s: %s",
                type(self._listener).__name__,
                name or call.__name__,
                type(error).__name__,
                one_sentence(error),
                exc_info=error if first else None,
                extra=fields(
                    "listener_failed",
                    listener=type(self._listener).__name__,
                    reason=error,
                    failures=self.failures,
                ),
            )
