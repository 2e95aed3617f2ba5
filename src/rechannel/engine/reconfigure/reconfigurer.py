"""Carries out what the coordinator decides: asks it at each timestep boundary, journals its decisions, prepares.

Everything runs in the driver's thread except `request`, `request_abort` and `request_view`, which other threads call,
and the preparation, which runs in a thread of its own and whose result arrives as an event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from msgspec import structs

from rechannel.engine.journal.entries import ConfigurationChanged, Reconfiguring
from rechannel.engine.journal.log import Journal
from rechannel.engine.program.dividing import (
    divisible_operators,
    rows_of_sides,
    sides_of_inputs,
)
from rechannel.engine.program.physical import PhysicalPlan
from rechannel.engine.program.position import StreamPosition
from rechannel.engine.program.steps import can_combine
from rechannel.engine.reconfigure.asking import Asking, Measurements, sizes_of
from rechannel.engine.reconfigure.calls import Calls
from rechannel.engine.reconfigure.measured import Measured
from rechannel.engine.reconfigure.preparation_threads import PreparationThreads
from rechannel.engine.reconfigure.preparer import LiveManifests, NothingToPrepare, Preparer
from rechannel.engine.reconfigure.takeover import is_other_application, note_application, take_over
from rechannel.model.configuration import Configuration
from rechannel.model.hashspace import Intervals
from rechannel.reconfigure.coordination import Coordination, Now, finished
from rechannel.reconfigure.coordinator import (
    Decision,
    decide,
    due_soon,
    may_plan,
    resume,
    settled,
    state_at_begin,
    wants_preparing,
)
from rechannel.reconfigure.events import Event, Finished, Requested
from rechannel.reconfigure.record import Phase, Record
from rechannel.reconfigure.requests import Request, abort, accept
from rechannel.reconfigure.steps import Sizes
from rechannel.reconfigure.stream_facts import Divisible, Limits, NoLimits, StreamFacts
from rechannel.sources.reader import SourceReader
from rechannel.state.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What a version of the program can be changed in."""

    combinable: frozenset[str] = frozenset()
    """Operators that can pre-aggregate."""
    sources: frozenset[str] = frozenset()
    """Sources whose timesteps can be bounded."""
    divisible: Mapping[str, Divisible] = field(default_factory=dict)
    """How tasks of operators can share the rows of a key."""
    sides: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """The side of every input of operators with two sides."""

    @classmethod
    def of(cls, plan: PhysicalPlan, readers: Mapping[str, SourceReader]) -> Abilities:
        """Return those of a version, by its plan and its open sources."""
        return cls(
            combinable=frozenset(s.name for s in plan.stateful if can_combine(plan, s.name)),
            sources=frozenset(n for n, r in readers.items() if r.boundable),
            divisible=divisible_operators(plan),
            sides=sides_of_inputs(plan),
        )


Judge = Callable[[Coordination, Request], Request]
"""Returns a request with what it supersedes, given the reconfigurations at that moment. Raises RefusedError."""

RecordListener = Callable[[Record], None]
"""Receives a record that is over."""


class Reconfigurer:
    """Reconfigurations of one running driver."""

    def __init__(
        self,
        *,
        journal: Journal,
        measured: Measured,
        abilities: Abilities,
        preparer: Preparer | None = None,
        limits: Limits | None = None,
        wake: Callable[[], None] = lambda: None,
        executor: Executor | None = None,
        listener: RecordListener = lambda _: None,
    ) -> None:
        """abilities: of the version that runs. wake: makes the driver's thread look here.

        executor: runs preparations; None = threads of their own. listener: receives every record that is over.
        """
        self._journal = journal
        self._measured = measured
        self._preparer = preparer or NothingToPrepare()
        self._abilities = abilities
        self._limits = limits or NoLimits()
        self._calls = Calls(wake)
        self._preparations = PreparationThreads(self._preparer, wake, executor)
        self._idle_turns: dict[str, int] = {}
        self._listener = listener

    # What other threads may call -----------------------------------------------------------------

    @property
    def coordination(self) -> Coordination:
        """All reconfigurations."""
        return self._journal.state.coordination

    def request(self, request: Request, judged: Judge | None = None) -> Future[str]:
        """Hand a request to the driver's thread. The future has its id, or the reason for its refusal.

        judged: says there what the request supersedes, and may refuse it.
        """
        return self._calls.submit(lambda position: self._judge(request, position, judged))

    def request_abort(self, id_: str, reason: str) -> Future[None]:
        """Hand an abort to the driver's thread."""
        return self._calls.submit(lambda position: self._judge_abort(id_, reason, position))

    def request_view(self) -> Future[Now]:
        """Ask the driver's thread for what a request would be checked against."""

        def judge(position: StreamPosition) -> Callable[[], Now]:
            now = self.view(position)
            return lambda: now

        return self._calls.submit(judge)

    # The driver's thread -------------------------------------------------------------------------

    def follow(self, abilities: Abilities) -> None:
        """Go by another version of the program, which has taken over."""
        self._abilities = abilities

    def view(self, position: StreamPosition, *, measured: bool = True) -> Now:
        """Return what the coordinator decides from. measured: include loads and sizes, which take time per bin."""
        configuration = position.configuration
        return Now(
            timestep=position.timestep,
            time_ms=position.time_ms,
            configuration=configuration,
            event_times=position.event_times,
            drained=position.drained,
            turns=dict(self._idle_turns),
            facts=StreamFacts(
                loads=self._measured.loads(configuration) if measured else {},
                hot=self._measured.hot(configuration) if measured else {},
                combinable=self._abilities.combinable,
                divisible=self._abilities.divisible,
                rows_of_sides=self._rows_of_sides() if measured else {},
                sources=self._abilities.sources,
                limits=self._limits,
                places=self._preparer.places() if measured else {},
            ),
            sizes=self._measured.sizes(configuration) if measured else Sizes(),
            budget=self._measured.budget,
        )

    def measurements(self, configuration: Configuration) -> Measurements:
        """Return what was measured over the last timesteps, for the bins of a Configuration."""
        sizes = self._measured.sizes(configuration).bins
        return Measurements(
            rows=self._measured.loads(configuration),
            bytes={name: size for name, (_, size) in sizes.items()},
            hot=self._measured.hot(configuration),
            rows_of_sides=self._rows_of_sides(),
        )

    def asking(
        self,
        position: StreamPosition,
        known: Measurements,
        places: Mapping[str, Mapping[int, str]],
    ) -> Asking:
        """Return what answers questions about changes as the stream is now. Any thread may ask.

        places: executor of each task, by operator.
        """
        now = self.view(position, measured=False)
        facts = replace(
            now.facts,
            loads={name: tuple(each) for name, each in known.rows.items()},
            hot=known.hot,
            rows_of_sides=known.rows_of_sides,
            places=places,
        )
        now = replace(now, facts=facts, sizes=sizes_of(position.configuration, known.bytes))
        return Asking(
            coordination=self.coordination, now=now, ms_per_byte=self._measured.ms_per_byte
        )

    def _rows_of_sides(self) -> dict[str, tuple[float, float]]:
        """Rows of both sides of operators with two inputs, over the last timesteps."""
        sides = self._abilities.sides
        return rows_of_sides(self._measured.sent(), sides) if sides else {}

    def _judge(
        self, request: Request, position: StreamPosition, judged: Judge | None
    ) -> Callable[[], str]:
        request = request if judged is None else judged(self.coordination, request)
        event = accept(self.coordination, request, self.view(position))
        # An event that contradicts the records is refused before it is journalled.
        self.coordination.after(event)
        return partial(self._append_request, event)

    def _append_request(self, event: Requested) -> str:
        self._append(event)
        for id_ in event.supersedes:
            self._release(id_, self._preparations.end(self.coordination.find(id_)))
        return event.id

    def _judge_abort(self, id_: str, reason: str, position: StreamPosition) -> Callable[[], None]:
        return partial(self._append_all, abort(self.coordination, id_, self.view(position), reason))

    def resume(self, position: StreamPosition) -> Configuration:
        """Continue what the previous driver left open; returns the Configuration from here on."""
        position = structs.replace(
            position, configuration=take_over(self._journal, self._preparer, position)
        )
        if self.coordination.open:
            moved = is_other_application(self._journal, self._preparer)
            now, impossible = self.view(position), self._preparer.impossible
            self._append_all(resume(self.coordination, now, impossible, elsewhere=moved))
        note_application(self._journal, self._preparer)
        return position.configuration

    def answer_calls(self, position: StreamPosition) -> bool:
        """Answer the calls of other threads; return whether there were any."""
        return self._calls.answer(position)

    @property
    def has_work(self) -> bool:
        """Whether `answer_and_prepare` or `decide` may have something to do."""
        return bool(self._calls.pending or self._preparations.has_results or self.coordination.open)

    def answer_and_prepare(
        self, position: StreamPosition, manifests: Callable[[], Mapping[str, Manifest]]
    ) -> bool:
        """Answer calls, take results of preparations, begin the next ones; returns whether anything happened."""
        happened = self.answer_calls(position)
        for event in self._preparations.results(lambda: self.coordination, position.timestep):
            # Timesteps went on during the preparation: the present time counts.
            self._append(replace(event, time_ms=position.time_ms))
            happened = True
        known = LiveManifests(manifests)
        for record in wants_preparing(self.coordination):
            now = partial(self.view, position)
            happened |= self._preparations.begin(record, position.time_ms, now, known)
        for record in self.coordination.open:
            if record.under_way and record.left and record.strategy.prepare:
                unmeasured = partial(self.view, position, measured=False)
                self._preparations.prepare_next_steps(record, unmeasured, known)
        self._prepare_again(position, known)
        return happened

    def _prepare_again(self, position: StreamPosition, manifests: Mapping[str, Manifest]) -> None:
        """Prepare waiting changes again shortly before they begin."""
        if all(record.phase is not Phase.READY for record in self.coordination.open):
            return
        state = self.coordination
        for record in due_soon(state, self.view(position, measured=False)):
            now = partial(self._when_it_begins, record, position)
            self._preparations.prepare_again(record, position.timestep, now, manifests)

    def _when_it_begins(self, record: Record, position: StreamPosition) -> Now:
        """What the coordinator will decide from when a record begins."""
        return state_at_begin(self.coordination, record, self.view(position))

    def decide(self, position: StreamPosition) -> Decision:
        """Return how the next timestep would begin; nothing is written."""
        if not self.coordination.open:
            return Decision(configuration=position.configuration)
        return decide(self.coordination, self._at_boundary(position), self._preparer.impossible)

    def _at_boundary(self, position: StreamPosition) -> Now:
        """What the coordinator decides from; measured only if it may plan: existing plans need no figures."""
        now = self.view(position, measured=False)
        return self.view(position) if may_plan(self.coordination, now) else now

    def check_switch(
        self, decision: Decision, position: StreamPosition, manifests: Mapping[str, Manifest]
    ) -> dict[str, str]:
        """Return why another version of the program cannot begin here, by the id of its change. Writes nothing."""
        now = self.view(position, measured=False)
        reasons = {
            step.id: self._preparer.check_at_boundary(
                self.coordination.find(step.id), now, manifests
            )
            for step in decision.steps
        }
        return {id_: why for id_, why in reasons.items() if why is not None}

    def fail_changes(self, position: StreamPosition, reasons: Mapping[str, str]) -> None:
        """End changes that cannot begin. reasons: why, by id."""
        for id_, why in reasons.items():
            now = self.view(position, measured=False)
            self._append(finished(self.coordination.find(id_), now, "failed", why))

    def journal_decision(self, decision: Decision) -> None:
        """Journal the events that come before the intent of the timestep."""
        for step in decision.steps:
            self._idle_turns.pop(step.id, None)
        self._append_all(decision.events)

    def make_idle_steps(self, position: StreamPosition) -> tuple[Configuration, bool]:
        """Make the steps that are due without a timestep, because nothing runs and no input arrives.

        Returns the Configuration, and whether another call could make further steps.
        """
        configuration, number = position.configuration, position.timestep
        self.finish_completed(number, position.time_ms, to_run=number)
        if not self.coordination.open:
            return configuration, False
        now = replace(self._at_boundary(position), idle=True)
        decision = decide(self.coordination, now, self._preparer.impossible)
        if decision.configuration.dataflow != configuration.dataflow:
            return configuration, False  # programs are switched at a timestep boundary
        self.journal_decision(decision)
        if decision.steps:
            configuration = decision.configuration
            self._journal.append(
                ConfigurationChanged(
                    from_timestep=number,
                    configuration=configuration,
                    cause=decision.steps[-1].id,
                    steps=decision.steps,
                )
            )
            self.finish_completed(number, position.time_ms, to_run=number)
        counted = self._count_turn()
        return configuration, bool(decision.events or decision.steps) or counted

    def _count_turn(self) -> bool:
        """Count a turn of an idle stream; returns whether that brings a change nearer to its next step.

        A change waits while the state of its next step is fetched: else the next timestep would wait for all of it.
        """
        nearer = False
        for record in self.coordination.open:
            if not (record.taken and record.left) or self._preparations.fetching(record):
                continue
            if any(move.stays for move in record.left[0].moves):
                continue  # only a timestep can make this step
            count = self._idle_turns.get(record.id, 0)
            nearer = nearer or count <= record.strategy.gap
            self._idle_turns[record.id] = count + 1
        return nearer

    @property
    def fetching(self) -> bool:
        """Whether a change that is under way waits for the state of its next step."""
        under_way = (r for r in self.coordination.open if r.taken and r.left)
        return any(map(self._preparations.fetching, under_way))

    def rewritten_hashes(self, timestep: int) -> dict[str, Intervals]:
        """Hashes of the state that a timestep writes anew, by operator."""
        spans: dict[str, list[tuple[int, int]]] = {}
        if self.coordination.open:
            for move in self.coordination.rewritten_at(timestep):
                spans.setdefault(move.operator, []).append((move.lo, move.hi))
        return {operator: Intervals.of(found) for operator, found in spans.items()}

    def finish_completed(self, committed: int, time_ms: int, *, to_run: int | None = None) -> None:
        """A timestep is committed: finish the changes that have made their last step. to_run: see `settled`."""
        if self.coordination.open:
            self._append_all(settled(self.coordination, committed, time_ms, to_run=to_run))

    def _append_all(self, events: Iterable[Event]) -> None:
        for event in events:
            self._append(event)

    def _append(self, event: Event) -> None:
        if isinstance(event, Finished):
            facts = self._preparations.end(self.coordination.find(event.id))
            event = replace(event, facts=facts) if facts else event
        self._journal.append(Reconfiguring(event=event))
        if isinstance(event, Finished):
            self._release(event.id)

    def _release(self, id_: str, facts: Mapping[str, Any] | None = None) -> None:
        """Release what a record that is over holds, and pass it on. facts: those that no event has."""
        self._idle_turns.pop(id_, None)
        record = self.coordination.find(id_)
        self._preparer.release(record)
        self._listener(replace(record, prepared={**record.prepared, **(facts or {})}))

    def close(self) -> None:
        """Answer no more calls, and begin no more preparations."""
        self._preparations.close()
        self._calls.close()
