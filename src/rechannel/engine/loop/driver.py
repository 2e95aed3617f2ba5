"""The timestep loop: decide, run, commit, publish. Everything it decides is in the journal before it happens.

    sources --> intent --> units, as the schedule allows --> commit --> publish --> published
               journalled                                  journalled               journalled

One thread runs the loop and is the only one that writes to the journal's order of timesteps; units run in a pool; sinks
publish in a thread of their own, so that a slow one delays no timestep until the backlog is full.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Any

from rechannel.engine.failures.closing import GONE_SECONDS, SECONDS, Step, close_all, reason_of
from rechannel.engine.failures.stopping import Stopping
from rechannel.engine.journal.entries import Closed, ConfigurationChanged, Note
from rechannel.engine.journal.incarnations import NOTE as INCARNATIONS
from rechannel.engine.journal.incarnations import OPERATORS, counted, ids, members_of
from rechannel.engine.journal.log import Journal
from rechannel.engine.loop.draining import Draining
from rechannel.engine.loop.in_flight import CameBack, Failed, InFlight, InFlights, kept_of
from rechannel.engine.loop.intents import committed_of, decided_of, intent_of, reads_mine
from rechannel.engine.loop.listener import Listener
from rechannel.engine.loop.retrying import Retrying
from rechannel.engine.loop.source_tracker import SourceTracker
from rechannel.engine.loop.stream_time import StreamTime
from rechannel.engine.program.early import early_note
from rechannel.engine.program.opening import reconciled
from rechannel.engine.program.physical import PhysicalPlan, SourceFrame
from rechannel.engine.program.position import StreamPosition
from rechannel.engine.program.steps import resolve_combine
from rechannel.engine.program.versions import NOTE, noted
from rechannel.engine.publish.publisher import Publisher
from rechannel.engine.reconfigure.history import History
from rechannel.engine.reconfigure.measured import Measured
from rechannel.engine.reconfigure.preparer import Preparer
from rechannel.engine.reconfigure.reconfigurer import Reconfigurer, abilities
from rechannel.engine.reconfigure.switch import ProgramSwitch
from rechannel.engine.stages.runner import Runner, Timestep
from rechannel.kernels.tasks.report import TaskReport
from rechannel.model.configuration import Configuration
from rechannel.reconfigure.coordinator import Decision
from rechannel.reconfigure.facts import Limits
from rechannel.settings import Settings
from rechannel.sources.reader import explained
from rechannel.telemetry.ranges import range_of
from rechannel.telemetry.troubles import Trouble, unheard


class Driver:
    """Runs one dataflow on one state directory. `run` is the body of its thread."""

    _plan: PhysicalPlan
    _fronts: frozenset[str]

    def __init__(  # noqa: PLR0913 - the seams of the loop, each given from outside
        self,
        *,
        exchange: ProgramSwitch,
        journal: Journal,
        runner: Runner,
        publisher: Publisher,
        configuration: Configuration,
        settings: Settings,
        clock: Callable[[], float],
        steady: Callable[[], float] | None = None,
        waits: Callable[[], float] | None = None,
        trouble: Trouble = unheard,
        listener: Listener,
        housekeep: Callable[[Callable[[], int | None]], None],
        executor: Executor | None = None,
        measured: Measured,
        history: History,
        preparer: Preparer | None = None,
        limits: Limits | None = None,
        stopping: Stopping | None = None,
    ) -> None:
        """Take the parts; nothing runs yet.

        clock: Unix milliseconds. steady: milliseconds that pass, whatever is done to the clock; None = the clock.
        waits: by which what has failed waits for its next try, milliseconds too; None = as steady.
        trouble: told when the clock cannot be believed. housekeep: called after every commit with what tells the oldest
        timestep that sinks have still to read. executor: runs units and preparations; None = this
        thread and pools of its own, so that they overlap where they can. preparer: does what can be
        done ahead of a reconfiguration. limits: of the cluster. stopping: what all who try again look at.
        """
        self._journal = journal
        self._runner = runner
        self._publisher = publisher
        self._settings = settings
        self._clock = clock
        self._tell = listener
        self._housekeep = housekeep
        state = journal.state
        self._configuration = self._first = configuration
        self._replay: deque[Timestep] = deque()
        self._last = state.last_intended or 0
        open_intents = state.open_intents
        last_now = open_intents[-1].now_ms if open_intents else state.now_ms
        readers, offsets = exchange.current.readers, state.offsets
        time = StreamTime(
            now_ms=last_now, jump_ms=settings.clock_jump_ms, downtime_ms=settings.downtime_ms
        )
        self._intake = SourceTracker(
            readers, offsets, time, clock, settings.timestep_bytes, steady=steady, trouble=trouble
        )
        self._seen_all = False
        self._moving = False
        self._exchange = exchange
        self._events: queue.Queue[CameBack | BaseException | None] = queue.Queue()
        self._flights = InFlights(
            runner=runner,
            policy=settings.merging,
            memory=settings.task_bytes,
            executor=executor,
            came_back=self._events.put,
        )
        self._follow(exchange.current.plan)
        self._stopping = stopping or Stopping(settings.patience.stop_seconds)
        self.retrying = Retrying(
            settings.patience,
            flights=self._flights,
            runner=runner,
            tell=listener,
            steady=waits or steady or clock,
        )
        self._draining = Draining(wake=lambda: self._events.put(None))
        self.measured = measured
        self._history = history
        self.changes = Reconfigurer(
            journal=journal,
            measured=self.measured,
            preparer=preparer,
            limits=limits,
            wake=lambda: self._events.put(None),
            executor=executor,
            tell=history.over,
        )
        self.changes.know(*abilities(exchange.current.plan, exchange.current.readers))
        self.finished = threading.Event()
        self.error: BaseException | None = None

    # What other threads may call -----------------------------------------------------------------------------

    def stop(self) -> None:
        """Finish the timesteps under way, publish them, and end; what fails has few tries left."""
        self._stopping.ask()
        self._events.put(None)

    def drain(self, timeout: float | None = None) -> bool:
        """Wait until everything that sources had when this was called is committed and published. False on time-out.

        What then moves without a timestep is waited for as well.
        """
        return self._draining.wait(self.finished.is_set, timeout)

    @property
    def configuration(self) -> Configuration:
        """What the next timestep runs under."""
        return self._configuration

    def place(self) -> StreamPosition:
        """Where the stream stands. For the driver's own thread, or a look."""
        return StreamPosition(
            timestep=self._last + 1,
            time_ms=self._intake.now_ms(),
            configuration=self._configuration,
            drained=not self._flights and not self._replay,
            event_times=self._flights.event_times,
        )

    # The loop ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until stopped or failed; `error` then says why."""
        try:
            self._publisher.start()
            self.recover()
            while not (self._stopping.asked and not self._flights):
                self._turn()
            self._publisher.drain()
            self._history.finish()
            self._journal.append(Closed(time_ms=int(self._clock())))
        except BaseException as error:
            self._stopping.ask()  # what is asked of the store from here on must not take its patience again
            known = explained(error, self._intake.readers.values())
            reason = known or reason_of(error, self._journal.fenced, self._runner.gone)
            self.error = self.error or reason
        finally:
            self._close()

    def fail(self, error: BaseException) -> None:
        """End with this error, as soon as the loop looks. Any thread may call it."""
        self._events.put(error)

    def abandon(self, error: BaseException) -> None:
        """Tell everybody that it is over, whatever the driver's own thread hangs in. Any thread may call it."""
        self.error = self.error or error
        self._publisher.shut()
        self._say_finished()

    def gone(self) -> str | None:
        """Why nothing can run any more, in a sentence; None while it can. Any thread may ask."""
        return self._runner.gone()

    def _close(self) -> None:
        error = self.error
        steps: list[Step] = []
        if error is not None:
            steps += [
                ("the timesteps under way", lambda: self._tell_failed(error)),
                ("Spark's jobs", self._runner.cancel),
            ]
        steps += [
            ("the units under way", self._flights.shut_down),
            ("the sinks", self._publisher.close),
            ("the runner", self._runner.close),
            ("the sources", self._intake.close),
        ]
        try:
            gone = error is not None and self._runner.gone() is not None
            close_all(steps, GONE_SECONDS if gone else SECONDS)
        finally:
            self._say_finished()

    def _tell_failed(self, error: BaseException) -> None:
        for number in self._flights.numbers:
            self._tell.failed(number, error)

    def _say_finished(self) -> None:
        self.finished.set()
        close_all([("what was asked for", self.changes.close)], GONE_SECONDS)
        self._draining.over()

    def recover(self) -> None:
        """Take up what an earlier driver left: intents without commit, commits without publication."""
        state = self._journal.state
        for intent in state.open_intents:
            configuration = self._known(state.configuration_at(intent.timestep))
            mine = partial(reads_mine, intent, state.notes)
            again = self._intake.again(decided_of(intent, configuration), mine)
            self._replay.append(again)
            self._intake.pass_over(again)
        if state.configurations:
            self._configuration = self._known(state.configuration_at(self._last + 1))
        self._history.repair(state.coordination.records)
        self._configuration = self.changes.resume(self.place())
        self._publisher.recover(state)
        self._tell_early()

    def _known(self, configuration: Configuration) -> Configuration:
        """A journalled Configuration under a program text that may have other stages without state."""
        return reconciled(configuration, self._first)

    def step(self) -> bool:
        """Take what came back, open and start what may be, commit what is done; False if there was nothing.

        It never waits. `run` is this in a loop with waiting in between; a test kit calls `recover`
        once and then this, with an `executor` that it drives itself.
        """
        came = self._take_all()
        came = self._take_back() or came
        changed = self.changes.turn(self.place(), lambda: self._flights.manifests)
        opened = self._open_timesteps()
        started = self._start_units()
        committed = self._commit_ready()
        return came or changed or opened or started or committed or self._moving

    def _turn(self) -> None:
        asked = self._draining.asked
        # A stream that is idle while something moves looks at its sources as often as any other idle one.
        if self.step() and not self._moving:
            return
        if self._flights:
            self._take(self._events.get())
            return
        quiet = self._seen_all and not self._moving and not self.changes.fetching
        if quiet and not self._replay and self._publisher.idle():
            self._draining.answer(asked)
        self._wait()

    def _wait(self) -> None:
        # Sources that take long to ask (a directory of many files) are not asked all the time.
        pause = self._intake.pause(self._configuration, self._settings.poll_ms)
        with contextlib.suppress(queue.Empty):
            self._take(self._events.get(timeout=pause / 1e3))

    def _take_all(self) -> bool:
        came = False
        while True:
            try:
                event = self._events.get_nowait()
            except queue.Empty:
                return came
            came = came or event is not None
            self._take(event)

    def _take(self, event: CameBack | BaseException | None) -> None:
        if isinstance(event, BaseException):
            raise event
        if event is None:
            return
        if self._flights.halted:
            self._flights.came(event.unit)
        elif isinstance(event, Failed):
            self._flights.came(event.unit)
            self.retrying.failed(event.unit[1], event.error)
        else:
            for operator in self._flights.take(event):
                self._tell.operator(event.unit[1], operator, self._clock())

    def _take_back(self) -> bool:
        """Have what was under way run again where one of it failed; whether it is time for that."""
        back = self.retrying.taken_back()
        if back:
            self._replay.extendleft(reversed(back))
            self._follow(self._plan)
        return bool(back)

    # Deciding ------------------------------------------------------------------------------------------------

    def _open_timesteps(self) -> bool:
        opened = self._seen_all = self._moving = False
        if self.retrying.holds():
            return False
        while len(self._flights) < self._configuration.in_flight and self._publisher.has_room():
            began = self._clock()
            decided = self._replay.popleft() if self._replay else self._decide(began)
            if decided is None:
                break
            self._flights.open(
                InFlight(
                    decided=decided,
                    began_ms=began,
                    decided_ms=self._clock(),
                    moved=self.changes.coordination.moved_at(decided.number),
                    rewrite=self.changes.rewrite(decided.number),
                )
            )
            self._tell.started(
                decided.number,
                now_ms=decided.now_ms,
                at_ms=began,
                offsets={n: range_of(part.start, part.end) for n, part in decided.slices.items()},
                configuration=decided.configuration.version,
            )
            opened = True
        return opened

    def _decide(self, now: float) -> Timestep | None:
        """Close the next timestep's source ranges and journal the intent; None when there is nothing to do."""
        if self._stopping.asked:
            return None
        place = self.place()
        decision = self.changes.decide(place)
        if decision.hold:
            return None
        if decision.configuration.dataflow != self._configuration.dataflow:
            looked = self.retrying.look(
                "a change of the program", lambda: self._last_look(decision, place)
            )
            if looked is None:
                return None
            against, record = looked
            if self.changes.may_exchange(place, against):
                self._exchange_program(decision, place, record)
            return self._decide(now)
        # The interval is the one that the timestep itself would have: a change that shortens it takes effect at once.
        if not self._intake.may_begin(now, decision.configuration.interval_ms):
            if place.drained and self._intake.rested(now):
                self._configuration, _ = self.changes.idle(place)
            return None
        configuration = decision.configuration
        seen = self.retrying.look(
            "reading the sources", lambda: (self._intake.look(place.time_ms, configuration),)
        )
        if seen is None:
            return None
        (slices,) = seen
        if slices is None and place.drained and self._flights.due(place.time_ms):
            slices = self._intake.nothing()
        if slices is None:
            self._seen_all = True
            if place.drained:
                self._configuration, self._moving = self.changes.idle(place)
            return None
        self.changes.journal(decision)
        decided = Timestep(
            number=place.timestep,
            now_ms=place.time_ms,
            configuration=decision.configuration,
            slices=slices,
        )
        known = self._journal.state.configurations
        notes = self._journal.state.notes
        self._journal.append(intent_of(decided, decision.steps, known, notes))
        self._configuration = decision.configuration
        self._last = decided.number
        self._intake.take(decided, now)
        return decided

    def _last_look(
        self, decision: Decision, place: StreamPosition
    ) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        """What speaks against another version of the dataflow here, and what the journal keeps of it otherwise."""
        against = self.changes.against(decision, place, self._flights.manifests)
        version = decision.configuration.dataflow
        return against, {} if against else self._exchange.record(version, place.time_ms)

    def _exchange_program(
        self, decision: Decision, place: StreamPosition, record: Mapping[str, Any]
    ) -> None:
        """Another version of the dataflow begins with the next timestep. Nothing is under way."""
        version = decision.configuration.dataflow
        self.changes.journal(decision)
        known = self._journal.state.notes.get(NOTE) or {}
        counted = self._counted(version, place)
        note = noted(known, version, {**record, "incarnations": ids(counted, OPERATORS)})
        self._journal.append(Note(kind=NOTE, body=note))
        self._journal.append(
            ConfigurationChanged(
                from_timestep=place.timestep,
                configuration=decision.configuration,
                cause=decision.steps[-1].id,
                steps=decision.steps,
                edits=self._exchange.loaded(version),
                notes={INCARNATIONS: counted},
            )
        )
        ready = self._exchange.begin(version)
        self._configuration = decision.configuration
        self._intake.exchange(ready.readers, self._journal.state.offsets)
        self._follow(ready.plan)
        self._tell_early()
        self.changes.know(*abilities(ready.plan, ready.readers))

    def _tell_early(self) -> None:
        """Let the journal know, before it runs, which sinks of a program show timesteps that are not committed."""
        note = early_note(self._journal.state, self._exchange.current.plan.sinks)
        if note is not None:
            self._journal.append(note)

    def _counted(self, version: int, place: StreamPosition) -> dict[str, Any]:
        """Who bears which name from the border on: in the same entry as the version."""
        known = self._journal.state.notes.get(INCARNATIONS)
        return counted(known, members_of(self._exchange.dataflow(version)), place.timestep)

    def _follow(self, plan: PhysicalPlan) -> None:
        self._plan = plan
        state = self._journal.state
        self._flights.follow(plan, state.manifests, state.times)
        self._fronts = frozenset(
            stage.name for stage in plan.stages if isinstance(stage.frame, SourceFrame)
        )

    def _start_units(self) -> bool:
        started = self._flights.start_ready()
        if not isinstance(started, bool):
            self._take(started)
        return bool(started)

    # Committing ----------------------------------------------------------------------------------------------

    def _commit_ready(self) -> bool:
        flight = self._flights.committable()
        if flight is None:
            return False
        decided = flight.decided
        number = decided.number
        kept = kept_of(flight.reports)
        ran_ms = self._clock()
        self._publisher.check()
        try:
            staged = self._publisher.stage(decided, kept)
        except Exception as error:
            self._publisher.check()  # it may be the last of the attempts that its user counts
            self.retrying.failed(number, error)
            return True
        self._journal.append(committed_of(flight, kept, staged))
        committed_ms = self._clock()
        self._flights.close(number)
        self.retrying.committed()
        self._publisher.publish(decided, kept, staged)
        self._runner.release(number)
        self._intake.committed(decided)
        self._follow_reduction(flight.reports)
        self.measured.committed(
            number,
            flight.reports,
            decided.configuration,
            committed_ms - flight.began_ms,
            flight.moved,
        )
        self.changes.settle(number, int(committed_ms))
        self._history.committed(number)
        self._tell.committed(
            number,
            reports=flight.reports,
            began_ms=flight.began_ms,
            at_ms=committed_ms,
            phases={
                "plan": flight.decided_ms - flight.began_ms,
                "run": ran_ms - flight.decided_ms,
                "commit": committed_ms - ran_ms,
                "release": self._clock() - committed_ms,
            },
            state=self._flights.sizes(),
            sources=self._fronts,
        )
        self._housekeep(self._publisher.oldest)
        return True

    def _follow_reduction(self, reports: list[TaskReport]) -> None:
        resolved = resolve_combine(self._plan, self._configuration, reports)
        if resolved is not self._configuration:
            version = self._configuration.version + 1
            self._configuration = replace(resolved, version=version)
