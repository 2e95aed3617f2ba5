"""Carries out a commit: the sinks that write before it, the journal, and everything that follows."""

from __future__ import annotations

from rechannel.engine.loop.core.bad_rows import counted_of
from rechannel.engine.loop.core.commands import (
    Account,
    ForgetInput,
    JournalCommit,
    Publish,
    Release,
    ReportCommit,
    StageSinks,
    Sweep,
)
from rechannel.engine.loop.core.events import Staged, StageFailed, TimestepCommitted
from rechannel.engine.loop.core.in_flight import kept_of
from rechannel.engine.loop.core.state import LoopState
from rechannel.engine.loop.intents import committed_of
from rechannel.engine.loop.outside import Outside
from rechannel.engine.program.physical import SourceFrame
from rechannel.model.eventtime import watermarks_ms


class Committing:
    """Commands around a commit."""

    def __init__(self, outside: Outside) -> None:
        """outside: what they are carried out on."""
        self._out = outside

    def stage_sinks(self, command: StageSinks, state: LoopState) -> Staged | StageFailed:
        """See `StageSinks`. Raises what ended a sink for good."""
        out, flight = self._out, state.in_flight[command.number]
        ran_ms = out.clock()
        out.publisher.check()
        out.journal.settle()  # sinks may show what they stage
        try:
            staged = out.publisher.stage(flight.timestep, kept_of(flight.reports))
        except Exception as error:
            out.publisher.check()  # it may be the last of the attempts that its user counts
            return StageFailed(number=command.number, error=error, at_ms=out.waits())
        return Staged(number=command.number, staged=staged, ran_ms=ran_ms)

    def journal_commit(self, command: JournalCommit, state: LoopState) -> TimestepCommitted:
        """See `JournalCommit`."""
        flight = state.in_flight[command.number]
        completed = self._out.controllers.messages.completed(command.number, flight.reports)
        entry = committed_of(
            flight,
            kept_of(flight.reports),
            command.staged,
            completed,
            counted_of(state.plan, flight.reports),
        )
        self._out.journal.append(entry)
        return TimestepCommitted(
            number=command.number,
            staged=command.staged,
            ran_ms=command.ran_ms,
            committed_ms=self._out.clock(),
        )

    def publish(self, command: Publish, state: LoopState) -> None:
        """See `Publish`."""
        del state
        flight = command.flight
        self._out.publisher.publish(flight.timestep, kept_of(flight.reports), command.staged)

    def release(self, command: Release, state: LoopState) -> None:
        """See `Release`."""
        del state
        self._out.runner.release(command.number)

    def forget_input(self, command: ForgetInput, state: LoopState) -> None:
        """See `ForgetInput`."""
        del state
        self._out.sources.committed(command.timestep)

    def account(self, command: Account, state: LoopState) -> None:
        """See `Account`."""
        del state
        flight, number = command.flight, command.flight.timestep.number
        self._out.measured.committed(
            number,
            flight.reports,
            flight.timestep.configuration,
            max(0.0, command.committed_ms - flight.began_ms),  # the clock may have been set back
            flight.moved,
        )
        self._out.changes.finish_completed(number, int(command.committed_ms))
        self._out.history.committed(number)

    def report(self, command: ReportCommit, state: LoopState) -> None:
        """See `ReportCommit`."""
        flight = command.flight
        self._out.listener.committed(
            flight.timestep.number,
            reports=list(flight.reports),
            began_ms=flight.began_ms,
            at_ms=command.committed_ms,
            phases={
                "plan": flight.decided_ms - flight.began_ms,
                "run": command.ran_ms - flight.decided_ms,
                "commit": command.committed_ms - command.ran_ms,
                "release": self._out.clock() - command.committed_ms,
            },
            state=state.operators.sizes(),
            watermarks=watermarks_ms(flight.times),
            sources=frozenset(
                stage.name for stage in state.plan.stages if isinstance(stage.frame, SourceFrame)
            ),
        )

    def sweep(self, command: Sweep, state: LoopState) -> None:
        """See `Sweep`."""
        del command, state
        self._out.sweep(self._out.publisher.oldest)
