"""Publish to sinks: stage before a commit, publish after it, and publish again after a crash if necessary.

A sink directly downstream of sources, without a stage between, is *staged* before the commit: its files are written
under a hidden name, which the commit contains. A sink downstream of a stage needs nothing before the commit: its rows
are in sink-buffer files that the commit names. Both are published after the commit. If the publication is durable, the
journal records it.

Every incarnation of a sink has its own queue (`lane.py`), so that a slow or failing sink delays no other, and no sink
receives what is owed to an earlier one of the same name. `sinks/failure.py` defines what happens to a failing sink.
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
from rechannel.engine.publish.failures import Failures, Gate, nothing
from rechannel.engine.publish.lane import Lane, Work, drop
from rechannel.engine.publish.quarantining import Quarantining
from rechannel.engine.stages.runner import Timestep
from rechannel.engine.stages.sink_rows import (
    Columns,
    Meaning,
    RowsOf,
    Told,
    as_it_is,
    is_plain,
    kept_for,
    nobody,
    unknown,
)
from rechannel.errors import NotReadyError
from rechannel.sinks.batch import Batch
from rechannel.sinks.failure import Verdict
from rechannel.sinks.writer import Rows, SinkWriter, Staged
from rechannel.spare_memory import SpareMemory, of_this_thread
from rechannel.telemetry.troubles import Trouble, unheard
from rechannel.threads import daemon_thread

_LOG = logging.getLogger("rechannel")

CLOSING_SECONDS = 60.0
"""How long all sinks together may take to finish when the job ends."""


class Publisher:
    """Publishes committed timesteps, in order per sink, in one thread per sink or one call at a time."""

    def __init__(  # noqa: PLR0913 - the seams of publishing, each given from outside
        self,
        *,
        sinks: tuple[SinkPlan, ...],
        writers: Mapping[str, SinkWriter],
        rows_of: RowsOf,
        journal: Journal,
        backlog: int,
        tell: Told = nobody,
        wake: Callable[[], None] = nothing,
        trouble: Trouble = unheard,
        stopping: Stopping | None = None,
        meaning: Meaning = as_it_is,
        columns: Columns = unknown,
    ) -> None:
        """Nothing runs yet.

        backlog: timesteps that may wait for a sink before the driver starts no more. tell, wake: called after a
        publication, with it and for the driver, which may wait for room. trouble: receives sinks that fail and are
        retried. stopping: bounds the retries once the job is to end. meaning: translates errors of the engine that runs
        the sinks' jobs. columns: of sink-buffer files of earlier drivers.
        """
        self._columns = columns
        self._tell = tell
        self._trouble = trouble
        self._rows_of = rows_of
        self._journal = journal
        self._backlog = backlog
        self._gate = Gate(wake=wake)
        self._meaning = meaning
        self._quarantining = Quarantining(journal, trouble)
        self._failures = Failures(
            gate=self._gate,
            quarantining=self._quarantining,
            stopping=stopping or Stopping(0.0),
            trouble=trouble,
        )
        self._letting_out = threading.Lock()
        """Held from the check whether a sink is in quarantine until it is released, or what it owes is given up."""
        self._volatile: dict[tuple[int, str], Staged] = {}
        self._error: BaseException | None = None
        self._lanes = {sink.sink.name: self._lane(sink, writers[sink.sink.name]) for sink in sinks}
        self._leaving: list[Lane] = []

    def _lane(self, sink: SinkPlan, writer: SinkWriter) -> Lane:
        who = incarnation(self._journal.state.notes, SINKS, sink.sink.name)
        lane = Lane(sink=sink, writer=writer, who=who, journal=self._journal, meaning=self._meaning)
        # Set before anything is published, so that a sink can be released as soon as the job exists.
        lane.quarantine = self._quarantining.reason(lane)
        return lane

    def start(self) -> None:
        """Publish in one thread per sink from now on."""
        self._gate.threaded = True
        for lane in self._lanes.values():
            self._run(lane)

    def _run(self, lane: Lane) -> None:
        """Start the thread of a lane, unless it has one. A thread that another call has made is running by then."""
        with self._gate.changed:
            if self._gate.threaded and lane.thread is None:
                name = f"rechannel-publish-{lane.name}"
                lane.thread = daemon_thread(partial(self._loop, lane), name)
                lane.thread.start()

    def recover(self, state: JournalState) -> None:
        """Publish what was committed and not published. What no present sink is owed is given up."""
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
        for work in self._works(lane, state):
            self._add(lane, work)

    def _works(self, lane: Lane, state: JournalState) -> list[Work]:
        """Return all that a sink owes. Raises RefusedError for rows that the present program cannot make."""
        return [
            lane.from_journal(self._rows_of, self._columns, timestep, what)
            for timestep, what in owed(state, lane.name, lane.who).items()
        ]

    # Around a commit -----------------------------------------------------------------------------------------

    def stage(self, timestep: Timestep, kept: Mapping[str, list[str]]) -> dict[str, Any]:
        """Stage a timestep. Returns, by sink, what the commit must contain for durable publication."""
        out: dict[str, Any] = {}
        for name, lane in self._lanes.items():
            batch = lane.batch(timestep.number)
            named = {"incarnation": batch.incarnation, "digest": batch.digest}
            if lane.sink.direct:
                self._await_turn(lane)
                rows = partial(self._rows_of, lane.sink, timestep, kept)
                result = self._staged(lane, rows, batch)
                if lane.writer.durable:
                    out[name] = {"staged": result, **named}
                else:
                    self._volatile[timestep.number, name] = result
            elif lane.writer.durable:
                made = {} if is_plain(lane.sink.frame) else {"derived": True}
                out[name] = {"outbox": kept_for(lane.sink.frame, kept), **made, **named}
        return out

    def _await_turn(self, lane: Lane) -> None:
        """Wait until earlier sinks of its name owe nothing: a producer of Kafka takes over with its first record."""
        if not self._gate.threaded:
            while self._is_behind(lane):
                self.publish_next()
            return
        with self._gate.changed:
            self._gate.changed.wait_for(
                lambda: self._gate.closed or self._error is not None or not self._is_behind(lane)
            )
            if self._error is not None and self._is_behind(lane):
                raise self._error

    def _staged(self, lane: Lane, rows: Callable[[], Rows], batch: Batch) -> Staged:
        """Stage before the commit, which waits. If the user limits attempts, the last failure ends the job."""
        failures = 0
        while True:
            try:
                return lane.writer.stage(rows(), batch)
            except BaseException as raised:
                failures, error = failures + 1, lane.meant(raised, batch)
                verdict = lane.policy.verdict(failures, error)
                if verdict is Verdict.RETRY and self._failures.waited(lane, failures, error):
                    continue
                if verdict is not Verdict.RETRY and lane.policy.attempts is not None:
                    self._error = self._error or error
                raise error  # noqa: B904 - it names its cause

    def publish(
        self, timestep: Timestep, kept: Mapping[str, list[str]], staged: Mapping[str, Any]
    ) -> None:
        """Queue a committed timestep."""
        for name, lane in self._lanes.items():
            held = self._volatile.pop((timestep.number, name), None)
            what = staged.get(name)
            self._add(lane, lane.committed(self._rows_of, timestep.number, kept, what, held))

    def switch_to(self, sinks: tuple[SinkPlan, ...], writers: Mapping[str, SinkWriter]) -> None:
        """Switch to other sinks. A sink that is gone still publishes what waits for it, and is closed then."""
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
            with self._gate.changed:
                gone = [lane for name, lane in self._lanes.items() if lanes.get(name) is not lane]
                for lane in gone:
                    lane.leaving = True
                self._leaving += gone
                self._lanes = lanes
                self._gate.changed.notify_all()
            for lane in gone:
                if lane.quarantine:
                    self._failures.give_up(
                        lane, f"the sink was removed in quarantine ({lane.quarantine})"
                    )
                    self._quarantining.let_out(lane)
        self._dismiss()

    def _dismiss(self) -> None:
        """Close the writers of sinks that are gone and have published everything."""
        with self._gate.changed:
            done = [lane for lane in self._leaving if not lane.work]
            self._leaving = [lane for lane in self._leaving if lane.work]
        for lane in done:
            lane.close()

    def _add(self, lane: Lane, work: Work) -> None:
        with self._gate.changed:
            lane.add(work)
            self._gate.changed.notify_all()

    # One timestep of one sink --------------------------------------------------------------------------------

    def _loop(self, lane: Lane) -> None:
        spare = SpareMemory(of_this_thread)
        while True:
            with self._gate.changed:
                self._gate.changed.wait_for(lambda: self._gate.closed or self._may_go_on(lane))
                if not lane.work or self._gate.closed:
                    return
            try:
                self._turn(lane)
            except BaseException as error:
                with self._gate.changed:
                    self._error = self._error or error
                    self._gate.changed.notify_all()
                return
            spare.give_back()

    def _may_go_on(self, lane: Lane) -> bool:
        """Whether a lane has its turn, or nothing more to do."""
        return not self._is_behind(lane) if lane.work else lane.leaving

    def _is_behind(self, lane: Lane) -> bool:
        """Whether an earlier sink of the same name still owes timesteps.

        Its place knows the two by this name: a later timestep there would count for those that are owed.
        """
        for each in self._leaving:
            if each is lane:
                return False
            if each.name == lane.name and each.work:
                return True
        return False

    def turns(self) -> dict[str, Callable[[], None]]:
        """Return the possible next steps, one per sink with a waiting timestep, in any order."""
        return {lane.key: partial(self._turn, lane) for lane in self._waiting()}

    def _waiting(self) -> list[Lane]:
        with self._gate.changed:
            return [lane for lane in self._all() if lane.work and not self._is_behind(lane)]

    def publish_next(self) -> bool:
        """Publish the oldest waiting timestep to one sink. Returns False if none waits; raises what the sink raises."""
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
            self._failures.meet(lane, work, error)
        else:
            if lane.failures:
                self._trouble(f"sink {lane.name}", None)
            with self._gate.changed:
                lane.done()
                self._gate.changed.notify_all()
                self._tell(work.batch.timestep, lane.name, duration_ms=took, again=work.again)
            self._gate.wake()
        if lane.leaving:
            self._dismiss()

    def release(self, sink: str) -> int:
        """Let a sink in quarantine publish what it owes, in order.

        Returns the number of timesteps. Raises NotReadyError if the sink is not in quarantine, RefusedError if the
        present program cannot make the rows that it owes.
        """
        with self._letting_out:
            lane = self._lanes.get(sink)
            if lane is None or not lane.quarantine:
                there = sorted(name for name, each in self._lanes.items() if each.quarantine)
                msg = f"sink {sink!r} is not in quarantine; sinks in quarantine: {there}"
                raise NotReadyError(msg)
            # What it owes may need the program of then: that is refused before anything is released.
            self._works(lane, self._journal.state)
            self._quarantining.let_out(lane)
            with self._gate.changed:
                lane.done()
                lane.quarantine, lane.last = "", 0
                self._take_up(lane, self._journal.state)
                if lane.thread is not None and not lane.thread.is_alive():
                    lane.thread = None
                    self._run(lane)
                return len(lane.work)

    # How it stands -------------------------------------------------------------------------------------------

    def standing(self) -> dict[str, dict[str, Any]]:
        """Return the state of each sink: what it owes, failed attempts, why it is in quarantine."""
        with self._gate.changed:
            return {lane.name: lane.standing() for lane in self._lanes.values()}

    def check(self) -> None:
        """Raise the error of a sink that ends the job."""
        if self._error is not None:
            raise self._error

    def _all(self) -> list[Lane]:
        return [*self._leaving, *self._lanes.values()]

    def idle(self) -> bool:
        """Return whether all sinks outside of quarantine have published everything. Raises as `check` does."""
        with self._gate.changed:
            self.check()
            return not any(lane.work for lane in self._all())

    def has_room(self) -> bool:
        """Return whether another timestep may start: no sink exceeds the backlog. Raises as `check` does."""
        with self._gate.changed:
            self.check()
            return all(len(lane.work) <= self._backlog for lane in self._all())

    def oldest(self) -> int | None:
        """Return the oldest timestep that waits for a sink and whose sink-buffer files are still needed.

        What sinks in quarantine owe does not count: the journal keeps those files.
        """
        with self._gate.changed:
            waiting = (lane.work[0].batch.timestep for lane in self._all() if lane.work)
            return min(waiting, default=None)

    def drain(self) -> None:
        """Wait until everything is published. Raises as `check` does."""
        with self._gate.changed:
            self._gate.changed.wait_for(
                lambda: self._error is not None or not any(lane.work for lane in self._all())
            )
            self.check()

    def shut(self) -> None:
        """Start no further attempt and no further quarantine. Returns at once."""
        with self._gate.changed:
            self._gate.closed = True
            self._gate.changed.notify_all()

    def close(self) -> None:
        """End the threads after their current attempt. The next start publishes what is left."""
        until = time.monotonic() + CLOSING_SECONDS
        self.shut()
        for lane in self._all():
            if lane.thread is not None:
                lane.thread.join(timeout=max(0.0, until - time.monotonic()))
        for lane in self._all():
            lane.work.clear()
            lane.close()
