"""Puts a driver together: the only function that does, for a job and for the test kit alike.

What differs between the two is a value, `Seams`: the store, the clock, threads, ids, and what runs the tasks. So what
the simulations prove holds for what a job runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from rechannel.assembly.parts import Parts
from rechannel.assembly.records import RenamedRecords
from rechannel.assembly.seams import Seams, Start
from rechannel.assembly.upgrading import rehearse_upgrade
from rechannel.assembly.wiring import OpenParts, Wiring
from rechannel.dataflow.graph.nodes import Dataflow
from rechannel.engine.journal.entries import Note, SourceReset
from rechannel.engine.journal.log import Journal
from rechannel.engine.journal.state import JournalState
from rechannel.engine.journal.this_driver import ledger_of
from rechannel.engine.program.identity import Identity
from rechannel.engine.program.resetting import reset_to, source_of
from rechannel.engine.program.restarting import elsewhere, sources_of
from rechannel.engine.program.start_entries import start_entries
from rechannel.engine.program.starting import start_program
from rechannel.engine.program.steps import first_configuration
from rechannel.engine.program.unread import end_logs
from rechannel.engine.program.versions import NOTE, Program, current_record
from rechannel.engine.program.withdrawal import described, held_back, withdrawal
from rechannel.engine.reconfigure.opener import Opener, Ready
from rechannel.engine.stages.loading import (
    Tables,
    given_state,
    initial_state,
    is_new,
    load_added,
    load_initial,
)
from rechannel.errors import FencedError
from rechannel.logs import fields, logging_for
from rechannel.model.configuration import Configuration
from rechannel.settings import Settings
from rechannel.sinks.claims import Ledger
from rechannel.sources.reader import Offset
from rechannel.state.manifest import Edit
from rechannel.state.stores.locations import check_remote, check_settings, sweep_temporaries
from rechannel.telemetry.hub import Hub

_LOG = logging.getLogger("rechannel")

OWNER = "owner"
"""Kind of the note with a word that tells this state directory from all others, for ever."""


def assemble(
    seams: Seams, *, name: str, dataflow: Dataflow, settings: Settings, start: Start
) -> Parts:
    """Open everything that a driver needs, in an order in which a refusal leaves nothing open.

    Whatever can be refused comes before this driver takes over, and what may fail then before anything is journalled
    that means something.
    """
    with logging_for(name):
        return _Assembly(
            seams=seams, name=name, dataflow=dataflow, settings=settings, start=start
        ).parts()


def _close_hub(hub: Hub, kind: object, error: BaseException | None, trace: object) -> None:
    """End the telemetry of a job that could not start, with the reason."""
    del kind, trace
    hub.close(error)


@dataclass(kw_only=True)
class _Assembly:
    seams: Seams
    name: str
    dataflow: Dataflow
    settings: Settings
    start: Start
    opening_id: str = ""
    """Id of this driver's `Opened`; "" until that is journalled."""
    resolve: Callable[[Dataflow], Mapping[str, pa.Schema]] = field(init=False)
    """Returns the columns of all nodes."""
    records: RenamedRecords = field(init=False)

    def __post_init__(self) -> None:
        """Bind the records to the store."""
        self.records = RenamedRecords(
            store=self.seams.store,
            renamed=self.start.renamed,
            sources=sources_of(self.dataflow).keys(),
            begins=self.start.upgrade,
        )

    def parts(self) -> Parts:
        seams = self.seams
        check_settings(seams.store)
        check_remote(seams.store)
        opener = seams.opener(self._owner, self._ledger)
        with ExitStack() as undo, ExitStack() as while_opening:
            undo.enter_context(self.records.copied())
            readers = opener.readers(self.dataflow, {})
            for reader in readers.values():
                undo.callback(reader.close)
            schemas = opener.schemas(self.dataflow, readers)
            self.resolve = partial(opener.schemas, readers=readers)
            lease = seams.acquire(self.start.takeover)
            undo.callback(lease.release)
            while_opening.enter_context(seams.signs(lambda: lease.renew(self._replaced)))
            self.journal, state = Journal.open(
                seams.store,
                keep_versions=self.settings.keep_versions,
                snapshot_every=self.settings.snapshot_every,
                writer=seams.journal_writer,
                cleaner=seams.journal_cleaner,
            )
            lease.watch(lambda: self.journal.state.number)
            program = self._program(schemas, state)
            identity = Identity(name=self.name, operators=program.record["operators"])
            changed = NOTE in state.notes
            identity.check(seams.store, changed=changed)
            configuration = self._first(program, opener)
            start_entries(
                state, program, configuration, int(seams.clock())
            )  # refuses here, or nowhere
            offset = self._reset_offset(state, opener)
            rehearse_upgrade(program, state)
            tables = initial_state(program.plan, program.programs, state, opener.loader)
            if OWNER not in state.notes:  # no driver was here before: sinks are claimed in its name
                self._take_over(identity)
            writers = opener.writers(program.plan)
            for writer in writers.values():
                undo.callback(writer.close)
            if not self.opening_id and self._take_over(identity):
                program = self._program(schemas, self.journal.state)
            for writer in writers.values():
                writer.begin()
            sweep_temporaries(seams.store)
            current = Ready(program=program, readers=readers, writers=writers)
            cluster = seams.cluster()
            runner, rows_of = seams.engine(current, cluster)
            undo.callback(runner.close)
            hub = seams.hub(configuration, (self.journal.state.last_committed or 0) + 1)
            undo.push(partial(_close_hub, hub))
            identity.claim(seams.store, changed=changed)
            self._withdraw(begins=program.begins, offset=offset)
            self._begin(current, configuration, opener, tables)
            self._reset(offset)
            opened = OpenParts(
                journal=self.journal,
                lease=lease,
                opener=opener,
                current=current,
                configuration=configuration,
                cluster=cluster,
                runner=runner,
                rows_of=rows_of,
                hub=hub,
            )
            parts = Wiring(
                seams=seams,
                name=self.name,
                settings=self.settings,
                start=self.start,
                opened=opened,
            ).parts()
            undo.pop_all()
        return parts

    def _replaced(self) -> FencedError | None:
        """Why this driver must stop, as far as it has taken over."""
        return self.journal.fenced() if self.opening_id else None

    def _program(self, schemas: Mapping[str, pa.Schema], state: JournalState) -> Program:
        """The program that the dataflow is to this state directory. Raises RefusedError."""
        return start_program(
            self.dataflow, schemas, self.seams.store, state, self.start, self.resolve
        )

    def _owner(self) -> str:
        return f"{self.name}-{self.journal.state.notes[OWNER]}"

    def _ledger(self) -> Ledger:
        journal = self.journal  # until it is this driver's, the one before may still publish
        state = journal.state if self.opening_id else journal.latest()
        return ledger_of(state, self.opening_id, remove_later=self.start.remove_later_output)

    def _take_over(self, identity: Identity) -> bool:
        """Fence the driver before; whether it has written since the journal was read."""
        read = self.journal.state.number
        opened = self.seams.stamp(
            fingerprint=str(sorted(identity.operators.items())),
            time_ms=int(self.seams.clock()),
            id=self.seams.ids()[:16],
        )
        after = self.journal.append(opened)
        self.opening_id = opened.id
        self.records.complete(after)
        if OWNER not in after.notes:
            self.journal.append(Note(kind=OWNER, body=self.seams.ids()))
        return after.number > read + 1

    def _withdraw(self, *, begins: bool, offset: Offset | None) -> None:
        """Withdraw open timesteps that cannot or should not run. offset: where a source goes that is to be reset."""
        state, after = self.journal.state, self.settings.replan_after
        entry = self._reset_entry(offset)
        withdrawn = withdrawal(
            state,
            replan=self.start.replan,
            after=after,
            begins=begins,
            reset=entry.source if entry else "",
        )
        if withdrawn is not None:
            _LOG.warning(
                "job %r: %s",
                self.name,
                described(state, withdrawn),
                extra=fields("timesteps_withdrawn"),
            )
            self.journal.append(withdrawn)
        elif why := held_back(state, after):
            _LOG.warning(
                "job %r: %s", self.name, why, extra=fields("timesteps_held_back", reason=why)
            )

    def _end_logs(self) -> None:
        """End the logs of sources that go."""
        state, store = self.journal.state, self.seams.store
        end_logs(store, state, sources_of(self.dataflow), without=self.start.without)

    def _unheeded(self, fresh: Configuration) -> list[str]:
        state = self.journal.state
        if not state.configurations:
            return []
        held = state.configuration_at((state.last_intended or 0) + 1)
        return self.settings.unheeded(held, fresh)

    def _reset_offset(self, state: JournalState, opener: Opener) -> Offset | None:
        """Where a source goes that is to be reset; None without one. Raises RefusedError."""
        asked = self.start.reset
        if asked is None:
            return None
        reader = opener.reader(source_of(asked, self.dataflow, state))
        try:
            offset = reader.initial()
        finally:
            reader.close()
        reset_to(asked, offset, state, int(self.seams.clock()))  # refuses here, or nowhere
        return offset

    def _reset(self, offset: Offset | None) -> None:
        """Journal where a source goes on from."""
        entry = self._reset_entry(offset)
        if entry is not None:
            self.journal.append(entry)

    def _reset_entry(self, offset: Offset | None) -> SourceReset | None:
        """The entry of the reset; None without one, or if the source is there already."""
        asked = self.start.reset
        if asked is None or offset is None:
            return None
        return reset_to(asked, offset, self.journal.state, int(self.seams.clock()))

    def _first(self, program: Program, opener: Opener) -> Configuration:
        first = first_configuration(
            program.plan,
            interval_ms=self.settings.interval_ms,
            in_flight=self.settings.in_flight,
            **opener.defaults,
        )
        return self.seams.configure(first)

    def _begin(
        self, current: Ready, configuration: Configuration, opener: Opener, tables: Tables
    ) -> None:
        """Journal what this program means, and the state that it begins with.

        Raises OtherDataflowError if dead letters were replayed a moment ago, and nothing would read them.
        """
        self._end_logs()
        program, wall_ms = current.program, int(self.seams.clock())
        moved = elsewhere(self.dataflow, current_record(self.journal.state))
        loaded = self._loaded(program, opener)
        for body in start_entries(self.journal.state, program, configuration, wall_ms, loaded):
            self.journal.append(body)
        self.records.settle(self.journal.state)
        turns = [each.sentence() for each in (program.back, program.upgrade) if each is not None]
        for sentence in (*moved, *turns, *self._unheeded(configuration)):
            _LOG.warning(
                "job %r: %s", self.name, sentence, extra=fields("start_differs", reason=sentence)
            )
        load_initial(tables, program.programs, self.journal, configuration, opener.loader, wall_ms)

    def _loaded(self, program: Program, opener: Opener) -> Mapping[str, Edit]:
        """Write the state that new operators of an upgrade begin with. Raises DataflowError."""
        state = self.journal.state
        added = () if program.upgrade is None or is_new(state) else program.upgrade.added
        given = {name: make for name, make in given_state(program.plan).items() if name in added}
        # Named after the timestep that comes next: a driver that was replaced and still sweeps leaves those alone.
        timestep = (state.last_committed or 0) + 1
        return load_added(
            given, program.programs, opener.loader, timestep=timestep, stream_ms=state.stream_ms
        )
