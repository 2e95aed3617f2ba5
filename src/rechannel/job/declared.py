"""What a job is made of, and what can be said of it before it runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rechannel.assembly import (
    Clock,
    Seams,
)
from rechannel.control.controller import Controller, Installation, installations
from rechannel.dataflow.checks.check import check
from rechannel.dataflow.evolution.migration import Migrate, check_migrate, functions_of
from rechannel.dataflow.graph.nodes import Sink
from rechannel.dataflow.identity.provided import provided_by
from rechannel.dataflow.pictures.svg import draw_svg
from rechannel.dataflow.pictures.text import draw_text
from rechannel.dataflow.streams.stream import Stream, dataflow_of, one_session
from rechannel.dataflow.streams.writer import Flow
from rechannel.engine.journal.lease import Holder
from rechannel.engine.loop.core.inline import Choice
from rechannel.engine.program.explain import explain
from rechannel.engine.program.physical import compile_plan
from rechannel.engine.program.steps import first_configuration
from rechannel.engine.program.versions import bound
from rechannel.errors import DataflowError
from rechannel.job_seams import InProcess, job_seams, wall_clock
from rechannel.model.text import Text
from rechannel.serve.allowed import Allowed
from rechannel.settings import Settings
from rechannel.sinks.claims import Ledger
from rechannel.state.store import Store
from rechannel.state.stores.locations import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class DeclaredJob:
    """A dataflow, its name and its state directory. Making one runs nothing and checks what can be checked."""

    def __init__(  # noqa: PLR0913 - what a job is made of
        self,
        name: str,
        flows: Flow | Stream | Sequence[Flow | Stream],
        *,
        state: str | os.PathLike[str] | Store,
        settings: Settings | None = None,
        spark: SparkSession | None = None,
        migrations: Sequence[Callable[..., Any]] = (),
        migrate: Mapping[str, Migrate] | None = None,
        renamed: Mapping[str, str] | None = None,
        controllers: Sequence[Controller | Installation] = (),
        allow: Sequence[str] = (),
    ) -> None:
        """Check the dataflow.

        Args:
            name: of the job, in messages and files.
            flows: one or several ends: `stream.write...`, or an operator whose state is only queried.
            state: a directory of its own on a file system that all executors see, or the URL of a
                folder in an object store.
            settings: None = `Settings()`.
            spark: the session; None = that of the streams, or a new one at the start.
            migrations: functions that `rc.changes.migrate(using=...)` was given while the job ran,
                for as long as state of an earlier version is stored. Functions in modules of the
                dataflow are found without.
            migrate: by operator, what becomes of its state when this program takes over from another
                one with `start(upgrade=True)`, as `rc.changes.migrate` says it. It is carried out
                once; it may stay in the program.
            renamed: new names of operators and sources that have other names in this program than
                in the one before it, by their old names. It may stay in the program, too.
            controllers: programs that run inside the stream (`rc.control`). One that the state
                directory knows by its name goes on with its state.
            allow: modules, with their submodules, whose functions and controllers may be named by
                their import path: over HTTP, and by the state directory, which knows the
                controllers that were installed so, and the factories of functions that were
                assigned with parameters.

        Raises:
            DataflowError: the dataflow cannot run as written.
            RefusedError, SetUpError: the state directory cannot be used.
        """
        if not name or not isinstance(name, str):
            msg = f"a job needs a name, not {name!r}"
            raise DataflowError(msg)
        ends = [flows] if isinstance(flows, Flow | Stream) else list(flows)
        self.name = name
        self.dataflow = dataflow_of(*ends)
        self.settings = settings or Settings()
        self._spark = spark if spark is not None else one_session(*ends)
        self._store = state if isinstance(state, Store) else _open_store(state, self.settings)
        self._ended: Holder | None = None
        """Who ran the job, as `stand_by` saw it."""
        self._migrate, self._renamed = dict(migrate or {}), dict(renamed or {})
        check_migrate(self._migrate)
        self._migrations = (*migrations, *functions_of(self._migrate))
        self._controllers = installations(controllers)
        self._allowed = Allowed(modules=tuple(listed(allow)))
        provided_by(self.dataflow, self._migrations)
        check(self.dataflow, _dumps)

    def picture(self) -> Text:
        """Draw the dataflow with box characters."""
        return Text(draw_text(self.dataflow))

    def svg(self) -> str:
        """Draw the dataflow as a standalone SVG."""
        return draw_svg(self.dataflow)

    def explain(self, *, in_process: InProcess | None = None) -> Text:
        """Return the physical plan that a new job starts with: stages, tasks, state, sinks, the order of a timestep.

        It also says where tasks run, and which live changes each part can take.

        Nothing runs, and the state directory is not opened: `RunningJob.explain` shows what live
        changes have made of it. Sources and Spark are asked for columns that the program does not give.

        Args:
            in_process: explain without Spark.

        Raises:
            DataflowError: the dataflow cannot run as written.
        """
        opener = self._seams(wall_clock, in_process).opener(
            lambda: self.name, partial(Ledger, opening="", epoch=0)
        )
        readers = opener.readers(self.dataflow, {})
        try:
            schemas = opener.schemas(self.dataflow, readers)
        finally:
            for reader in readers.values():
                reader.close()
        plan = compile_plan(self.dataflow, schemas, bound(self.dataflow, schemas))
        first = first_configuration(
            plan,
            interval_ms=self.settings.interval_ms,
            in_flight=self.settings.in_flight,
            **opener.defaults,
        )
        choice = Choice(rows=self.settings.inline_rows, native=lambda name: readers[name].native)
        inline = choice.described(plan, first)
        return Text(explain(plan, first, on_spark=in_process is None, inline=inline))

    def __repr__(self) -> str:
        ends = [node.name for node in self.dataflow.nodes if isinstance(node, Sink)]
        return f"<Job {self.name!r}: {len(self.dataflow.nodes)} nodes, sinks {ends}>"

    def _repr_html_(self) -> str:
        return self.svg()

    def _declared(self, allow: Sequence[str]) -> dict[str, Any]:
        """What the job says of every start. allow: modules that are allowed, in addition to its own."""
        allowed = self._allowing(allow)
        return {
            "renamed": self._renamed,
            "migrate": self._migrate,
            "migrations": self._migrations,
            "controllers": self._controllers,
            "find": allowed.controller if allowed.modules else None,
        }

    def _allowing(self, more: Sequence[str]) -> Allowed:
        """What the job allows, and more."""
        return Allowed(modules=(*self._allowed.modules, *listed(more)))

    def _seams(self, clock: Clock, in_process: InProcess | None) -> Seams:
        return job_seams(
            self.name,
            store=self._store,
            settings=self.settings,
            clock=clock,
            spark=None if in_process else self._session(),
            in_process=in_process,
            ended=self._ended,
        )

    def _session(self) -> SparkSession:
        if self._spark is not None:
            return self._spark
        from rechannel.engine.spark.session.session import session

        made: SparkSession = session()
        return made


def listed(modules: Sequence[str]) -> Sequence[str]:
    """Return names of modules; a single one may be given alone."""
    return (modules,) if isinstance(modules, str) else modules


def _open_store(state: str | os.PathLike[str], settings: Settings) -> Store:
    return open_store(
        state,
        durability=settings.durability,
        cache=settings.cache,
        cache_bytes=settings.cache_bytes,
    )


def _dumps(value: Any) -> bytes:
    from pyspark import cloudpickle

    data: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return data
