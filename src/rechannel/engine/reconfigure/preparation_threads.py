"""Run the preparations of changes in threads of their own: when one begins, what it returned, when it is abandoned.

`Preparer` has what is done; this file has when. Only the driver's thread uses it; results arrive as events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import replace
from queue import SimpleQueue
from typing import Any, TypeAlias

from rechannel.engine.reconfigure.prefetch_plan import AGAIN
from rechannel.engine.reconfigure.preparer import Preparer
from rechannel.reconfigure.coordination import Coordination, Now
from rechannel.reconfigure.events import Event, Finished, Prepared
from rechannel.reconfigure.record import Phase, Record
from rechannel.state.manifest import Manifest
from rechannel.threads import DaemonThreads

THREADS = 4

LatestRun: TypeAlias = tuple[int, "Future[None] | None"]
"""Timestep or step at which repeated work was begun last, and the work."""


class PreparationThreads:
    """The preparations of all reconfigurations of one driver."""

    def __init__(
        self, preparer: Preparer, wake: Callable[[], None], executor: Executor | None
    ) -> None:
        """wake: makes the driver's thread look here. executor: runs preparations; None = threads of its own."""
        self._preparer = preparer
        self._wake = wake
        self._executor = executor
        self._own: DaemonThreads | None = None
        self._ready: SimpleQueue[Event] = SimpleQueue()
        self._preparing: dict[str, Record] = {}
        self._next_steps: dict[str, LatestRun] = {}
        self._refreshed: dict[str, LatestRun] = {}

    def begin(
        self,
        record: Record,
        time_ms: int,
        now: Callable[[], Now],
        manifests: Mapping[str, Manifest],
    ) -> bool:
        """Begin the preparation of a record; returns False if it has begun already."""
        if record.id in self._preparing:
            return False
        self._preparing[record.id] = record
        if not record.strategy.prepare and not record.change.requires_preparation:
            event = Prepared(id=record.id, time_ms=time_ms, facts={"skipped": True})
            self._ready.put(event)
            return True
        future = self._pool().submit(self._preparer.prepare, record, now(), manifests)
        future.add_done_callback(lambda done: self._keep_result(record, time_ms, done))
        return True

    def _keep_result(self, record: Record, time_ms: int, done: Future[dict[str, Any]]) -> None:
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
    def has_results(self) -> bool:
        """Whether a preparation has returned."""
        return not self._ready.empty()

    def results(self, state: Callable[[], Coordination], timestep: int) -> Iterable[Event]:
        """Yield an event per preparation that has returned. What was prepared for a record that is over is released."""
        while not self._ready.empty():
            event = self._ready.get()
            record = self._preparing.pop(event.id)
            found = next((r for r in state().records if r.id == event.id), None)
            if found is not None and found.phase is Phase.WAITING:
                self._refreshed[event.id] = timestep, None
                yield event
            elif found is None or not found.open:
                # The record ended before its preparation did: release what was prepared after that.
                ended = replace(record, phase=Phase.ABORTED) if found is None else found
                self._preparer.final_facts(ended)
                self._preparer.release(ended)

    def prepare_next_steps(
        self, record: Record, now: Callable[[], Now], manifests: Mapping[str, Manifest]
    ) -> None:
        """Prepare the next steps of a record that is under way, from time to time; nothing waits for it."""
        self._repeat(self._next_steps, record, len(record.taken), 0, now, manifests)

    def prepare_again(
        self,
        record: Record,
        timestep: int,
        now: Callable[[], Now],
        manifests: Mapping[str, Manifest],
    ) -> None:
        """Fetch again, from time to time, for a change that waits: timesteps may have merged what was fetched."""
        self._repeat(self._refreshed, record, timestep, timestep, now, manifests)

    def _repeat(
        self,
        begun: dict[str, LatestRun],
        record: Record,
        at: int,
        first: int,
        now: Callable[[], Now],
        manifests: Mapping[str, Manifest],
    ) -> None:
        """Prepare what comes next, `AGAIN` after the last time (or after `first`), unless that is still running."""
        since, busy = begun.get(record.id, (first, None))
        if at >= since + AGAIN and not _busy(busy):
            begun[record.id] = (
                at,
                self._pool().submit(self._preparer.prepare_next_steps, record, now(), manifests),
            )

    def fetching(self, record: Record) -> bool:
        """Whether the state of the next steps is still being fetched."""
        _, busy = self._next_steps.get(record.id, (0, None))
        return _busy(busy)

    def end(self, record: Record) -> dict[str, Any]:
        """Stop preparing for a record that is over; returns the facts of what was prepared."""
        for begun in (self._next_steps.pop(record.id, None), self._refreshed.pop(record.id, None)):
            busy = None if begun is None else begun[1]
            if busy is not None and not busy.cancel():
                # It is running: what it has added by its end is dropped then.
                busy.add_done_callback(lambda _: self._preparer.final_facts(record))
        return dict(self._preparer.final_facts(record))

    def close(self) -> None:
        """Begin no further preparation, and end those that run."""
        self._preparer.close()
        if self._own is not None:
            self._own.shutdown(wait=False, cancel_futures=True)

    def _pool(self) -> Executor:
        if self._executor is not None:
            return self._executor
        if self._own is None:
            self._own = DaemonThreads(THREADS, "rechannel-prepare")
        return self._own


def _busy(work: Future[None] | None) -> bool:
    return work is not None and not work.done()
