"""Sinks: what is staged before a commit, and what is published after it, again after a crash if need be.

A sink straight downstream of sources (no stage) is *staged* before the commit: its files are written under a hidden
name, which the commit names.
A sink downstream of a stage needs nothing before the commit: the rows lie in outbox files that the commit names.
After the commit either is published; a sink whose publication is durable gets an entry in the journal when that is
done.

Every incarnation of a sink has a queue of its own (`lane.py`), so that one that is slow or cannot write delays no
other, and nothing that one is owed is given to another of its name. What becomes of one that cannot write is said in
`sinks/failure.py`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from rechannel.engine.failures.stopping import Stopping
from rechannel.engine.journal.incarnations import SINKS, incarnation
from rechannel.engine.journal.log import Journal
from rechannel.engine.journal.quarantine import owed
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program.physical import SinkPlan
from rechannel.engine.publish.lane import Lane, Work, drop, said
from rechannel.engine.publish.quarantining import Quarantining
from rechannel.engine.stages.runner import Timestep
from rechannel.engine.stages.sink_rows import Meaning, RowsOf, Told, as_it_is, kept_for, nobody
from rechannel.errors import NotReadyError
from rechannel.sinks.batch import Batch
from rechannel.sinks.failure import Verdict, fatal
from rechannel.sinks.writer import Rows, SinkWriter, Staged
from rechannel.telemetry.troubles import Trouble, unheard

_LOG = logging.getLogger(__name__)

CLOSING_SECONDS = 60.0
"""What is under way gets so long when the job ends, all sinks together."""


class Publisher:
    """Publishes committed timesteps, of every sink in order: in threads of its own, or one call at a time."""

    def __init__(  # noqa: PLR0913 - the seams of publishing, each given from outside
        self,
        *,
        sinks: tuple[SinkPlan, ...],
        writers: Mapping[str, SinkWriter],
        rows_of: RowsOf,
        journal: Journal,
        backlog: int,
        tell: Told = nobody,
        trouble: Trouble = unheard,
        stopping: Stopping | None = None,
        meaning: Meaning = as_it_is,
    ) -> None:
        """Take the parts; nothing runs yet.

        trouble: hears of sinks that fail and are tried again. stopping: bounds how long, once the job is to end.
        meaning: of what comes out of whatever runs the sinks' jobs.
        """
        self._tell = tell
        self._trouble = trouble
        self._rows_of = rows_of
        self._journal = journal
        self._backlog = backlog
        self._changed = threading.Condition()
        self._stopping = stopping or Stopping(0.0)
        self._stopping.on_asked(self._wake)
        self._meaning = meaning
        self._quarantining = Quarantining(journal, trouble)
        self._letting_out = threading.Lock()
        """Held from the look whether a sink is in quarantine until it is let out, or until what it owes is given up."""
        self._volatile: dict[tuple[int, str], Staged] = {}
        self._threaded = self._closed = False
        self._error: BaseException | None = None
        self._lanes = {sink.sink.name: self._lane(sink, writers[sink.sink.name]) for sink in sinks}
        self._leaving: list[Lane] = []

    def _lane(self, sink: SinkPlan, writer: SinkWriter) -> Lane:
        who = incarnation(self._journal.state.notes, SINKS, sink.sink.name)
        lane = Lane(sink=sink, writer=writer, who=who, journal=self._journal, meaning=self._meaning)
        # Known before anything is published, so that a sink can be released as soon as there is a job.
        lane.quarantine = self._quarantining.reason(lane)
        return lane

    def start(self) -> None:
        """Publish in threads from now on, one per sink."""
        self._threaded = True
        for lane in self._lanes.values():
            self._run(lane)

    def _run(self, lane: Lane) -> None:
        if self._threaded and lane.thread is None:
            name = f"rechannel-publish-{lane.name}"
            lane.thread = threading.Thread(target=self._loop, args=(lane,), name=name, daemon=True)
            lane.thread.start()

    def recover(self, state: JournalState) -> None:
        """Publish again what was committed and not published; what is owed to no present sink is given up."""
        for timestep, staged in sorted(state.unpublished.items()):
            for name, what in staged.items():
                lane = self._lanes.get(name)
                if lane is None or what.get("incarnation", lane.who) != lane.who:
                    who = what.get("incarnation", "")
                    drop(self._journal, timestep, name, who, "the sink is gone")
        for lane in self._lanes.values():
            if lane.quarantine:
                self._quarantining.tell(lane, lane.quarantine)
            else:
                self._take_up(lane, state)
        self._quarantining.forget_others({lane.key for lane in self._lanes.values()})

    def _take_up(self, lane: Lane, state: JournalState) -> None:
        for timestep, what in owed(state, lane.name, lane.who).items():
            self._add(lane, lane.from_journal(self._rows_of, timestep, what))

    # Around a commit -----------------------------------------------------------------------------------------

    def stage(self, decided: Timestep, kept: Mapping[str, list[str]]) -> dict[str, Any]:
        """What the commit must name for each sink whose publication is durable."""
        out: dict[str, Any] = {}
        for name, lane in self._lanes.items():
            batch = lane.batch(decided.number)
            named = {"incarnation": batch.incarnation, "digest": batch.digest}
            if lane.sink.direct:
                rows = partial(self._rows_of, lane.sink, decided, kept)
                result = self._staged(lane, rows, batch)
                if lane.writer.durable:
                    out[name] = {"staged": result, **named}
                else:
                    self._volatile[decided.number, name] = result
            elif lane.writer.durable:
                out[name] = {"outbox": kept_for(lane.sink.frame, kept), **named}
        return out

    def _staged(self, lane: Lane, rows: Callable[[], Rows], batch: Batch) -> Staged:
        """Stage before the commit, which waits for it. Where its user counts attempts, the last one ends the job."""
        failures = 0
        while True:
            try:
                return lane.writer.stage(rows(), batch)
            except BaseException as raised:
                failures, error = failures + 1, lane.meant(raised, batch)
                verdict = lane.policy.verdict(failures, error)
                if verdict is Verdict.RETRY and self._waited(lane, failures, error):
                    continue
                if verdict is not Verdict.RETRY and lane.policy.attempts is not None:
                    self._error = self._error or error
                raise error  # noqa: B904 - it names its cause

    def publish(
        self, decided: Timestep, kept: Mapping[str, list[str]], staged: Mapping[str, Any]
    ) -> None:
        """Queue a committed timestep."""
        for name, lane in self._lanes.items():
            held = self._volatile.pop((decided.number, name), None)
            what = staged.get(name)
            self._add(lane, lane.committed(self._rows_of, decided.number, kept, what, held))

    def exchange(self, sinks: tuple[SinkPlan, ...], writers: Mapping[str, SinkWriter]) -> None:
        """Other sinks from now on. What waits for one that is gone is still published by it; then it is closed."""
        with self._letting_out:
            notes = self._journal.state.notes
            lanes: dict[str, Lane] = {}
            for sink in sinks:
                name = sink.sink.name
                before = self._lanes.get(name)
                if before is not None and before.who == incarnation(notes, SINKS, name):
                    before.take(sink, writers[name])
                    lanes[name] = before
                else:
                    lanes[name] = self._lane(sink, writers[name])
                    self._run(lanes[name])
            with self._changed:
                gone = [lane for name, lane in self._lanes.items() if lanes.get(name) is not lane]
                for lane in gone:
                    lane.leaving = True
                self._leaving += gone
                self._lanes = lanes
                self._changed.notify_all()
            for lane in gone:
                if lane.quarantine:
                    self._give_up(lane, f"the sink was removed in quarantine ({lane.quarantine})")
                    self._quarantining.let_out(lane)
        self._dismiss()

    def _dismiss(self) -> None:
        """Close the writers of sinks that are gone and have nothing left to publish."""
        with self._changed:
            done = [lane for lane in self._leaving if not lane.work]
            self._leaving = [lane for lane in self._leaving if lane.work]
        for lane in done:
            lane.close()

    def _add(self, lane: Lane, work: Work) -> None:
        with self._changed:
            lane.add(work)
            self._changed.notify_all()

    # One timestep of one sink --------------------------------------------------------------------------------

    def _loop(self, lane: Lane) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: lane.work or self._closed or lane.leaving)
                if not lane.work or self._closed:
                    return
            try:
                self._turn(lane)
            except BaseException as error:
                with self._changed:
                    self._error = self._error or error
                    self._changed.notify_all()
                return

    def turns(self) -> dict[str, Callable[[], None]]:
        """What may happen next, in any order: of every sink that a timestep waits for, its turn."""
        return {lane.key: partial(self._turn, lane) for lane in self._waiting()}

    def _waiting(self) -> list[Lane]:
        with self._changed:
            return [lane for lane in self._all() if lane.work]

    def publish_next(self) -> bool:
        """Publish the oldest timestep that waits, to one sink; False when none waits. Raises what the sink raises."""
        waiting = self._waiting()
        if not waiting:
            return False
        self._turn(min(waiting, key=lambda lane: lane.work[0].batch.timestep))
        return True

    def _turn(self, lane: Lane) -> None:
        work = lane.work[0]
        try:
            took = lane.attempt(work)
        except BaseException as error:
            self._failed(lane, work, error)
        else:
            if lane.failures:
                self._trouble(f"sink {lane.name}", None)
            with self._changed:
                lane.done()
                self._changed.notify_all()
                self._tell(work.batch.timestep, lane.name, duration_ms=took, again=work.again)
        if lane.leaving:
            self._dismiss()

    def _failed(self, lane: Lane, work: Work, raised: BaseException) -> None:
        """Do what the sink's user chose. Raises the error where that is to stop, or the job has ended anyway."""
        error = lane.meant(raised, work.batch)
        verdict = lane.judged(error)
        if self._closed:
            raise error
        if verdict is Verdict.RETRY:
            if not self._waited(lane, lane.failures, error) and not self._put_off(lane):
                raise error
            return
        if verdict is Verdict.DEAD_LETTER and lane.bury(work, error):
            self._trouble(f"sink {lane.name}", None)
            with self._changed:
                lane.done()
                self._changed.notify_all()
            return
        if lane.leaving and not fatal(error):
            self._give_up(lane, f"the sink was removed and cannot write: {said(error)}")
        elif verdict is Verdict.SKIP:
            self._quarantine(lane, work, error)
        else:
            raise error

    def _waited(self, lane: Lane, failures: int, error: BaseException) -> bool:
        """Pause before the next attempt; False where there is none: the job ends, or a caller steps it."""
        if not self._threaded:
            return lane.policy.then != "stop"
        self._trouble(f"sink {lane.name}", error)
        left, asked = self._stopping.left(), self._stopping.asked
        pause = min(lane.policy.pause(failures) / 1e3, left, threading.TIMEOUT_MAX)
        if left <= 0:
            return False
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._stopping.asked != asked, pause)
            return not self._closed

    def _put_off(self, lane: Lane) -> bool:
        """Leave what a sink owes to the next start, if a stop waits for it no longer and it is not to end the job."""
        if lane.policy.then == "stop" or not self._stopping.asked:
            return False
        with self._changed:
            if self._closed:
                return False
            lane.put_off = True
            self._emptied(lane)
        _LOG.warning("the job stops, and sink %r owes its timesteps: %s", lane.name, lane.trouble)
        return True

    def _wake(self) -> None:
        """Those that pause before another attempt make it now."""
        with self._changed:
            self._changed.notify_all()

    def _quarantine(self, lane: Lane, work: Work, error: BaseException) -> None:
        reason = said(error)
        self._quarantining.put_in(lane, work.batch.timestep, reason)
        with self._changed:
            lane.quarantine = reason
            self._emptied(lane)

    def _give_up(self, lane: Lane, reason: str) -> None:
        """Owe nothing any more."""
        lane.give_up(reason)
        self._emptied(lane)

    def _emptied(self, lane: Lane) -> None:
        with self._changed:
            lane.work.clear()
            self._changed.notify_all()

    def release(self, sink: str) -> int:
        """Let a sink in quarantine publish what it owes, in order; how many timesteps. Raises NotReadyError."""
        with self._letting_out:
            lane = self._lanes.get(sink)
            if lane is None or not lane.quarantine:
                there = sorted(name for name, each in self._lanes.items() if each.quarantine)
                msg = f"sink {sink!r} is not in quarantine; there are {there}"
                raise NotReadyError(msg)
            self._quarantining.let_out(lane)
            with self._changed:
                lane.done()
                lane.quarantine, lane.last = "", 0
                self._take_up(lane, self._journal.state)
                if lane.thread is not None and not lane.thread.is_alive():
                    lane.thread = None
                    self._run(lane)
                return len(lane.work)

    # How it stands -------------------------------------------------------------------------------------------

    def standing(self) -> dict[str, dict[str, Any]]:
        """How every sink stands: what it owes, failed attempts at the first of that, why it is in quarantine."""
        with self._changed:
            return {lane.name: lane.standing() for lane in self._lanes.values()}

    def check(self) -> None:
        """Raise what a sink raised that ends the job."""
        if self._error is not None:
            raise self._error

    def _all(self) -> list[Lane]:
        return [*self._leaving, *self._lanes.values()]

    def idle(self) -> bool:
        """Whether everything committed is published, but by sinks in quarantine. Raises what a sink raised."""
        with self._changed:
            self.check()
            return not any(lane.work for lane in self._all())

    def has_room(self) -> bool:
        """Whether another timestep may start: no sink has more waiting than the backlog. Raises what a sink raised."""
        with self._changed:
            self.check()
            return all(len(lane.work) <= self._backlog for lane in self._all())

    def oldest(self) -> int | None:
        """The oldest timestep that waits for a sink: its outbox files are still read.

        What sinks in quarantine owe is not among them: the journal names those files.
        """
        with self._changed:
            waiting = (lane.work[0].batch.timestep for lane in self._all() if lane.work)
            return min(waiting, default=None)

    def drain(self) -> None:
        """Wait until everything is published. Raises what a sink raised."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._error is not None or not any(lane.work for lane in self._all())
            )
            self.check()

    def shut(self) -> None:
        """Begin nothing more, and put nothing more in quarantine; returns at once."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def close(self) -> None:
        """End the threads after what they are doing; unpublished timesteps are published at the next start."""
        until = time.monotonic() + CLOSING_SECONDS
        self.shut()
        for lane in self._all():
            if lane.thread is not None:
                lane.thread.join(timeout=max(0.0, until - time.monotonic()))
        for lane in self._all():
            lane.work.clear()
            lane.close()
