"""Preparations of changes, which run in threads of their own: begun, running, finished, abandoned.

Only the driver's thread uses this; results of the threads arrive as events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from queue import SimpleQueue
from typing import Any, TypeAlias

from rechannel.engine.reconfigure.ahead import AGAIN
from rechannel.engine.reconfigure.preparer import Preparer
from rechannel.reconfigure.coordination import Coordination, Now
from rechannel.reconfigure.events import Event, Finished, Prepared
from rechannel.reconfigure.record import Phase, Record
from rechannel.state.manifest import Manifest

THREADS = 4

Begun: TypeAlias = tuple[int, "Future[None] | None"]
"""When something was begun, and the work."""


class Preparations:
    """Of all reconfigurations of one driver."""

    def __init__(
        self, preparer: Preparer, wake: Callable[[], None], executor: Executor | None
    ) -> None:
        """wake: makes the driver's thread look here. executor: runs them; None = threads of its own."""
        self._preparer = preparer
        self._wake = wake
        self._executor = executor
        self._own: ThreadPoolExecutor | None = None
        self._ready: SimpleQueue[Event] = SimpleQueue()
        self._preparing: dict[str, Record] = {}
        self._ahead: dict[str, Begun] = {}
        self._again: dict[str, Begun] = {}

    def begin(
        self,
        record: Record,
        time_ms: int,
        now: Callable[[], Now],
        manifests: Mapping[str, Manifest],
    ) -> bool:
        """Prepare a record that waits for it; whether that was not begun before."""
        if record.id in self._preparing:
            return False
        self._preparing[record.id] = record
        if not record.strategy.prepare and not record.change.requires_preparation:
            event = Prepared(id=record.id, time_ms=time_ms, facts={"skipped": True})
            self._ready.put(event)
            return True
        future = self._pool().submit(self._preparer.prepare, record, now(), manifests)
        future.add_done_callback(lambda done: self._came(record, time_ms, done))
        return True

    def _came(self, record: Record, time_ms: int, done: Future[dict[str, Any]]) -> None:
        if done.cancelled():
            return
        error = done.exception()
        event: Event
        if error is None:
            event = Prepared(id=record.id, time_ms=time_ms, facts=done.result())
        else:
            reason = f"preparation failed: {error}"
            event = Finished(id=record.id, time_ms=time_ms, outcome="failed", reason=reason)
        self._ready.put(event)
        self._wake()

    @property
    def back(self) -> bool:
        """Whether a preparation has come back."""
        return not self._ready.empty()

    def came(self, state: Callable[[], Coordination], timestep: int) -> Iterable[Event]:
        """Events of those that are prepared and still waited for. What came for others is let go."""
        while not self._ready.empty():
            event = self._ready.get()
            record = self._preparing.pop(event.id)
            found = next((r for r in state().records if r.id == event.id), None)
            if found is not None and found.phase is Phase.WAITING:
                self._again[event.id] = timestep, None
                yield event
            elif found is None or not found.open:
                # Over before it was prepared: let go what the preparation got after that.
                gone = replace(record, phase=Phase.ABORTED) if found is None else found
                self._preparer.facts(gone)
                self._preparer.finished(gone)

    def go_ahead(
        self, record: Record, now: Callable[[], Now], manifests: Mapping[str, Manifest]
    ) -> None:
        """Have the next steps prepared, now and then, one thing at a time; nothing waits for it."""
        self._now_and_then(self._ahead, record, len(record.taken), 0, now, manifests)

    def once_more(
        self,
        record: Record,
        timestep: int,
        now: Callable[[], Now],
        manifests: Mapping[str, Manifest],
    ) -> None:
        """What was fetched for a change that waits may be merged meanwhile: fetch it again, now and then."""
        self._now_and_then(self._again, record, timestep, timestep, now, manifests)

    def _now_and_then(
        self,
        begun: dict[str, Begun],
        record: Record,
        at: int,
        first: int,
        now: Callable[[], Now],
        manifests: Mapping[str, Manifest],
    ) -> None:
        """Prepare what comes next, `AGAIN` later than the last time (or than `first`), and not while it is done."""
        since, busy = begun.get(record.id, (first, None))
        if at >= since + AGAIN and not _busy(busy):
            begun[record.id] = (
                at,
                self._pool().submit(self._preparer.ahead, record, now(), manifests),
            )

    def fetching(self, record: Record) -> bool:
        """Whether what moves next is still on its way."""
        _, busy = self._ahead.get(record.id, (0, None))
        return _busy(busy)

    def let_go(self, record: Record) -> dict[str, Any]:
        """What was done ahead of a record that is over; nothing more is."""
        for begun in (self._ahead.pop(record.id, None), self._again.pop(record.id, None)):
            busy = None if begun is None else begun[1]
            if busy is not None and not busy.cancel():
                # What it took up since is forgotten when it is done.
                busy.add_done_callback(lambda _: self._preparer.facts(record))
        return dict(self._preparer.facts(record))

    def close(self) -> None:
        """Nothing more is begun."""
        if self._own is not None:
            self._own.shutdown(wait=False, cancel_futures=True)

    def _pool(self) -> Executor:
        if self._executor is not None:
            return self._executor
        if self._own is None:
            self._own = ThreadPoolExecutor(THREADS, "rechannel-prepare")
        return self._own


def _busy(work: Future[None] | None) -> bool:
    return work is not None and not work.done()
