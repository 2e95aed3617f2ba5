"""Timesteps that a job has committed, run again in a sandbox."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rechannel.assembly import (
    ReplayText,
    replay,
)
from rechannel.dataflow.evolution.evolution import Logic
from rechannel.dataflow.identity.provided import provided_by
from rechannel.engine.journal.reading import kept_entries, read_only
from rechannel.engine.replay.judging import Shown
from rechannel.engine.replay.programs import dataflow_then
from rechannel.engine.replay.selecting import Selection, asked_for, select
from rechannel.errors import NotReadyError, RefusedError
from rechannel.job.declared import DeclaredJob
from rechannel.job_seams import InProcess, job_seams, wall_clock
from rechannel.replayed import Replay
from rechannel.running import Replayable
from rechannel.state.segments.segment import forget_segments
from rechannel.state.store import Store
from rechannel.state.stores.local import Durability, LocalStore
from rechannel.state.stores.memory import MemoryStore
from rechannel.state.stores.overlay import OverlayStore


class ReplayableJob(DeclaredJob):
    """Replays of what the state directory has."""

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
