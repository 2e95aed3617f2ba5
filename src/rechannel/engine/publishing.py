"""Sinks: what is staged before a commit, and what is published behind it, again after a crash if need be.

A sink straight behind frames (no stage) is *staged* before the commit: its files are written under a hidden
name, which the commit names.
A sink behind a stage needs nothing before the commit: the rows lie in outbox files that the commit names.
Behind the commit either is published; a sink whose publication is durable gets an entry in the journal when
that is done.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from rechannel.engine.entries import Published
from rechannel.engine.incarnations import SINKS, incarnation
from rechannel.engine.journal import Journal
from rechannel.engine.journal_state import JournalState
from rechannel.engine.physical import Frame, OutboxFrame, SinkPlan, leaves
from rechannel.engine.runner import Timestep
from rechannel.sinks.batch import Batch
from rechannel.sinks.writer import Rows, SinkWriter, Staged

_LOG = logging.getLogger(__name__)


class RowsOf(Protocol):
    """Makes the rows of a frame readable for a sink."""

    def __call__(
        self, sink: SinkPlan, decided: Timestep | None, kept: Mapping[str, list[str]]
    ) -> Rows:
        """Rows of a sink's frame. decided: needed only by frames over sources."""


@dataclass(frozen=True)
class _Work:
    sink: SinkPlan
    batch: Batch
    staged: Staged | None
    rows: Callable[[], Rows] | None
    journalled: bool
    again: bool = False

    @property
    def timestep(self) -> int:
        return self.batch.timestep


class Told(Protocol):
    """Told when a sink has shown a timestep. It must not raise and must not block."""

    def __call__(self, timestep: int, sink: str, *, duration_ms: float, again: bool) -> None:
        """again: published a second time, after a restart."""


def nobody(timestep: int, sink: str, *, duration_ms: float, again: bool) -> None:
    """Nobody is told."""


class Publisher:
    """Publishes committed timesteps in order: in a thread of its own, or one call at a time."""

    def __init__(
        self,
        *,
        sinks: tuple[SinkPlan, ...],
        writers: Mapping[str, SinkWriter],
        rows_of: RowsOf,
        journal: Journal,
        backlog: int,
        tell: Told = nobody,
    ) -> None:
        """Take the parts; nothing runs yet."""
        self._tell = tell
        self._sinks = sinks
        self._writers = writers
        self._rows_of = rows_of
        self._journal = journal
        self._backlog = backlog
        self._work: deque[_Work] = deque()
        self._changed = threading.Condition()
        self._volatile: dict[tuple[int, str], Staged] = {}
        self._leaving: set[str] = set()
        self._closed = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Publish in a thread from now on."""
        self._thread = threading.Thread(target=self._loop, name="rechannel-publish", daemon=True)
        self._thread.start()

    def recover(self, state: JournalState) -> None:
        """Publish again what was committed and not published."""
        by_name = {sink.sink.name: sink for sink in self._sinks}
        for timestep, staged in sorted(state.unpublished.items()):
            for name, what in staged.items():
                if name in by_name:
                    self._add(self._from_journal(by_name[name], timestep, what))
                else:
                    # A sink that the program does not have any more: nobody can show this, or waits for it.
                    _LOG.warning("timestep %d was not shown by %r, which is gone", timestep, name)
                    self._journal.append(Published(timestep=timestep, sink=name))

    def _from_journal(self, sink: SinkPlan, timestep: int, what: Mapping[str, Any]) -> _Work:
        known = self._batch(sink.sink.name, timestep)
        batch = Batch(
            timestep=timestep,
            incarnation=what.get("incarnation", known.incarnation),
            digest=what.get("digest", known.digest),
        )
        if "outbox" in what:
            kept = {node: list(keys) for node, keys in what["outbox"].items()}
            rows = partial(self._rows_of, sink, None, kept)
            return _Work(sink, batch, None, rows, True, again=True)
        return _Work(sink, batch, what["staged"], None, True, again=True)

    def _batch(self, sink: str, timestep: int) -> Batch:
        state = self._journal.state
        who = incarnation(state.notes, SINKS, sink)
        return Batch(timestep=timestep, incarnation=who, digest=state.digest(timestep))

    def stage(self, decided: Timestep, kept: Mapping[str, list[str]]) -> dict[str, Any]:
        """What the commit must name for each sink whose publication is durable."""
        self._check()
        out: dict[str, Any] = {}
        for sink in self._sinks:
            writer = self._writers[sink.sink.name]
            batch = self._batch(sink.sink.name, decided.number)
            named = {"incarnation": batch.incarnation, "digest": batch.digest}
            if sink.direct:
                result = writer.stage(self._rows_of(sink, decided, kept), batch)
                if writer.durable:
                    out[sink.sink.name] = {"staged": result, **named}
                else:
                    self._volatile[decided.number, sink.sink.name] = result
            elif writer.durable:
                out[sink.sink.name] = {"outbox": _kept_for(sink.frame, kept), **named}
        return out

    def publish(
        self, decided: Timestep, kept: Mapping[str, list[str]], staged: Mapping[str, Any]
    ) -> None:
        """Queue a committed timestep."""
        for sink in self._sinks:
            name = sink.sink.name
            batch = self._batch(name, decided.number)
            if sink.direct:
                volatile = self._volatile.pop((decided.number, name), None)
                result = staged[name]["staged"] if name in staged else volatile
                self._add(_Work(sink, batch, result, None, name in staged))
                continue
            files = _kept_for(sink.frame, kept)
            self._add(
                _Work(
                    sink,
                    batch,
                    None,
                    lambda sink=sink, files=files: self._rows_of(sink, None, files),  # type: ignore[misc]
                    name in staged,
                )
            )

    def exchange(self, sinks: tuple[SinkPlan, ...], writers: Mapping[str, SinkWriter]) -> None:
        """Other sinks from now on. What waits for one that is gone is still published; then it is closed."""
        with self._changed:
            gone = self._writers.keys() - writers.keys()
            self._leaving |= gone
            self._sinks = sinks
            self._writers = {**self._writers, **writers}
        self._dismiss()

    def _dismiss(self) -> None:
        """Close the writers of sinks that are gone and have nothing left to publish."""
        with self._changed:
            busy = {work.sink.sink.name for work in self._work}
            done = {name: self._writers[name] for name in self._leaving - busy}
            self._writers = {n: w for n, w in self._writers.items() if n not in done}
            self._leaving -= done.keys()
        for writer in done.values():
            writer.close()

    def _add(self, work: _Work) -> None:
        with self._changed:
            self._work.append(work)
            self._changed.notify_all()

    def _loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._work or self._closed)
                if not self._work or self._error is not None:
                    if self._closed:
                        return
                    self._changed.wait_for(lambda: self._closed)
                    return
            try:
                self.publish_next()
            except BaseException as error:
                with self._changed:
                    self._error = error
                    self._changed.notify_all()

    def publish_next(self) -> bool:
        """Publish the oldest timestep that waits, to one sink; False when none waits. Raises what the sink raises."""
        with self._changed:
            if not self._work:
                return False
            work = self._work[0]
        self._do(work)
        with self._changed:
            if self._work:  # not closed meanwhile
                self._work.popleft()
            self._changed.notify_all()
        if self._leaving:
            self._dismiss()
        return True

    def _do(self, work: _Work) -> None:
        name, began = work.sink.sink.name, time.perf_counter()
        writer = self._writers[name]
        staged = work.staged
        if work.rows is not None:
            staged = writer.stage(work.rows(), work.batch)
        if staged is not None:
            writer.publish(staged, work.batch)
        if work.journalled:
            who = work.batch.incarnation
            self._journal.append(Published(timestep=work.timestep, sink=name, incarnation=who))
        took = (time.perf_counter() - began) * 1e3
        self._tell(work.timestep, name, duration_ms=took, again=work.again)

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def idle(self) -> bool:
        """Whether everything committed is published. Raises what a sink raised."""
        with self._changed:
            self._check()
            return not self._work

    def has_room(self) -> bool:
        """Whether another timestep may start. Raises what a sink raised."""
        with self._changed:
            self._check()
            return self._lag() <= self._backlog

    def _lag(self) -> int:
        return len({work.timestep for work in self._work})

    def oldest(self) -> int | None:
        """The oldest timestep that is not published yet: its outbox files are still read."""
        with self._changed:
            return min((work.timestep for work in self._work), default=None)

    def drain(self) -> None:
        """Wait until everything is published. Raises what a sink raised."""
        with self._changed:
            self._changed.wait_for(lambda: not self._work or self._error is not None)
            self._check()

    def close(self) -> None:
        """End the thread after what it is doing; unpublished timesteps are published at the next start."""
        with self._changed:
            self._closed = True
            self._work.clear()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=60)
        for writer in self._writers.values():
            writer.close()


def _kept_for(frame: Frame, kept: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Outbox files that a frame reads."""
    nodes = [leaf.node for leaf in leaves(frame) if isinstance(leaf, OutboxFrame)]
    return {node: list(kept.get(node, [])) for node in nodes}
