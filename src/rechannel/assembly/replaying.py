"""Runs committed timesteps again in a sandbox, and compares.

What there is of a driver is a runner, sources that are opened anew, and an overlay over the state directory. There is
no lease, no journal, no sink, no controller and no telemetry, so nothing of the job can be touched. Control operations
that travelled with a timestep do not travel again: their replies would have no controller to go to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from rechannel.assembly.seams import Seams
from rechannel.dataflow.evolution.evolution import Logic
from rechannel.dataflow.graph.nodes import Dataflow
from rechannel.dataflow.identity.provided import Provided
from rechannel.engine.journal.entries import Intent
from rechannel.engine.journal.state import JournalState
from rechannel.engine.loop.intents import decided_of
from rechannel.engine.loop.recovering import first_state
from rechannel.engine.program.start_entries import reconciled
from rechannel.engine.program.steps import first_configuration
from rechannel.engine.program.versions import Program
from rechannel.engine.reconfigure.opener import Opener, Ready
from rechannel.engine.replay.judging import Shown, Side, output_difference, state_difference
from rechannel.engine.replay.programs import other_logic, program_then, sinks_by_node
from rechannel.engine.replay.running import Ran, run
from rechannel.engine.replay.selecting import Selection
from rechannel.engine.stages.runner import Runner, Timestep
from rechannel.errors import RefusedError, SourceError, StorageError
from rechannel.reconfigure.edits import change_logic
from rechannel.replayed import Replay, ReplayedRows, ReplayedState
from rechannel.settings import Settings
from rechannel.sinks.claims import Ledger
from rechannel.sources.reader import SourceReader, check_again
from rechannel.state.store import Store


@dataclass(frozen=True, kw_only=True)
class ReplayText:
    """The program of a replay."""

    dataflow: Dataflow
    """As it ran, or with other logic."""
    provided: Provided
    """Functions that convert stored state."""
    logic: Mapping[str, Logic]
    """By node: logic that takes the place of the dataflow's."""

    def changed(self) -> Dataflow:
        """Return the dataflow with the other logic. Raises UnknownOperatorError, RefusedError, DataflowError."""
        dataflow = self.dataflow
        for name, logic in self.logic.items():
            dataflow = change_logic(name, logic).applied(dataflow)
        return dataflow


def replay(
    seams: Seams,
    base: Store,
    selection: Selection,
    text: ReplayText,
    *,
    settings: Settings,
    shown: Shown,
) -> Replay:
    """Run timesteps again, and return how the result differs from what was committed.

    seams: over an overlay of `base`; only sources, runner and clocks are used. Raises RefusedError if the program, or
    what sources still have, does not allow it, and what tasks raise.
    """
    dataflow = text.changed()
    opener = seams.opener(_no_owner, _no_ledger)
    readers = opener.readers(dataflow, {})
    try:
        made = _Sandbox(
            seams=seams,
            base=base,
            selection=selection,
            settings=settings,
            shown=shown,
            readers=readers,
            then=_program(text.dataflow, opener, readers, selection, text),
            now=_program(dataflow, opener, readers, selection, text),
            fresh=opener.defaults,
        )
        made.check_sources()
        return made.replay()
    finally:
        for reader in readers.values():
            reader.close()


def _program(
    dataflow: Dataflow,
    opener: Opener,
    readers: Mapping[str, SourceReader],
    selection: Selection,
    text: ReplayText,
) -> Program:
    schemas: Mapping[str, pa.Schema] = opener.schemas(dataflow, readers)
    return program_then(dataflow, schemas, opener.store, selection, text.provided)


@dataclass(frozen=True, kw_only=True)
class _Sandbox:
    seams: Seams
    base: Store
    selection: Selection
    settings: Settings
    shown: Shown
    readers: Mapping[str, SourceReader]
    then: Program
    """The program as it is given: it reads the state that was committed."""
    now: Program
    """The same with the other logic, which runs."""
    fresh: Mapping[str, int]
    """`tasks` and `bins` of stages that the journal does not know."""

    def check_sources(self) -> None:
        """Raise RefusedError if a source cannot give what the timesteps read any more."""
        lost: list[tuple[int, str, Exception]] = []
        for intent in self.selection.intents:
            for name in intent.sources:
                try:
                    self._check_source(intent, name)
                except (SourceError, StorageError) as error:
                    lost.append((intent.timestep, name, error))
        if not lost:
            return
        timestep, name, why = lost[-1]
        later = timestep < self.selection.last
        possible = f"timesteps from {timestep + 1} on" if later else "none of these timesteps"
        msg = (
            f"timestep {timestep} cannot be replayed: source {name!r} no longer has its rows ({why}). Of"
            f" {self.selection.first} to {self.selection.last}, {possible} can be replayed"
        )
        raise RefusedError(msg) from why

    def _check_source(self, intent: Intent, name: str) -> None:
        part, present = intent.sources[name], self.selection.source_ids[name]
        if present and part.incarnation not in {"", present}:
            msg = f"it read another source {name!r}, which was removed"
            raise SourceError(msg)
        check_again(self.readers[name], part.start, part.end, list(part.layout or ()))

    def replay(self) -> Replay:
        """Run the timesteps and compare."""
        current = Ready(program=self.now, readers=self.readers, writers={})
        runner, _ = self.seams.engine(current, self.seams.cluster())
        try:
            return self._compared(runner)
        except BaseException:
            runner.cancel()
            raise
        finally:
            runner.close()

    def _compared(self, runner: Runner) -> Replay:
        selection = self.selection
        sinks = sinks_by_node(self.now.plan)
        output: list[ReplayedRows] = []
        state: list[ReplayedState] = []
        durations: list[float] = []
        for ran in self._run(runner):
            sides = self._sides(ran)
            nodes = dict.fromkeys([*sides[0].version.outbox, *ran.version.outbox])
            output += [
                output_difference(ran.timestep, node, sinks.get(node, ()), sides, self.shown)
                for node in sorted(nodes)
            ]
            if ran.timestep == selection.last:
                state = list(self._state(sides))
            durations.append(ran.ms)
        return Replay(
            first=selection.first,
            last=selection.last,
            program=selection.program,
            other_logic=other_logic(selection, self.now),
            output=tuple(output),
            state=tuple(state),
            durations_ms=tuple(durations),
            not_compared=tuple(str(s.sink.name) for s in self.now.plan.sinks if s.direct),
        )

    def _run(self, runner: Runner) -> Iterator[Ran]:
        selection, plan = self.selection, self.now.plan
        before = selection.first - 1
        journal = JournalState(last_committed=before, versions={before: selection.start})
        timesteps = self._timesteps()
        state = first_state(
            journal, plan, timesteps[0].configuration, self.seams.sized(self.settings)
        )
        clock = self.seams.waits or self.seams.steady or self.seams.clock
        return run(state, timesteps, runner, clock)

    def _timesteps(self) -> list[Timestep]:
        fresh = first_configuration(self.now.plan, interval_ms=0, in_flight=1, **self.fresh)
        held = [reconciled(each, fresh) for each in self.selection.configurations]
        return list(map(decided_of, self.selection.intents, held))

    def _sides(self, ran: Ran) -> tuple[Side, Side]:
        committed = self.selection.committed[ran.timestep]
        then = Side(version=committed, store=self.base)
        return then, Side(version=ran.version, store=self.seams.store)

    def _state(self, sides: tuple[Side, Side]) -> Iterator[ReplayedState]:
        for stage in self.now.plan.stateful:
            # Committed files are read without the overlay: a file of the replay may have the same name.
            then = replace(self.then.programs[stage.name], store=self.base)
            yield state_difference((then, self.now.programs[stage.name]), sides, self.shown)


def _no_owner() -> str:
    msg = "a replay opens no sink"
    raise NotImplementedError(msg)


def _no_ledger() -> Ledger:
    msg = "a replay opens no sink"
    raise NotImplementedError(msg)
