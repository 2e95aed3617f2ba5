"""The start of a job."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from functools import partial

from rechannel.assembly import (
    Clock,
    Parts,
    Start,
    assemble,
)
from rechannel.dataflow.evolution.declared import Declared
from rechannel.dataflow.identity.provided import provided_by
from rechannel.engine.journal.lease import process_started
from rechannel.engine.journal.standby import Standby, wait
from rechannel.engine.journal.this_driver import this_holder
from rechannel.errors import DataflowError, RefusedError
from rechannel.job.declared import listed
from rechannel.job.replaying import ReplayableJob
from rechannel.job_seams import InProcess, steady_clock, wall_clock
from rechannel.reconfigure.deploy import Deploy
from rechannel.running import RunningJob, Server
from rechannel.serve import serve
from rechannel.state.stores.locations import place_of


class StartableJob(ReplayableJob):
    """Starts, and what a running job needs of the text that it was started from."""

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

    def _assembled(self, asked: Start, clock: Clock, in_process: InProcess | None) -> Parts:
        seams = self._seams(clock, in_process)
        return assemble(
            seams, name=self.name, dataflow=self.dataflow, settings=self.settings, start=asked
        )

    def _running(self, parts: Parts, in_process: InProcess | None) -> RunningJob:
        replayer = partial(self._replay_running, in_process)
        return RunningJob(parts, self._serve, replayer, self._deploy_of)

    def _deploy_of(self, job: StartableJob, *, without: Collection[str], what: str) -> Deploy:
        """What `RunningJob.deploy` calls. job: the text that is to take over from this one."""
        if not isinstance(job, StartableJob):
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
        modules = (*self._allowed.modules, *listed(allow))
        return serve(
            job,
            host=host,
            port=port,
            token=token,
            allow=modules,
            programs=listed(programs),
            kind=StartableJob,
        )
