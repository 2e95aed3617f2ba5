"""The entry point: what a user starts.

A `Job` is a dataflow with a name and a state directory; `start()` checks everything, opens the journal and returns a
`RunningJob`, the handle on what runs. What can be done to a job that does not run is here.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from rechannel.assembly import (
    Start,
    edit_state,
    plan_edit,
    plan_upgrade,
)
from rechannel.engine.journal.reading import read_only
from rechannel.engine.letters.choosing import Asked as LettersAsked
from rechannel.engine.letters.replaying import Letters
from rechannel.engine.program.resetting import Reset
from rechannel.engine.repair.editing import StateEdit
from rechannel.engine.repair.forking import fork
from rechannel.engine.repair.this_hand import this_hand, this_user
from rechannel.errors import RefusedError
from rechannel.job.starting import StartableJob
from rechannel.job_seams import InProcess, wall_clock
from rechannel.kernels.tasks.edit import EditFunction
from rechannel.monitoring import EditedState
from rechannel.reconfigure.arguments import check_words
from rechannel.reconfigure.upgrade_plan import UpgradePlan
from rechannel.replayed import ReplayedLetters
from rechannel.state.stores.local import directory_of


class Job(StartableJob):
    """A dataflow, its name and its state directory. Making one runs nothing and checks what can be checked."""

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
