"""Carries out what happens at a timestep boundary: changes, another program, sources, the intent.

Changes and programs are in the journal before they happen. The intent is written while its timestep runs, and is there
before anything of the timestep can be seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rechannel.engine.failures.frames import let_go
from rechannel.engine.journal.entries import ConfigurationChanged, Note
from rechannel.engine.journal.incarnations import NOTE as INCARNATIONS
from rechannel.engine.journal.incarnations import OPERATORS, counted, ids, members_of
from rechannel.engine.loop.core.commands import (
    AnswerChanges,
    AskCoordinator,
    FailChanges,
    JournalIntent,
    LookAround,
    LookAtVersion,
    OpenAgain,
    PollSources,
    ReadState,
    SettleIdle,
    SwitchProgram,
)
from rechannel.engine.loop.core.events import (
    Around,
    ChangesAnswered,
    Decided,
    IdleSettled,
    LookFailed,
    Offered,
    StateRead,
    Switched,
    TimestepOpened,
    VersionLooked,
)
from rechannel.engine.loop.core.state import InFlight, LoopState
from rechannel.engine.loop.intents import intent_of
from rechannel.engine.loop.outside import Outside
from rechannel.engine.program.early import early_note
from rechannel.engine.program.versions import NOTE, noted
from rechannel.engine.reconfigure.reconfigurer import Abilities
from rechannel.engine.stages.runner import Timestep
from rechannel.reconfigure.coordinator import Decision
from rechannel.telemetry.ranges import range_of


class Boundary:
    """Commands between two timesteps."""

    def __init__(self, outside: Outside) -> None:
        """outside: what they are carried out on."""
        self._out = outside

    def read_state(self, command: ReadState, state: LoopState) -> StateRead:
        """See `ReadState`."""
        del command, state
        committed = self._out.journal.state
        return StateRead(manifests=committed.manifests, times=committed.times)

    def answer_changes(self, command: AnswerChanges, state: LoopState) -> ChangesAnswered:
        """See `AnswerChanges`."""
        del command
        out = self._out
        if not out.changes.has_work and not out.controllers.has_work:
            return ChangesAnswered(happened=False)
        position = out.position(state)
        happened = out.controllers.turn(position)
        happened |= out.changes.answer_and_prepare(
            position, lambda: out.published.position.manifests
        )
        return ChangesAnswered(happened=happened)

    def look_around(self, command: LookAround, state: LoopState) -> Around:
        """See `LookAround`."""
        del command, state
        room = self._out.publisher.has_room()
        wall_ms = self._out.clock()
        return Around(wall_ms=wall_ms, stream_ms=self._out.sources.stream_ms(), room=room)

    def ask_coordinator(self, command: AskCoordinator, state: LoopState) -> Decided:
        """See `AskCoordinator`."""
        decision = Decision(configuration=state.configuration)
        if self._out.changes.has_work:
            decision = self._out.changes.decide(self._out.position(state, command.stream_ms))
        return Decided(
            decision=decision,
            wall_ms=command.wall_ms,
            stream_ms=command.stream_ms,
        )

    def settle_idle(self, command: SettleIdle, state: LoopState) -> IdleSettled:
        """See `SettleIdle`."""
        position = self._out.position(state, command.stream_ms)
        configuration, moving = self._out.changes.make_idle_steps(position)
        return IdleSettled(configuration=configuration, moving=moving, kept_back=command.kept_back)

    # Another program -----------------------------------------------------------------------------

    def look_at_version(
        self, command: LookAtVersion, state: LoopState
    ) -> VersionLooked | LookFailed:
        """See `LookAtVersion`."""
        decision, stream_ms = command.decision, command.stream_ms
        position = self._out.position(state, stream_ms)
        record: Mapping[str, Any] = {}
        try:
            reasons = self._out.changes.check_switch(decision, position, state.operators.manifests)
            if not reasons:
                version = decision.configuration.dataflow
                readers = self._out.switch.readers(version)
                self._out.sources.begin(readers, self._out.journal.state.offsets)
                record = self._out.switch.record(version, stream_ms)
        except Exception as error:
            what = "a change of the program"
            return LookFailed(what=what, error=error, at_ms=self._out.waits())
        return VersionLooked(decision=decision, stream_ms=stream_ms, reasons=reasons, record=record)

    def fail_changes(self, command: FailChanges, state: LoopState) -> None:
        """See `FailChanges`."""
        position = self._out.position(state, command.stream_ms)
        self._out.changes.fail_changes(position, command.reasons)

    def switch_program(self, command: SwitchProgram, state: LoopState) -> Switched:
        """See `SwitchProgram`."""
        journal, switch = self._out.journal, self._out.switch
        decision, number = command.decision, state.last + 1
        version = decision.configuration.dataflow
        self._out.changes.journal_decision(decision)
        known = journal.state.notes.get(NOTE) or {}
        members = members_of(switch.dataflow(version))
        count = counted(journal.state.notes.get(INCARNATIONS), members, number)
        note = noted(known, version, {**command.record, "incarnations": ids(count, OPERATORS)})
        journal.append(Note(kind=NOTE, body=note))
        journal.append(
            ConfigurationChanged(
                from_timestep=number,
                configuration=decision.configuration,
                cause=decision.steps[-1].id,
                steps=decision.steps,
                edits=switch.loaded(version),
                notes={INCARNATIONS: count},
            )
        )
        ready = switch.begin(version)
        self._out.sources.switch_to(ready.readers, journal.state.offsets)
        journal_early(self._out)
        self._out.changes.follow(Abilities.of(ready.plan, ready.readers))
        return Switched(
            configuration=decision.configuration,
            plan=ready.plan,
            manifests=journal.state.manifests,
            times=journal.state.times,
            bad_rows=journal.state.bad_rows,
        )

    # A timestep ----------------------------------------------------------------------------------

    def poll_sources(self, command: PollSources, state: LoopState) -> Offered | LookFailed:
        """See `PollSources`."""
        del state
        sources = self._out.sources
        try:
            slices = sources.look(command.stream_ms, command.decision.configuration)
        except Exception as error:
            let_go(error)
            return LookFailed(what="reading the sources", error=error, at_ms=self._out.waits())
        return Offered(
            decision=command.decision,
            wall_ms=command.wall_ms,
            stream_ms=command.stream_ms,
            slices=slices,
            nothing=sources.nothing() if slices is None else {},
            controlled=self._out.controllers.messages.wants_timestep(command.decision),
        )

    def journal_intent(self, command: JournalIntent, state: LoopState) -> TimestepOpened:
        """See `JournalIntent`."""
        timestep, decision, journal = command.timestep, command.decision, self._out.journal
        self._out.changes.journal_decision(decision)
        known, notes = journal.state.configurations, journal.state.notes
        if controls := self._out.controllers.messages.attached(decision):
            timestep = replace(timestep, controls=controls)
        journal.append_soon(intent_of(timestep, decision.steps, known, notes))
        self._out.sources.take(timestep)
        return self._opened(timestep, command.began_ms, state, fresh=True)

    def open_again(self, command: OpenAgain, state: LoopState) -> TimestepOpened:
        """See `OpenAgain`."""
        timestep = command.timestep
        timestep = replace(timestep, controls=self._out.controllers.messages.again(timestep.number))
        return self._opened(timestep, command.began_ms, state, fresh=False)

    def _opened(
        self, timestep: Timestep, began_ms: float, state: LoopState, *, fresh: bool
    ) -> TimestepOpened:
        out, number = self._out, timestep.number
        rewrite = out.changes.rewritten_hashes(number)
        timestep = out.choose(timestep, state, rewrites=bool(rewrite))
        flight = InFlight(
            timestep=timestep,
            began_ms=began_ms,
            decided_ms=out.clock(),
            moved=out.changes.coordination.moved_at(number),
            rewrite=rewrite,
            backlogs=out.sources.backlogs if fresh else {},
        )
        out.runner.open(timestep)
        out.listener.started(
            number,
            stream_ms=timestep.stream_ms,
            at_ms=began_ms,
            offsets={n: range_of(part.start, part.end) for n, part in timestep.slices.items()},
            configuration=timestep.configuration.version,
            backlog=flight.backlogs,
            inline=timestep.inline is not None,
        )
        return TimestepOpened(flight=flight, fresh=fresh)


def journal_early(outside: Outside) -> None:
    """Journal, before the program runs, which of its sinks show timesteps that are not committed."""
    sinks = outside.switch.current.plan.sinks
    note = early_note(outside.journal.state, sinks)
    if note is not None:
        outside.journal.append(note)
