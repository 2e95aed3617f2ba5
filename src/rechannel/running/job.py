"""The handle on a running job: what `Job.start` returns."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from rechannel.advising.stream import stream_advice
from rechannel.assembly import Parts
from rechannel.control.controller import Controller, Installation, installations
from rechannel.dataflow.evolution.evolution import Logic
from rechannel.engine.journal.acts import acts_of
from rechannel.engine.journal.savepoints import savepoints_of
from rechannel.engine.letters.choosing import Asked as LettersAsked
from rechannel.engine.loop.heartbeat import RENEW_SECONDS
from rechannel.engine.loop.life import Life
from rechannel.engine.reconfigure.calls import wait_for
from rechannel.engine.reconfigure.history_reader import HistoryReader
from rechannel.engine.replay.selecting import asked_for
from rechannel.errors import NotReadyError
from rechannel.exporting.exporter import exporter_of
from rechannel.exporting.opentelemetry import OpenTelemetry
from rechannel.logs import logging_for
from rechannel.monitoring import Act, JobListener, SavepointStatus
from rechannel.reconfigure.arguments import check_words
from rechannel.reconfigure.record import OPEN
from rechannel.replayed import Replay, ReplayedLetters
from rechannel.running import savepoints
from rechannel.running.changed import Changed
from rechannel.running.controllers import ControllerHandle
from rechannel.running.deploying import Texts
from rechannel.running.latest import Latest
from rechannel.running.letters import replay_letters
from rechannel.running.listening import Heard, Listening
from rechannel.running.queried import Queried
from rechannel.running.reconfiguration import ASKED
from rechannel.running.replaying import Replayer, replayable
from rechannel.running.seen import seen_of
from rechannel.running.server import Server, ServerFactory
from rechannel.scaling.measured import Machines
from rechannel.scaling.needs.asked import Asked
from rechannel.scaling.needs.values import StreamAdvice
from rechannel.telemetry.saved import SavedRun


class RunningJob(Changed, Queried):
    """The handle on a running job. All methods may be called from any thread."""

    def __init__(
        self, parts: Parts, serve: ServerFactory, replayer: Replayer, texts: Texts
    ) -> None:
        """Start the threads. serve, replayer, texts: what `serve`, `replay` and `deploy` call; only the entry point
        knows them.
        """
        self._parts = parts
        self._serve = serve
        self._texts = texts
        self._replayer = replayer
        parts.controllers.replayer = self.replay
        self._driver = parts.driver
        self._hub = parts.hub
        with logging_for(parts.name):
            self._life = Life(
                parts.name,
                driver=parts.driver,
                journal=parts.journal,
                housekeeper=parts.housekeeper,
                lease=parts.lease,
                hub=parts.hub,
                renew_seconds=RENEW_SECONDS,
            )
        self._over = self._life.over
        self._bins, self._flow = Latest(), Latest()
        self._history = HistoryReader(parts.store)
        self._run = object()  # tells this run from others of the job
        self._life.start()

    # Watching ------------------------------------------------------------------------------------------------

    def listen(self, listener: JobListener) -> Listening:
        """Have a listener hear what the job does from now on, in a thread of its own.

        Nothing of the stream waits for it. What it raises is logged. One that is slower than the stream misses
        timesteps (`Listening.missed`).
        """
        return Listening(listener, self._heard())

    def _heard(self) -> Heard:
        return Heard(
            status=lambda: self.status,
            progress=lambda: self.recent_progress,
            ended=lambda: [
                r.id for r in self._parts.changes.coordination.records if r.phase not in OPEN
            ],
            summary=lambda id_: self.reconfiguration(id_).summary(),
            follow=self._hub.follow,
            leave=self._hub.leave,
            over=self._over,
        )

    def export(self, to: OpenTelemetry) -> Listening:
        """Export metrics of this job, and traces of its timesteps, from now on until the job ends.

        Nothing of the stream waits for it. What fails is in `status.troubles` under "opentelemetry". `close()` on what
        is returned ends it; `join()` waits until all of a job that has ended is passed to the providers.
        """
        look = partial(seen_of, self)
        exporter = exporter_of(to, self.name, look, self._hub.troubles, self._run)
        return Listening(exporter, self._heard(), exporter.close, exporter.look)

    def release(self, sink: str) -> int:
        """Let a sink in quarantine publish what it owes; returns how many timesteps. Raises NotReadyError."""
        return self._parts.publisher.release(sink)

    # Waiting and stopping ------------------------------------------------------------------------------------

    def process_all_available(self, timeout: float | None = None) -> None:
        """Wait until all input that is there now is committed and published, or the job is stopped by another thread.

        Raises:
            NotReadyError: after `timeout` seconds.
            RechannelError: what the job failed with.
        """
        if not self._driver.drain(timeout):
            msg = f"job {self.name!r} has not processed its input after {timeout} s; wait longer"
            raise NotReadyError(msg)
        if self._driver.finished.is_set():
            # The last facts are written before the error is shown.
            self._over.wait(timeout)
        self._raise()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the job ends. Returns False after `timeout` seconds. Raises what the job failed with."""
        ended = self._over.wait(timeout)
        if ended:
            self._raise()
        return ended

    def stop(self, timeout: float | None = None) -> None:
        """Finish the timesteps in flight, publish them, and end. Raises what the job failed with.

        A store or a sink that fails meanwhile is retried for `Patience.stop_seconds`.

        Args:
            timeout: seconds to wait for the end; None = however long it takes.

        Raises:
            NotReadyError: after `timeout` seconds. The job goes on ending; what is committed stays.
        """
        self._driver.stop()
        if not self.await_termination(timeout):
            msg = (
                f"job {self.name!r} has not ended in {timeout} s: a timestep or a sink takes longer. It is ending:"
                " wait with await_termination, or end the process: what is committed stays"
            )
            raise NotReadyError(msg)

    def _raise(self) -> None:
        error = self.exception
        if error is not None:
            raise error

    # The past and the places to go back to ------------------------------------------------------------------

    def savepoint(self, name: str, *, cause: str = ASKED) -> SavepointStatus:
        """Name the latest committed timestep. Its state stays for as long as it has the name; nothing else waits.

        `rechannel fork` begins another state directory there.

        Args:
            name: letters, digits, ".", "_" and "-", at most 64. There may be 16 savepoints.
            cause: who asks and why, for the history.

        Raises:
            RefusedError: there is one of that name, or there are too many.
            NotReadyError: no timestep is committed yet.
        """
        return savepoints.make(self._parts, name, cause)

    @property
    def savepoints(self) -> dict[str, SavepointStatus]:
        """The savepoints by name, oldest first."""
        return dict(savepoints_of(self._parts.journal.state))

    def drop_savepoint(self, name: str, *, cause: str = ASKED) -> None:
        """Drop a savepoint: files that only it needs are removed later. Raises NotReadyError if there is none."""
        savepoints.drop(self._parts, name, cause)

    @property
    def acts(self) -> list[Act]:
        """What else was done to this state directory, oldest first: upgrades, forks, savepoints, resets, edits.

        The latest 256 are kept. A deploy is a reconfiguration: see `history`.
        """
        return [Act.from_dict(dict(one)) for one in acts_of(self._parts.journal.state.notes)]

    # Controllers ---------------------------------------------------------------------------------------------

    def control(self, controller: Controller | Installation) -> ControllerHandle:
        """Install a controller in the running stream. Nothing of the stream waits for it.

        Args:
            controller: an instance, or one with settings as `rc.control.install` returns it.

        Raises:
            RefusedError: there is one of its name already, or the job has ended.
        """
        (installation,) = installations([controller]).values()
        answer = self._parts.controllers.install(installation)
        wait_for(answer, "the installation of a controller")
        return ControllerHandle(self._parts.controllers, installation.name)

    @property
    def controllers(self) -> dict[str, ControllerHandle]:
        """Handles on the controllers that are installed, by name, in the order of their installation."""
        host = self._parts.controllers
        return {name: ControllerHandle(host, name) for name in host.board.seats}

    def advice(
        self,
        *,
        policy: str = "ds2-timesteps",
        utilisation: float = 0.8,
        interval: float | None = None,
        rate: float | None = None,
        window: float = 10.0,
    ) -> StreamAdvice:
        """Return how much the stream needs by what was measured, and what its controllers have decided.

        Nothing changes. It needs no controller: `operators` and `needs` are what a policy says of the latest timesteps.
        `controllers` has the latest decisions of those that decide something, with its evidence and what became of it.

        policy: its name. utilisation: share of the interval that may be used. interval: seconds between timesteps;
        None = that of the stream. rate: rows per second that arrive; None = what was measured. window: seconds that a
        window covers.

        Raises RefusedError for an argument out of its range, or a policy that cannot judge this stream.
        """
        asked = Asked(
            policy=policy,
            utilisation=utilisation,
            window_s=window,
            interval_ms=None if interval is None else interval * 1e3,
            rate=rate,
        )
        cores = self._parts.runner.placed().executors
        machines = (
            Machines(executors=len(cores), cores_per_executor=max(cores.values()))
            if cores
            else None
        )
        return stream_advice(
            SavedRun(
                job=self.name,
                progress=tuple(self._hub.recent_progress),
                tasks=self._hub.recent_tasks,
            ),
            self._parts.controllers.board,
            asked,
            configurations=[each for _, each in self._parts.journal.state.configurations],
            machines=machines,
        )

    def readmit(self, find: Callable[[str], Any]) -> tuple[str, ...]:
        """Bring back controllers that were installed by their path and that this driver does not have.

        find: imports what a path names, after it has checked that it may. Returns the names of those that are back.
        """
        return self._parts.controllers.readmit(find)

    def serve(
        self,
        host: str = "127.0.0.1",
        port: int = 8520,
        token: str | None = None,
        allow: Sequence[str] = (),
        programs: Sequence[str] = (),
    ) -> Server:
        """Answer HTTP requests until the job ends: watch, plan, reconfigure, deploy, abort, history, metrics.

        Args:
            host: address to listen at.
            port: 0 = any free one.
            token: that every request must bear; None = one is made (`server.token`) and written to a file
                that commands of the same user on this machine find.
            allow: modules, with their submodules, whose functions (`assign_logic`) and controllers
                requests may name, beside those of `rc.Job(allow=...)`. Controllers that were
                installed by such a path come back if this driver does not have them.
            programs: files and directories on this machine with programs that requests may deploy: a
                request names one of them, and this process imports it.

        Raises:
            SetUpError: the extra `serve` is not installed.
            RefusedError: the port is taken, or a place of programs may be written by every user.
        """
        return self._serve(self, host=host, port=port, token=token, allow=allow, programs=programs)

    # The past ------------------------------------------------------------------------------------------------

    def replay(
        self,
        timesteps: range | int,
        *,
        logic: Mapping[str, Logic] | None = None,
        examples: int = 10,
        directory: str | os.PathLike[str] | None = None,
    ) -> Replay:
        """Run committed timesteps again in a sandbox, with the same or other logic, and compare the results.

        They begin with the state of then, and read the same rows under the same Configurations. The job goes
        on meanwhile, untouched: nothing is written to its state directory, and nothing is published. User
        functions run, with whatever they do outside. On Spark, tasks of a replay take slots like any others.

        Args:
            timesteps: such as `range(5, 8)`; how far back it may reach is decided by `Settings.keep_versions`
                and `Settings.snapshot_every`.
            logic: by node, a function of the same shape, as for `rc.changes.change_logic`; None = the same.
            examples: rows that differ which are kept, of every node, timestep and operator and on either side.
            directory: where the replay makes a directory for its own files, on a file system that all
                executors see; None = a temporary one, or memory in process.

        Raises:
            RefusedError: the timesteps or the logic do not allow it, with the reason.
            NotReadyError: they are not committed yet, or not kept any more.
            UnknownOperatorError: `logic` names no node.
        """
        asked = asked_for(timesteps)
        with replayable(self._parts, asked, logic or {}) as job:
            return self._replayer(job, asked, examples=examples, directory=directory)

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

        As `Job.replay_dead_letters`, which see, with the program that runs.

        Args:
            operators: with `with_replays` before them; none = all of them.
            error: only those whose error has this text in it.
            since, until: only those of these timesteps, ends included.
            plan: only return what would be taken.
            cause: who asks and why.

        Raises:
            RefusedError: an operator takes no replayed rows, or its dead letters cannot be read back.
            UnknownOperatorError: there is no such operator.
            NotReadyError: nothing is committed yet.
        """
        check_words(cause, "cause")
        asked = LettersAsked(
            operators=operators, error=error, since=since, until=until, cause=cause
        )
        return replay_letters(self._parts, asked, plan=plan)
