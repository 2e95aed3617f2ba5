"""Writing the event stream, off the critical path.

`append` puts events into a bounded queue and returns; one background thread completes them (Spark's
figures arrive late), encodes and writes them. Telemetry never fails a job: what cannot be written
is counted, said once in the program's log, and noted in the stream as soon as it can be written
again.
"""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Condition

from rechannel.errors import one_sentence
from rechannel.logs import fields
from rechannel.telemetry.events import Event, Note, event_to_json, weight_of
from rechannel.telemetry.files import EventFiles
from rechannel.threads import daemon_thread

_LOG = logging.getLogger("rechannel")

_GROUP = 32
"""Events encoded at a time: between groups, the system call that writes lets other threads run."""

Complete = Callable[[Sequence[Event]], Sequence[Event]]
"""Completes events with what was not known when they were appended; keeps their number and order."""


Seen = Callable[[Sequence[Event]], None]
"""Takes completed events."""


def wall_clock_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class EventLog:
    """Appends events to the files of a directory.

    directory: made on the first write. roll_bytes: size after which a new file begins.
    keep_files: older files are deleted. capacity: events that may wait (see `weight_of`); further
    ones are lost.
    flush_s: how long events may wait for company, in seconds: they are completed and written
    together. complete: called in the background thread; what it raises counts as "nothing to add".
    seen: called in the background thread with completed events, before they are written.
    """

    def __init__(
        self,
        directory: Path,
        *,
        roll_bytes: int = 16 << 20,
        keep_files: int = 8,
        capacity: int = 100_000,
        flush_s: float = 0.25,
        complete: Complete | None = None,
        seen: Seen | None = None,
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self._files = EventFiles(directory, roll_bytes=roll_bytes, keep_files=keep_files)
        self._directory = directory
        self._capacity = capacity
        self._flush_s = flush_s
        self._complete, self._seen = complete, seen
        self._clock_ms = clock_ms
        self._changed = Condition()
        self._queue: deque[Event] = deque()
        self._waiting = 0
        self._busy = False
        self._hurry = False
        self._closed = False
        self._lost = 0
        self._unreported = 0
        self._refused = False
        self._thread = daemon_thread(self._run, "rechannel-telemetry")
        self._thread.start()

    @property
    def lost(self) -> int:
        """Number of events that were not written, since the start."""
        return self._lost

    def append(self, *events: Event) -> None:
        """Queue events. Returns at once and never raises; after `close`, events are lost."""
        with self._changed:
            taken = 0
            while taken < len(events) and not self._closed and self._waiting < self._capacity:
                self._waiting += weight_of(events[taken : taken + 1])
                taken += 1
            if not self._queue:
                self._changed.notify_all()
            self._queue.extend(events[:taken])
            self._lose(len(events) - taken)

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until all queued events are written or lost. Returns whether that happened in time."""
        with self._changed:
            self._hurry = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._queue and not self._busy, timeout_s)

    def close(self, timeout_s: float = 10.0) -> None:
        """Write what is waiting and end the thread. A second call does nothing."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while self._wait():
            with self._changed:
                batch, self._busy, self._hurry = list(self._queue), True, False
                self._queue.clear()
                self._waiting = 0
                missing = self._unreported
            events = self._completed(batch)
            self._show(events)
            self._write(events)
            self._report_loss(missing)
            with self._changed:
                self._busy = False
                self._changed.notify_all()
        self._report_loss(self._unreported)
        self._files.close()

    def _wait(self) -> bool:
        """Sleep until a batch is due. Returns False after the last one."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed)
            self._changed.wait_for(lambda: self._hurry or self._closed, self._flush_s)
            return bool(self._queue) or not self._closed

    def _completed(self, batch: list[Event]) -> Sequence[Event]:
        if self._complete is None:
            return batch
        try:
            return self._complete(batch)
        except Exception:  # whatever it is, the job goes on
            _LOG.exception(
                "telemetry is written without Spark's figures", extra=fields("task_metrics_lost")
            )
            return batch

    def _show(self, events: Sequence[Event]) -> None:
        if self._seen is None:
            return
        try:
            self._seen(events)
        except Exception:  # whatever it is, the job goes on
            _LOG.exception("telemetry cannot show its events", extra=fields("telemetry_not_shown"))

    def _write(self, events: Sequence[Event]) -> None:
        for start in range(0, len(events), _GROUP):
            group = events[start : start + _GROUP]
            if not self._append([line for event in group if (line := self._encoded(event))]):
                self._lose(len(events) - start)
                return

    def _report_loss(self, count: int) -> None:
        """Note in the stream how many events are missing from it, if it can be written."""
        if not count:
            return
        note = Note(
            at_ms=self._clock_ms(),
            topic="telemetry",
            text=f"{count} events before this one were not written",
            data={"lost": count},
        )
        if self._append([self._encoded(note)]):
            with self._changed:
                self._unreported -= count

    def _append(self, lines: list[bytes]) -> bool:
        try:
            self._files.append(lines)
        except OSError as error:
            if not self._refused:
                _LOG.warning(
                    "telemetry cannot be written to %s (%s): events are lost, the job goes on",
                    self._directory,
                    one_sentence(error),
                    extra=fields("telemetry_not_written", reason=error),
                )
            self._refused = True
            return False
        self._refused = False
        return True

    def _encoded(self, event: Event) -> bytes:
        """Return an event as a line. What JSON cannot hold gives an empty line, and counts as lost."""
        try:
            return json.dumps(event_to_json(event), separators=(",", ":"), default=dict).encode()
        except Exception:  # whatever it is, the other events are written
            _LOG.exception(
                "telemetry cannot write a %s",
                type(event).__name__,
                extra=fields("telemetry_event_lost"),
            )
            self._lose(1)
            return b""

    def _lose(self, count: int) -> None:
        with self._changed:
            self._lost += count
            self._unreported += count
