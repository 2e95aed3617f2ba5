"""The coordinator's hands: asks it at every border, journals what it says, and has things prepared.

All of it runs in the driver's thread but for `ask` and `abort`, which other threads call, and the preparation, which
runs in a thread of its own and comes back as an event.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol

from rechannel.engine.ahead import AGAIN
from rechannel.engine.calls import Calls
from rechannel.engine.entries import ConfigurationChanged, Reconfiguring
from rechannel.engine.journal import Journal
from rechannel.engine.measured import Measured
from rechannel.engine.physical import PhysicalPlan
from rechannel.engine.place import Place
from rechannel.engine.steps import can_combine
from rechannel.engine.takeover import Successor, take_over
from rechannel.model.configuration import Configuration
from rechannel.model.hashspace import Intervals
from rechannel.reconfigure.changes import SetExecutors, parts_of
from rechannel.reconfigure.coordination import Coordination, Now
from rechannel.reconfigure.coordinator import (
    Decision,
    beginning,
    border,
    may_plan,
    resume,
    settled,
    soon,
    wants_preparing,
)
from rechannel.reconfigure.events import Event, Finished, Prepared, Requested
from rechannel.reconfigure.record import Phase, Record
from rechannel.reconfigure.requests import Request, abort, accept
from rechannel.reconfigure.resolve import Facts, Limits, NoLimits
from rechannel.reconfigure.steps import Sizes
from rechannel.sources.reader import SourceReader
from rechannel.state.manifest import Manifest


class Preparer(Successor, Protocol):
    """Does what can be done ahead of the border. Called in a thread of its own."""

    def prepare(
        self, record: Record, now: Now, manifests: Mapping[str, Manifest]
    ) -> dict[str, Any]:
        """Facts about what was done. Raises RechannelError where the change turns out to be impossible.

        manifests: those of the moment at which each is looked up.
        """

    def ahead(self, record: Record, now: Now, manifests: Mapping[str, Manifest]) -> None:
        """Do what can be done ahead of the next steps of a record that is under way, or begins soon.

        Called in a thread of its own.
        """

    def facts(self, record: Record) -> Mapping[str, Any]:
        """What was done ahead of a record in all, where that is more than `prepare` said; asked for at its end."""

    def impossible(self, record: Record) -> str | None:
        """Why this driver cannot make a change that has not begun, or None."""

    def finished(self, record: Record) -> None:
        """A record is over: free what was prepared, let go what is not needed any more."""

    def places(self) -> Mapping[str, Mapping[int, str]]:
        """By operator, the executor of every task that is placed."""


class Latest(Mapping[str, Manifest]):
    """Manifests as they are whenever one is asked for: a preparation takes a while, and timesteps go on."""

    def __init__(self, manifests: Callable[[], Mapping[str, Manifest]]) -> None:
        """manifests: of all operators, as of now; called from the preparation's thread."""
        self._manifests = manifests

    def __getitem__(self, operator: str) -> Manifest:
        """Of one operator. Raises KeyError."""
        return self._manifests()[operator]

    def __iter__(self) -> Iterator[str]:
        """Names of operators."""
        return iter(tuple(self._manifests()))

    def __len__(self) -> int:
        """How many operators there are."""
        return len(self._manifests())


class NothingToPrepare:
    """For engines in which a change costs nothing ahead."""

    application = ""

    def recovered(self, executors: int) -> None:
        """There are none to ask for."""

    def prepare(
        self, record: Record, now: Now, manifests: Mapping[str, Manifest]
    ) -> dict[str, Any]:
        """Nothing is done."""
        del record, now, manifests
        return {}

    def ahead(self, record: Record, now: Now, manifests: Mapping[str, Manifest]) -> None:
        """Nothing is done."""

    def facts(self, record: Record) -> Mapping[str, Any]:
        """There is nothing to tell."""
        del record
        return {}

    def impossible(self, record: Record) -> str | None:
        """Everything can be taken up but what only the driver before had in its memory."""
        del record
        return None

    def finished(self, record: Record) -> None:
        """Nothing is held."""

    def places(self) -> Mapping[str, Mapping[int, str]]:
        """Tasks are wherever they are."""
        return {}


def abilities(
    plan: PhysicalPlan, readers: Mapping[str, SourceReader]
) -> tuple[frozenset[str], frozenset[str]]:
    """Operators that can pre-aggregate, and sources whose timesteps can be bounded."""
    combinable = frozenset(s.name for s in plan.stateful if can_combine(plan, s.name))
    return combinable, frozenset(n for n, r in readers.items() if getattr(r, "boundable", True))


def _aborted(record: Record) -> Record:
    """A record that nobody remembers: it is over, and nothing came of it."""
    return replace(record, phase=Phase.ABORTED)


Told = Callable[[Record], None]


class Reconfigurer:
    """Reconfigurations of one running driver."""

    def __init__(
        self,
        *,
        journal: Journal,
        measured: Measured,
        preparer: Preparer | None = None,
        limits: Limits | None = None,
        wake: Callable[[], None] = lambda: None,
        executor: Executor | None = None,
        tell: Told = lambda _: None,
    ) -> None:
        """Take the parts.

        wake: makes the driver's thread look here. executor: runs preparations; None = a thread of its own.
        tell: told of every record that is over.
        """
        self._journal = journal
        self._measured = measured
        self._preparer = preparer or NothingToPrepare()
        self._combinable: frozenset[str] = frozenset()
        self._sources: frozenset[str] = frozenset()
        self._limits = limits or NoLimits()
        self._wake = wake
        self._executor = executor
        self._own: ThreadPoolExecutor | None = None
        self._calls = Calls(wake)
        self._ready: SimpleQueue[Event] = SimpleQueue()
        self._preparing: dict[str, Record] = {}
        self._ahead: dict[str, tuple[int, Future[None]]] = {}
        self._again: dict[str, tuple[int, Future[None] | None]] = {}
        self._turns: dict[str, int] = {}
        self._tell = tell
        self._over = threading.Condition()

    # What other threads may call -----------------------------------------------------------------

    @property
    def coordination(self) -> Coordination:
        """All reconfigurations."""
        return self._journal.state.coordination

    def ask(self, request: Request, place: Callable[[], Place]) -> Future[str]:
        """Hand a request to the driver's thread; the future is its id, or why it was refused."""
        return self._calls.submit(lambda: self._judge(request, place()))

    def cancel(self, id_: str, reason: str, place: Callable[[], Place]) -> Future[None]:
        """Hand an abort to the driver's thread."""
        return self._calls.submit(lambda: self._judge_abort(id_, reason, place()))

    def look(self, place: Callable[[], Place]) -> Future[Now]:
        """What a request would be judged by, as the driver's thread sees it."""

        def judge() -> Callable[[], Now]:
            now = self.now(place())
            return lambda: now

        return self._calls.submit(judge)

    def wait(self, id_: str, timeout: float | None, given_up: Callable[[], bool]) -> Record:
        """The record once it is over, or as it is after `timeout` seconds or when the driver has ended."""

        def over() -> bool:
            return given_up() or not self.coordination.find(id_).open

        with self._over:
            self._over.wait_for(over, timeout)
        return self.coordination.find(id_)

    def wake_waiters(self) -> None:
        """Those who wait look again: something is over, or the driver is."""
        with self._over:
            self._over.notify_all()

    # The driver's thread -------------------------------------------------------------------------

    def know(self, combinable: frozenset[str], sources: frozenset[str]) -> None:
        """Operators that can pre-aggregate, and sources that can be bounded, of the version that runs."""
        self._combinable, self._sources = combinable, sources

    def now(self, place: Place, *, measured: bool = True) -> Now:
        """What the coordinator is told. measured: with loads and sizes, whose cost follows the number of bins."""
        configuration = place.configuration
        return Now(
            timestep=place.timestep,
            time_ms=place.time_ms,
            configuration=configuration,
            event_times=place.event_times,
            drained=place.drained,
            turns=dict(self._turns),
            facts=Facts(
                loads=self._measured.loads(configuration) if measured else {},
                combinable=self._combinable,
                sources=self._sources,
                limits=self._limits,
                places=self._preparer.places() if measured else {},
            ),
            sizes=self._measured.sizes(configuration) if measured else Sizes(),
            budget=self._measured.budget,
        )

    def accept(self, request: Request, place: Place) -> str:
        """Accept a request and journal it. Raises RefusedError, UnknownOperatorError: nothing has happened."""
        return self._judge(request, place)()

    def _judge(self, request: Request, place: Place) -> Callable[[], str]:
        event = accept(self.coordination, request, self.now(place))
        self.coordination.after(event)  # what cannot be told is refused before it is in the journal
        return partial(self._accepted, event)

    def _accepted(self, event: Requested) -> str:
        self._append(event)
        for id_ in event.supersedes:
            self._ended(id_, self._let_go(id_))
        return event.id

    def abort(self, id_: str, reason: str, place: Place) -> None:
        """End a reconfiguration, or lead it back. Raises RefusedError."""
        self._judge_abort(id_, reason, place)()

    def _judge_abort(self, id_: str, reason: str, place: Place) -> Callable[[], None]:
        return partial(self._append_all, abort(self.coordination, id_, self.now(place), reason))

    def resume(self, place: Place) -> Configuration:
        """Take up what the driver before left open; the Configuration from here on."""
        place = replace(place, configuration=take_over(self._journal, self._preparer, place))
        if self.coordination.open:
            self._append_all(resume(self.coordination, self.now(place), self._preparer.impossible))
        return place.configuration

    def turn(self, place: Place, manifests: Callable[[], Mapping[str, Manifest]]) -> bool:
        """Answer calls, take what is prepared, have the next things prepared; whether anything happened."""
        happened = self._calls.answer()
        while not self._ready.empty():
            event = self._ready.get()
            record = self._preparing.pop(event.id)
            found = [r for r in self.coordination.records if r.id == event.id]
            if found and found[0].phase is Phase.WAITING:
                # It was prepared while timesteps went on: what counts is now.
                self._append(event.model_copy(update={"time_ms": place.time_ms}))
                self._again[event.id] = place.timestep, None
                happened = True
            elif not found or not found[0].open:
                # Over before it was prepared: let go what the preparation got after that.
                gone = found[0] if found else _aborted(record)
                self._preparer.facts(gone)
                self._preparer.finished(gone)
        for record in wants_preparing(self.coordination):
            if record.id not in self._preparing:
                self._preparing[record.id] = record
                self._prepare(record, place, Latest(manifests))
                happened = True
        for record in self.coordination.open:
            if record.under_way and record.left and record.strategy.prepare:
                self._go_ahead(record, place, Latest(manifests))
        self._once_more(place, Latest(manifests))
        return happened

    def _once_more(self, place: Place, manifests: Mapping[str, Manifest]) -> None:
        """What was fetched for changes that wait may be merged meanwhile: once more, shortly before they begin."""
        if all(record.phase is not Phase.READY for record in self.coordination.open):
            return
        state = self.coordination
        for record in soon(state, self.now(place, measured=False)):
            since, busy = self._again.get(record.id, (place.timestep, None))
            if place.timestep < since + AGAIN or (busy is not None and not busy.done()):
                continue
            now = beginning(state, record, self.now(place))
            pool = self._executor if self._executor is not None else self._threads()
            future = pool.submit(self._preparer.ahead, record, now, manifests)
            self._again[record.id] = place.timestep, future

    def _go_ahead(self, record: Record, place: Place, manifests: Mapping[str, Manifest]) -> None:
        """Have the next steps prepared, now and then, one thing at a time; nobody waits for it."""
        since, busy = self._ahead.get(record.id, (0, None))
        if (busy is not None and not busy.done()) or len(record.taken) < since + AGAIN:
            return
        now = self.now(place, measured=False)
        pool = self._executor if self._executor is not None else self._threads()
        future = pool.submit(self._preparer.ahead, record, now, manifests)
        self._ahead[record.id] = (len(record.taken), future)

    def _prepare(self, record: Record, place: Place, manifests: Mapping[str, Manifest]) -> None:
        asks = any(isinstance(part, SetExecutors) for part in parts_of(record.change))
        if not record.strategy.prepare and not asks:  # executors come only if they are asked for
            self._ready.put(Prepared(id=record.id, time_ms=place.time_ms, facts={"skipped": True}))
            return
        now = self.now(place)
        pool = self._executor if self._executor is not None else self._threads()
        future = pool.submit(self._preparer.prepare, record, now, manifests)
        future.add_done_callback(lambda done: self._prepared(record, place.time_ms, done))

    def _threads(self) -> Executor:
        if self._own is None:
            self._own = ThreadPoolExecutor(4, "rechannel-prepare")
        return self._own

    def _prepared(self, record: Record, time_ms: int, done: Future[dict[str, Any]]) -> None:
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

    def decide(self, place: Place) -> Decision:
        """How the next timestep would begin; nothing is written yet."""
        if not self.coordination.open:
            return Decision(configuration=place.configuration)
        return border(self.coordination, self._at_border(place), self._preparer.impossible)

    def _at_border(self, place: Place) -> Now:
        """Only what is planned at this border is judged by measurements; steps of plans are not."""
        now = self.now(place, measured=False)
        return self.now(place) if may_plan(self.coordination, now) else now

    def journal(self, decision: Decision) -> None:
        """What has to be in the journal before the intent of the timestep."""
        for step in decision.steps:
            self._turns.pop(step.id, None)
        self._append_all(decision.events)

    def idle(self, place: Place) -> tuple[Configuration, bool]:
        """Nothing runs and nothing comes in: what is due now holds at once, without a timestep.

        With it, whether the next look would bring anything further.
        """
        configuration = place.configuration
        self.settle(place.timestep, place.time_ms)
        if not self.coordination.open:
            return configuration, False
        now = replace(self._at_border(place), idle=True)
        decision = border(self.coordination, now, self._preparer.impossible)
        if decision.configuration.dataflow != configuration.dataflow:
            return configuration, False  # programs are exchanged at a border
        self.journal(decision)
        if decision.steps:
            configuration = decision.configuration
            self._journal.append(
                ConfigurationChanged(
                    from_timestep=place.timestep,
                    configuration=configuration,
                    cause=decision.steps[-1].id,
                    steps=decision.steps,
                )
            )
            self.settle(place.timestep, place.time_ms)
        counted = self._count_turn()
        return configuration, bool(decision.events or decision.steps) or counted

    def _count_turn(self) -> bool:
        """Count a look at an idle stream; whether that brings anybody nearer to the next step.

        What moves next is fetched first: the timestep that comes would have to wait for all of it.
        """
        nearer = False
        for record in self.coordination.open:
            _, fetching = self._ahead.get(record.id, (0, None))
            if not (record.taken and record.left) or (fetching and not fetching.done()):
                continue
            if any(move.stays for move in record.left[0].moves):
                continue  # that takes a timestep
            count = self._turns.get(record.id, 0)
            nearer = nearer or count <= record.strategy.gap
            self._turns[record.id] = count + 1
        return nearer

    def rewrite(self, timestep: int) -> dict[str, Intervals]:
        """Hashes of every operator whose state a timestep writes anew."""
        spans: dict[str, list[tuple[int, int]]] = {}
        if self.coordination.open:
            for move in self.coordination.rewritten_at(timestep):
                spans.setdefault(move.operator, []).append((move.lo, move.hi))
        return {operator: Intervals.of(found) for operator, found in spans.items()}

    def settle(self, committed: int, time_ms: int) -> None:
        """A timestep is committed: end what has made its last step."""
        if self.coordination.open:
            for event in settled(self.coordination, committed, time_ms):
                self._append(event)

    def _append_all(self, events: Iterable[Event]) -> None:
        for event in events:
            self._append(event)

    def _append(self, event: Event) -> None:
        if isinstance(event, Finished):
            self._turns.pop(event.id, None)
            facts = self._let_go(event.id)
            event = event.model_copy(update={"facts": facts}) if facts else event
        self._journal.append(Reconfiguring(event=event))
        if isinstance(event, Finished):
            self._ended(event.id)

    def _let_go(self, id_: str) -> dict[str, Any]:
        """What was done ahead of a reconfiguration that is over; nothing more is."""
        record = self.coordination.find(id_)
        for begun in (self._ahead.pop(id_, None), self._again.pop(id_, None)):
            busy = None if begun is None else begun[1]
            if busy is not None and not busy.cancel():
                busy.add_done_callback(
                    lambda _: self._preparer.facts(record)
                )  # what it took up since
        return dict(self._preparer.facts(record))

    def _ended(self, id_: str, facts: Mapping[str, Any] | None = None) -> None:
        """Facts: those that are in no event."""
        record = self.coordination.find(id_)
        self._preparer.finished(record)
        self._tell(replace(record, prepared={**record.prepared, **(facts or {})}))
        self.wake_waiters()

    def close(self) -> None:
        """Nobody answers any more."""
        if self._own is not None:
            self._own.shutdown(wait=False, cancel_futures=True)
        self._calls.close()
        self.wake_waiters()
