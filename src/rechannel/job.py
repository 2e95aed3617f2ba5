"""The front hall: what a user starts.

A `Job` is a dataflow with a name and a state directory; `start()` checks everything, opens the journal and returns a
`RunningJob`, the handle on what runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from rechannel.assembly import Clock, Start, assemble
from rechannel.dataflow.check import check
from rechannel.dataflow.picture import draw_text
from rechannel.dataflow.provided import provided_by
from rechannel.dataflow.stream import Stream, dataflow_of, one_session
from rechannel.dataflow.svg import draw_svg
from rechannel.dataflow.writer import Flow
from rechannel.errors import DataflowError
from rechannel.running import RunningJob
from rechannel.seams import InProcess, job_seams, wall_clock
from rechannel.serve import serve
from rechannel.settings import Settings
from rechannel.state.store import Store
from rechannel.state.stores.opening import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["InProcess", "Job"]


class Job:
    """A dataflow, its name and its state directory. Making one runs nothing and checks what can be checked."""

    def __init__(
        self,
        name: str,
        flows: Flow | Stream | Sequence[Flow | Stream],
        *,
        state: str | os.PathLike[str] | Store,
        settings: Settings | None = None,
        spark: SparkSession | None = None,
        migrations: Sequence[Callable[..., Any]] = (),
    ) -> None:
        """Check the dataflow.

        name: of the job, in messages and files. flows: one or several ends (`stream.write...`, or an
        operator whose state is
        queried only). state: a directory of its own, on a file system that all executors see, or the URL of a folder
        in an object store. migrations: functions that `rc.changes.migrate(using=...)` was given while the job ran, for
        as long as state of an earlier version is stored; those in modules of the dataflow are found without.
        Raises DataflowError, RefusedError, SetUpError.
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
        self._migrations = tuple(migrations)
        provided_by(self.dataflow, self._migrations)
        check(self.dataflow, _dumps)

    def picture(self) -> str:
        """The dataflow as text."""
        return draw_text(self.dataflow)

    def svg(self) -> str:
        """The dataflow as a standalone SVG."""
        return draw_svg(self.dataflow)

    def start(  # noqa: PLR0913 - what may be meant by a start
        self,
        *,
        takeover: bool = False,
        revert: bool = False,
        mended: bool = False,
        replan: bool = False,
        fresh: Collection[str] = (),
        without: Collection[str] = (),
        remove_later_output: bool = False,
        clock: Clock = wall_clock,
        in_process: InProcess | None = None,
    ) -> RunningJob:
        """Open the state directory, recover what an earlier driver left, and run in a thread.

        takeover: fence a driver that still runs on this directory instead of being refused. revert: this is the
        program of before a live change, and that is meant: it leads back, also where the change converted state.
        mended: functions of `rc.changes.migrate(using=...)` whose digests differ are meant to take the place of those
        that failed. replan: timesteps that earlier drivers intended and could not commit are withdrawn and planned
        anew, in the bounds that this program has. fresh: sources that
        this state directory does not know and that are meant to be read from their beginning, beside the state that
        there is; without: sources that it knows and that are given up with their offsets, and sinks
        in quarantine that are given up with the rows that they owe. remove_later_output: the
        state directory was restored from an older copy on purpose: timesteps in the paths of its sinks that it knows
        nothing of are removed, not refused. in_process: run without Spark.
        Raises StateInUseError, OtherDataflowError, OldProgramError, NewerFormatError, DamagedStateError,
        DataflowError, JavaError.
        """
        spark = None if in_process else self._session()
        seams = job_seams(
            self.name,
            store=self._store,
            settings=self.settings,
            clock=clock,
            spark=spark,
            in_process=in_process,
        )
        asked = Start(
            takeover=takeover,
            revert=revert,
            mended=mended,
            replan=replan,
            remove_later_output=remove_later_output,
            fresh=fresh,
            without=without,
            migrations=self._migrations,
        )
        parts = assemble(
            seams, name=self.name, dataflow=self.dataflow, settings=self.settings, start=asked
        )
        return RunningJob(parts, serve)

    def _session(self) -> SparkSession:
        if self._spark is not None:
            return self._spark
        from rechannel.engine.spark.session.session import session

        made: SparkSession = session()
        return made


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
