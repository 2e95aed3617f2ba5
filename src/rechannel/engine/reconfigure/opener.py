"""Open versions of the dataflow: readers and writers, columns, and what happens to state.

Everything that can fail is done here, in the thread of who asks for a version. See `switch`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import pyarrow as pa

from rechannel.dataflow.checks.outside import see_outside
from rechannel.dataflow.evolution.declared import Declared
from rechannel.dataflow.evolution.migration import Migrate
from rechannel.dataflow.graph.nodes import Dataflow, Node, Source
from rechannel.dataflow.graph.schema import resolve
from rechannel.dataflow.identity.factories import Factory
from rechannel.engine.journal.forking import check_outputs
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program.physical import PhysicalPlan
from rechannel.engine.program.position import StreamPosition
from rechannel.engine.program.restarting import sources_of
from rechannel.engine.program.stored_versions import stored_schema_versions
from rechannel.engine.program.unread import check_unread, end_logs
from rechannel.engine.program.upgrading import Upgrade
from rechannel.engine.program.versions import Program, Succession, deployed_to, succeed
from rechannel.engine.reconfigure.kept_writers import OpenWriter, writers_of
from rechannel.engine.stages.loading import Loader, given_state, load_added
from rechannel.errors import one_sentence
from rechannel.logs import fields
from rechannel.reconfigure.changes.program import ChangeProgram
from rechannel.reconfigure.deploy import Deploy
from rechannel.sinks.spare import spent
from rechannel.sinks.writer import SinkWriter
from rechannel.sources.reader import SourceReader
from rechannel.state.manifest import Edit
from rechannel.state.store import Store

_LOG = logging.getLogger("rechannel")


def _nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A version with its open sources and sinks, by name."""

    program: Program
    readers: Mapping[str, SourceReader]
    writers: Mapping[str, SinkWriter]
    stamp: Callable[[int], Program] | None = None
    """Makes its program anew for the time at which it begins, in Unix milliseconds, on which state with another timeout
    depends; None if the time does not matter."""
    loaded: Mapping[str, Edit] = field(default_factory=dict)
    """Edits that add the initial state of new operators, whose files are written already."""
    before: Ready | None = None
    """The version that it was made from, until it begins."""
    upgrade: Upgrade | None = None
    """What a deploy does; None of other changes."""
    end_logs: Callable[[], None] = _nothing
    """Ends the logs of sources that go. Raises OtherDataflowError if one has something to read."""

    @property
    def plan(self) -> PhysicalPlan:
        """Return the physical plan of the version: stages and sinks."""
        return self.program.plan

    def begun(self) -> Ready:
        """Return it without all that refers to the previous version: kept, it would keep all earlier ones in memory."""
        return replace(self, stamp=None, loaded={}, before=None, upgrade=None, end_logs=_nothing)

    def close_beside(self, other: Ready) -> None:
        """Close what only this version has open. A failure to close is logged, and the job continues."""
        _close_beside(self.readers, other.readers)
        for name, writer in self.writers.items():
            for part in spent(writer, other.writers.get(name)):
                _close(name, part)


def _close_beside(mine: Mapping[str, SourceReader], others: Mapping[str, SourceReader]) -> None:
    for name, opened in mine.items():
        if others.get(name) is not opened:
            _close(name, opened)


def _close(name: str, opened: SourceReader | SinkWriter) -> None:
    try:
        opened.close()
    except Exception as error:
        _LOG.warning(
            "%r is no longer used and could not be closed: %s",
            name,
            one_sentence(error),
            extra=fields("not_closed", operator=name, reason=error),
        )


class Ask(Protocol):
    """Finds columns that only a source or Spark knows."""

    def __call__(
        self, readers: Mapping[str, SourceReader], node: Node, inputs: Sequence[pa.Schema]
    ) -> pa.Schema | None:
        """Columns of a node; None if the node declares them. Raises DataflowError."""


@dataclass(frozen=True, kw_only=True)
class Opener:
    """Opens versions: the seams to sources, sinks and Spark."""

    store: Store
    ask: Ask
    reader: Callable[[Source], SourceReader]
    writer: OpenWriter
    loader: Loader
    """Loads the initial state of new operators."""
    defaults: Mapping[str, int]
    """`tasks` and `bins` of operators that do not set them."""

    def readers(
        self, dataflow: Dataflow, there: Mapping[str, SourceReader]
    ) -> dict[str, SourceReader]:
        """Return a reader for each source; open ones are kept. If one cannot be opened, no other stays open."""
        made: dict[str, SourceReader] = {}
        try:
            for node in dataflow.nodes:
                if isinstance(node, Source):
                    made[node.name] = there.get(node.name) or self.reader(node)
        except BaseException:
            _close_beside(made, there)
            raise
        return made

    def schemas(
        self, dataflow: Dataflow, readers: Mapping[str, SourceReader]
    ) -> Mapping[str, pa.Schema]:
        """Columns of every node; its functions have agreed with what is outside. Raises DataflowError, RefusedError."""
        found = resolve(dataflow, lambda node, inputs: self.ask(readers, node, inputs))
        see_outside(dataflow, found)
        return found

    def writers(self, plan: PhysicalPlan, before: Ready | None = None) -> dict[str, SinkWriter]:
        """Return a writer for each sink; those of unchanged sinks are kept."""
        if before is None:
            return writers_of(plan, None, {}, self.writer)
        return writers_of(plan, before.plan, before.writers, self.writer)

    def succeed(  # noqa: PLR0913 - what a version is made of
        self,
        before: Ready,
        dataflow: Dataflow,
        *,
        text: str,
        version: int,
        migrate: Mapping[str, Migrate],
        assigned: Mapping[str, Factory],
        stream_ms: int,
        state: Callable[[], JournalState],
        deploy: Deploy | None = None,
    ) -> tuple[ChangeProgram, Ready]:
        """Make the next version, and the change that leads to it. state: returns the present state of the journal.

        deploy: if the dataflow is another text, what it declares and provides. Raises RefusedError, DataflowError; then
        nothing stays open.
        """
        check_outputs(dataflow, state().notes)
        declared = Declared() if deploy is None else deploy.declared
        sources, given_up = sources_of(dataflow), declared.without
        check_unread(
            self.store, state(), sources, without=given_up, renamed=declared.renamed, live=True
        )
        readers = self.readers(dataflow, before.readers)
        stored = partial(stored_schema_versions, self.store, state)
        try:
            schemas = self.schemas(dataflow, readers)
            upgrade = None
            if deploy is not None:
                upgrade = deployed_to(before.program, dataflow, schemas, deploy, stored, state())
                migrate = deploy.declared.undone(before.program.record)

            def make(at_ms: int) -> Succession:
                return succeed(
                    before.program,
                    dataflow,
                    schemas,
                    self.store,
                    text=text,
                    version=version,
                    defaults=self.defaults,
                    migrate=migrate,
                    assigned=assigned,
                    stream_ms=at_ms,
                    stored=stored,
                    deploy=deploy,
                )

            made = make(stream_ms)
            writers = self.writers(made.program.plan, before)
        except BaseException:
            _close_beside(readers, before.readers)
            raise
        moves_state = made.program.record["migrations"] != before.program.record["migrations"]
        ready = Ready(
            program=made.program,
            readers=readers,
            writers=writers,
            stamp=(lambda at_ms: make(at_ms).program) if moves_state else None,
            before=before,
            upgrade=upgrade,
            end_logs=lambda: end_logs(self.store, state(), sources, without=given_up, live=True),
        )
        return replace(made.change, base=before.program.version), ready

    def load(self, change: ChangeProgram, ready: Ready, position: StreamPosition) -> Ready:
        """Write the initial state of new operators; returns the version that has it. Raises DataflowError."""
        given = {n: make for n, make in given_state(ready.plan).items() if n in change.operators}
        loaded = load_added(
            given,
            ready.program.programs,
            self.loader,
            timestep=position.timestep,
            stream_ms=position.time_ms,
        )
        return replace(ready, loaded=loaded)
