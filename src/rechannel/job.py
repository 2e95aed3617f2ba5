"""The entry point: what a user starts.

A `Job` is a dataflow with a name and a state directory; `start()` checks everything, opens the journal and returns a
`RunningJob`, the handle on what runs.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rechannel.assembly import (
    Clock,
    Parts,
    ReplayText,
    Seams,
    Start,
    assemble,
    edit_state,
    plan_edit,
    plan_upgrade,
    replay,
)
from rechannel.control.controller import Controller, Installation, installations
from rechannel.dataflow.checks.check import check
from rechannel.dataflow.evolution.declared import Declared
from rechannel.dataflow.evolution.evolution import Logic
from rechannel.dataflow.evolution.migration import Migrate, check_migrate, functions_of
from rechannel.dataflow.graph.nodes import Sink
from rechannel.dataflow.identity.provided import provided_by
from rechannel.dataflow.pictures.svg import draw_svg
from rechannel.dataflow.pictures.text import draw_text
from rechannel.dataflow.streams.stream import Stream, dataflow_of, one_session
from rechannel.dataflow.streams.writer import Flow
from rechannel.engine.journal.lease import Holder, process_started
from rechannel.engine.journal.reading import kept_entries, read_only
from rechannel.engine.journal.standby import Standby, wait
from rechannel.engine.journal.this_driver import this_holder
from rechannel.engine.letters.choosing import Asked as LettersAsked
from rechannel.engine.letters.replaying import Letters
from rechannel.engine.program.explain import explain
from rechannel.engine.program.physical import compile_plan
from rechannel.engine.program.resetting import Reset
from rechannel.engine.program.steps import first_configuration
from rechannel.engine.program.versions import bound
from rechannel.engine.repair.editing import StateEdit
from rechannel.engine.repair.forking import fork
from rechannel.engine.repair.this_hand import this_hand, this_user
from rechannel.engine.replay.judging import Shown
from rechannel.engine.replay.programs import dataflow_then
from rechannel.engine.replay.selecting import Selection, asked_for, select
from rechannel.errors import DataflowError, NotReadyError, RefusedError
from rechannel.job_seams import InProcess, job_seams, steady_clock, wall_clock
from rechannel.kernels.tasks.edit import EditFunction
from rechannel.model.text import Text
from rechannel.monitoring import EditedState
from rechannel.reconfigure.arguments import check_words
from rechannel.reconfigure.deploy import Deploy
from rechannel.reconfigure.upgrade_plan import UpgradePlan
from rechannel.replayed import Replay, ReplayedLetters
from rechannel.running import Replayable, RunningJob, Server
from rechannel.serve import serve
from rechannel.serve.allowed import Allowed
from rechannel.settings import Settings
from rechannel.sinks.claims import Ledger
from rechannel.state.segments.segment import forget_segments
from rechannel.state.store import Store
from rechannel.state.stores.local import Durability, LocalStore, directory_of
from rechannel.state.stores.locations import open_store, place_of
from rechannel.state.stores.memory import MemoryStore
from rechannel.state.stores.overlay import OverlayStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["InProcess", "Job"]


class Job:
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
        self._allowed = Allowed(modules=tuple(_listed(allow)))
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
        return Text(explain(plan, first, on_spark=in_process is None))

    def replay(
        self,
        timesteps: range | int,
        *,
        logic: Mapping[str, Logic] | None = None,
        examples: int = 10,
        directory: str | os.PathLike[str] | None = None,
        allow: Sequence[str] = (),
        in_process: InProcess | None = None,
    ) -> Replay:
        """Run timesteps that this job's state directory has committed again in a sandbox, and compare.

        As `RunningJob.replay`, which see, with the logic of this program; the directory is only read. A job
        may run on it meanwhile, but in that case it may also remove what the replay needs: such a replay ends
        with NotReadyError.

        Args:
            timesteps: such as `range(5, 8)`.
            logic: by node, logic that takes the place of the program's.
            examples: rows that differ which are kept, of every node, timestep and operator and on either side.
            directory: for files of the replay; None = a temporary one, or memory in process.
            allow: modules as in `Job`, in addition to those, for functions that nodes were given while the
                stream ran.
            in_process: run without Spark.

        Raises:
            RefusedError, NotReadyError, UnknownOperatorError: as `RunningJob.replay`.
            DamagedStateError: stored bytes are not what was written.
        """
        asked, other = asked_for(timesteps), logic or {}
        allowed = self._allowing(allow)
        provided = provided_by(self.dataflow, self._migrations)
        selection = select(read_only(self._store), kept_entries(self._store), asked)
        find = allowed.controller if allowed.modules else None
        dataflow = dataflow_then(self.dataflow, selection, provided, find, other)
        text = ReplayText(dataflow=dataflow, provided=provided, logic=other)
        try:
            return self._replayed(selection, text, examples, directory, in_process)
        except Exception as error:
            kept = read_only(self._store).versions
            gone = [t for t in (*selection.started, *selection.committed) if t not in kept]
            if gone:
                msg = (
                    f"the replay of timesteps {asked[0]} to {asked[-1]} has ended: the job that runs on this state"
                    f" directory has gone on, and no longer keeps timestep {gone[0]}. Ask for later timesteps, or"
                    " replay with the running job itself, which keeps what a replay needs"
                )
                raise NotReadyError(msg) from error
            raise

    def _replay_running(
        self,
        in_process: InProcess | None,
        job: Replayable,
        timesteps: range,
        *,
        examples: int,
        directory: str | os.PathLike[str] | None,
    ) -> Replay:
        """What `RunningJob.replay` calls, while the versions are held."""
        selection = select(job.state, kept_entries(self._store), timesteps)
        job.check(timesteps, selection.program)
        return self._replayed(selection, job.text, examples, directory, in_process)

    def _replayed(
        self,
        selection: Selection,
        text: ReplayText,
        examples: int,
        directory: str | os.PathLike[str] | None,
        in_process: InProcess | None,
    ) -> Replay:
        with _sandbox(self._store, directory, in_process) as store:
            seams = job_seams(
                f"{self.name}-replay-{uuid.uuid4().hex[:8]}",
                store=store,
                settings=self.settings,
                clock=wall_clock,
                spark=None if in_process else self._session(),
                # Names of attempts of its own, and no faults.
                in_process=InProcess() if in_process else None,
            )
            return replay(
                seams,
                self._store,
                selection,
                text,
                settings=self.settings,
                shown=Shown(rows=examples),
            )

    def __repr__(self) -> str:
        ends = [node.name for node in self.dataflow.nodes if isinstance(node, Sink)]
        return f"<Job {self.name!r}: {len(self.dataflow.nodes)} nodes, sinks {ends}>"

    def _repr_html_(self) -> str:
        return self.svg()

    def stand_by(
        self,
        stop: Callable[[], bool] = lambda: False,
        tell: Callable[[str], None] = lambda _: None,
    ) -> bool:
        """Wait until no driver runs on the state directory.

        A driver on this host counts as ended when its process is gone, one on another host when it has not
        renewed its lease for 10 seconds of this host's clock. Several drivers may stand by; that the journal
        fences all but one of them does not depend on it.

        Args:
            stop: whether to give up; asked once a second.
            tell: called with a sentence about each driver that it waits for.

        Returns:
            False if `stop` said so.

        Raises:
            NotPermittedError: the state directory may not be read.
        """
        standby = Standby(where=this_holder().where, started=process_started)
        free = wait(
            self._store,
            standby,
            clock=steady_clock,
            sleep=time.sleep,
            stop=stop,
            tell=lambda holder: tell(
                f"standing by: process {holder.pid} on host {holder.host} runs the job"
            ),
        )
        self._ended = standby.seen if free else None
        return free

    def start(  # noqa: PLR0913 - what may be meant by a start
        self,
        *,
        takeover: bool = False,
        revert: bool = False,
        mended: bool = False,
        replan: bool = False,
        upgrade: bool = False,
        fresh: Collection[str] = (),
        without: Collection[str] = (),
        remove_later_output: bool = False,
        allow: Sequence[str] = (),
        clock: Clock = wall_clock,
        in_process: InProcess | None = None,
    ) -> RunningJob:
        """Open the state directory, recover what an earlier driver left, and run in a thread.

        Args:
            takeover: fence a driver that still runs on this directory; otherwise that is refused.
            revert: deliberately resume the program from before a live change. State that the change
                converted is converted back.
            mended: let functions of `rc.changes.migrate(using=...)` with other digests take the
                place of those that failed.
            replan: withdraw the timesteps that earlier drivers planned and could not commit, and
                plan them anew under the bounds of this program.
            upgrade: let this program take over from another one, and carry over its state: operators,
                sources and sinks may come, go and change by the rules of live changes, `migrate=`
                and `renamed=` of the job. What would be lost has to be named. If the program is the
                running one, this is a usual start.
            fresh: sources that the state directory does not know, to be read from their beginning;
                an upgrade needs no such permission.
            without: sources that the state directory knows and whose offsets are given up, sinks in
                quarantine whose unpublished timesteps are given up, and operators whose state an
                upgrade drops.
            remove_later_output: remove timesteps under the paths of sinks that the state directory
                does not know, because it was restored from an older copy; otherwise that is refused.
            allow: modules as in `Job`, in addition to those.
            clock: Unix milliseconds.
            in_process: run without Spark.

        Raises:
            StateInUseError, OtherDataflowError, OldProgramError, NewerFormatError: refused.
            DamagedStateError: stored bytes are not what was written.
            DataflowError, JavaError: the program or the machine cannot run it.
        """
        asked = Start(
            takeover=takeover,
            revert=revert,
            mended=mended,
            replan=replan,
            upgrade=upgrade,
            remove_later_output=remove_later_output,
            fresh=fresh,
            without=without,
            **self._declared(allow),
        )
        return self._running(self._assembled(asked, clock, in_process), in_process)

    def plan_upgrade(
        self,
        *,
        without: Collection[str] = (),
        allow: Sequence[str] = (),
        in_process: InProcess | None = None,
    ) -> UpgradePlan:
        """Return what `start(upgrade=True)` would do. The state directory is only read; a job may run on it.

        Args:
            without: what would be given up, as for `start`.
            allow: modules as in `Job`, in addition to those.
            in_process: plan without Spark.

        Raises:
            OtherDataflowError, OldProgramError: the upgrade would be refused; the message has the line that is
                missing in the program or at the start.
            DataflowError: the dataflow cannot run as written.
        """
        return plan_upgrade(
            self._seams(wall_clock, in_process),
            name=self.name,
            dataflow=self.dataflow,
            settings=self.settings,
            start=Start(upgrade=True, without=without, **self._declared(allow)),
        )

    def upgrade(
        self,
        *,
        without: Collection[str] = (),
        allow: Sequence[str] = (),
        in_process: InProcess | None = None,
    ) -> None:
        """Let this program take over in the state directory, as `start(upgrade=True)` does, and read no input.

        Timesteps that are committed are published; the next start goes on. If the program is the running one,
        nothing happens.

        Args:
            without: what is given up, as for `start`.
            allow: modules as in `Job`, in addition to those.
            in_process: without Spark.

        Raises:
            StateInUseError, OtherDataflowError, OldProgramError: refused, as by `start`.
        """
        asked = Start(upgrade=True, without=without, **self._declared(allow))
        parts = self._assembled(asked, wall_clock, in_process)
        parts.driver.stop()
        self._running(parts, in_process).await_termination()

    def reset(
        self,
        source: str,
        *,
        to: datetime | Mapping[str, Mapping[int, int]] | None = None,
        accept_repeats_and_gaps: bool = False,
        cause: str = "asked for in Python",
        allow: Sequence[str] = (),
        in_process: InProcess | None = None,
    ) -> bool:
        """Let a source go on from another place, and read no input; the next start goes on there.

        State stays, and so does what was published: rows that are read again count twice, and rows that are
        passed over are missing. Rows before the watermark are late. Timesteps that were planned and not
        committed are planned anew.

        Args:
            source: its name.
            to: where it begins: a time, or offsets by topic and partition, of a source that can begin there
                (Kafka); None = where a new job would begin to read it.
            accept_repeats_and_gaps: confirm that.
            cause: who asks and why, for the history.
            allow: modules as in `Job`, in addition to those.
            in_process: without Spark.

        Returns:
            False if the source is there already.

        Raises:
            RefusedError: it is not confirmed (the message says from where to where), or the source cannot begin
                there, or has not been read yet.
            StateInUseError: a driver runs on the state directory.
        """
        check_words(cause, "cause")
        wanted = Reset(source=source, to=to, accepted=accept_repeats_and_gaps, cause=cause)
        before = read_only(self._store).offsets.get(source)
        parts = self._assembled(
            Start(reset=wanted, **self._declared(allow)), wall_clock, in_process
        )
        parts.driver.stop()
        moved = parts.journal.state.offsets.get(source) != before
        self._running(parts, in_process).await_termination()
        return moved

    def edit_state(
        self,
        operator: str,
        function: EditFunction,
        *,
        reason: str,
        plan: bool = False,
        again: bool = False,
        allow: Sequence[str] = (),
        in_process: InProcess | None = None,
    ) -> EditedState:
        """Let a function make the state of an operator anew, as of the latest committed timestep. No driver may run.

        The function is given the rows as they are stored (key columns, then state columns, as
        `RunningJob.state_table` without hashes) as an Arrow table, and returns those that take their place, with the
        same columns and one row for each key. State of more than about a million rows is given in pieces, by the
        hashes of keys: a row must be returned in the call that its key belongs to. It is one entry of the journal.

        What was published stays, and an edit publishes nothing: downstream sees an edited key when a row of that key
        comes next. Savepoints, and earlier timesteps that are kept, are not touched.

        Args:
            operator: its name.
            function: makes the rows.
            reason: who asks and why, for the history.
            plan: only return what would be done.
            again: make an edit once more that was made already, with the same function and reason, on the same
                timestep.
            allow: modules as in `Job`, in addition to those.
            in_process: without Spark.

        Raises:
            StateInUseError: a driver runs on the state directory.
            OtherDataflowError, OldProgramError: the program is not the one of the state directory.
            UserFunctionError: what the function raises, or that it returns other columns, a key twice, or a key of
                another piece.
            RefusedError: the edit was made already.
            UnknownOperatorError, NotReadyError: there is no such operator, or no state yet.
        """
        check_words(reason, "reason")
        asked = StateEdit(
            operator=operator,
            function=function,
            path=f"{function.__module__}:{function.__qualname__}",
            cause=reason,
            again=again,
        )
        given: dict[str, Any] = {
            "name": self.name,
            "dataflow": self.dataflow,
            "start": Start(**self._declared(allow)),
        }
        seams = self._seams(wall_clock, in_process)
        if plan:
            return plan_edit(seams, asked, **given)
        return edit_state(seams, asked, this_hand(), this_user(), **given)

    def replay_dead_letters(
        self,
        *operators: str,
        error: str = "",
        since: int | None = None,
        until: int | None = None,
        plan: bool = False,
        cause: str = "asked for in Python",
    ) -> ReplayedLetters:
        """Let rows that operators could not handle be tried once more, as input of the next timesteps.

        The program has to be the one that the state directory belongs to; the job may run meanwhile, or be started
        later. Each dead letter is taken once, by one call: a call that dies before it has taken any changes nothing.
        A row that fails again is a dead letter again, whose `offset` says how many `attempts` there were.

        Args:
            operators: with `with_replays` before them; none = all of them.
            error: only those whose error has this text in it.
            since, until: only those of these timesteps, ends included.
            plan: only return what would be taken.
            cause: who asks and why.

        Raises:
            RefusedError: an operator takes no replayed rows, its dead letters cannot be read back, or the
                program is not the one of the state directory.
            UnknownOperatorError: there is no such operator.
            NotReadyError: nothing is committed yet.
        """
        check_words(cause, "cause")
        asked = LettersAsked(
            operators=operators, error=error, since=since, until=until, cause=cause
        )
        letters = Letters(dataflow=self.dataflow, store=self._store, state=read_only(self._store))
        return letters.plan(asked) if plan else letters.replay(asked, int(wall_clock()))

    def fork(self, new: str | os.PathLike[str], *, at: str | None = None) -> int:
        """Begin another state directory at a savepoint of this job's; the timestep after which it begins.

        Segments are linked, not copied: both directories have to be on one file system. The program of the
        fork gives its sinks other places.

        Args:
            new: a directory that is not there yet.
            at: the savepoint, and the job may run; None = the latest commit, and no driver may run.

        Raises:
            RefusedError: the directory is there already, or cannot have links to this one's files.
            NotReadyError: there is no such savepoint, or no commit.
            StateInUseError: a driver runs, and no savepoint is named.
        """
        origin = directory_of(self._store)
        if origin is None:
            msg = "the state of this job is not in a directory: only segments in a file system can be linked"
            raise RefusedError(msg)
        return fork(origin, Path(new), this_hand(), at).timestep

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

    def _assembled(self, asked: Start, clock: Clock, in_process: InProcess | None) -> Parts:
        seams = self._seams(clock, in_process)
        return assemble(
            seams, name=self.name, dataflow=self.dataflow, settings=self.settings, start=asked
        )

    def _running(self, parts: Parts, in_process: InProcess | None) -> RunningJob:
        replayer = partial(self._replay_running, in_process)
        return RunningJob(parts, self._serve, replayer, self._deploy_of)

    def _deploy_of(self, job: Job, *, without: Collection[str], what: str) -> Deploy:
        """What `RunningJob.deploy` calls. job: the text that is to take over from this one."""
        if not isinstance(job, Job):
            msg = f"deploy() takes an rc.Job that is not started, not {type(job).__name__}"
            raise DataflowError(msg)
        places = [place_of(store) for store in (self._store, job._store)]
        if job.name != self.name or (None not in places and places[0] != places[1]):
            msg = (
                f"the text is that of job {job.name!r} in {places[1]}, and job {self.name!r} runs in {places[0]}:"
                " deploy it to that one, or give it this name and state directory"
            )
            raise RefusedError(msg)
        declared = Declared(renamed=job._renamed, migrate=job._migrate, without=tuple(without))
        return Deploy(
            dataflow=job.dataflow,
            declared=declared,
            provided=provided_by(job.dataflow, job._migrations),
            what=what,
        )

    def _allowing(self, more: Sequence[str]) -> Allowed:
        """What the job allows, and more."""
        return Allowed(modules=(*self._allowed.modules, *_listed(more)))

    def _serve(
        self,
        job: RunningJob,
        *,
        host: str,
        port: int,
        token: str | None,
        allow: Sequence[str],
        programs: Sequence[str],
    ) -> Server:
        """Serve the running job; what this one allows is allowed to requests."""
        modules = (*self._allowed.modules, *_listed(allow))
        return serve(
            job,
            host=host,
            port=port,
            token=token,
            allow=modules,
            programs=_listed(programs),
            kind=Job,
        )

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


@contextmanager
def _sandbox(
    base: Store, directory: str | os.PathLike[str] | None, in_process: InProcess | None
) -> Iterator[OverlayStore]:
    """An overlay for a replay. What is written to it is gone at the end."""
    if directory is not None and not Path(directory).is_dir():
        msg = (
            f"directory={directory} is not there: make it, on a file system that all executors see"
        )
        raise RefusedError(msg)
    with ExitStack() as undo:
        upper: Store = MemoryStore()
        if directory is not None or in_process is None:
            place = TemporaryDirectory(prefix="rechannel-replay-", dir=directory)
            upper = LocalStore(Path(undo.enter_context(place)), Durability.PROCESS)
        made = OverlayStore(upper=upper, lower=base)
        undo.callback(forget_segments, made)
        yield made


def _listed(modules: Sequence[str]) -> Sequence[str]:
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
