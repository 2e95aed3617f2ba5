"""The part of the handle on a running job that changes it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from rechannel.dataflow.evolution.evolution import stream_of
from rechannel.dataflow.streams.stream import Stream
from rechannel.engine.program.deploying import UnchangedError
from rechannel.engine.reconfigure.calls import wait_for
from rechannel.engine.reconfigure.history_reader import HistoryReader
from rechannel.engine.reconfigure.proposal import proposed_change
from rechannel.engine.reconfigure.switch import offered_change
from rechannel.errors import RefusedError
from rechannel.logs import logging_for
from rechannel.monitoring import ReconfigurationSummary
from rechannel.reconfigure.arguments import check_at, check_words, strategy_of
from rechannel.reconfigure.edits import AnyChange, ChangeSet, change_set
from rechannel.reconfigure.moment import EventMoment
from rechannel.reconfigure.plan import Plan, plan
from rechannel.reconfigure.requests import Request
from rechannel.reconfigure.strategies import Strategy
from rechannel.reconfigure.upgrade_plan import UpgradePlan
from rechannel.running.deploying import Texts, plan_deploy, request_of
from rechannel.running.observed import Observed
from rechannel.running.reconfiguration import ASKED, Reconfiguration, abort


class Changed(Observed):
    """The part of the handle on a running job that plans changes, makes them, and tells what became of them."""

    _texts: Texts
    _history: HistoryReader

    def plan(
        self, change: AnyChange | Sequence[AnyChange], strategy: Strategy | None = None
    ) -> Plan:
        """Say what a change would do: operators, tasks, bins, bytes, timesteps, expected cost. Nothing happens.

        `plan.topology` says which tasks it affects and who sends state to whom, `plan.svg()` draws it.

        Args:
            change: as for `reconfigure`.
            strategy: as for `reconfigure`; None = all at once.

        Raises:
            RefusedError, UnknownOperatorError: `reconfigure` would raise it.
        """
        how = strategy_of(strategy)
        now = wait_for(self._parts.changes.request_view(), "the question for a plan")
        state = self._parts.changes.coordination
        cost = self._parts.measured.ms_per_byte
        switch, opener = self._parts.switch, self._parts.opener
        with proposed_change(change_set(change), switch, opener, self._driver.position) as made:
            return plan(state, made.change, how, now, cost, made.channels)

    def stream(self, name: str) -> Stream:
        """Return the rows of a node of the running dataflow, to build a branch on.

        `job.reconfigure(rc.changes.add(job.stream("delays").write.parquet(path)))`

        Raises UnknownOperatorError.
        """
        return stream_of(self._parts.switch.current.program.dataflow, name, self._parts.session)

    def reconfigure(
        self,
        change: AnyChange | Sequence[AnyChange] | Plan,
        strategy: Strategy | None = None,
        *,
        at: int | datetime | EventMoment | None = None,
        supersede: bool = False,
        cause: str = ASKED,
    ) -> Reconfiguration:
        """Change the running job without a stop. Returns as soon as the change is accepted.

        Args:
            change: one change of `rc.changes`, a list that is carried out as one, or a plan.
            strategy: how gently, see `rc.strategies`; None = all at once.
            at: when it holds: a timestep's number, a time (of the stream, as timesteps are stamped), or
                `rc.changes.watermark(...)`; None = at the next possible timestep boundary.
            supersede: replace what is still open for the same operators.
            cause: who asks and why, for the history.

        Raises:
            RefusedError, UnknownOperatorError: with the reason, and what would be accepted. Nothing has
                happened then.
        """
        fixed = change if isinstance(change, Plan) else None
        wanted = change.change if isinstance(change, Plan) else change
        how = strategy_of(fixed.strategy if fixed and strategy is None else strategy)
        return self._requested(change_set(wanted), how, at, cause, fixed=fixed, supersede=supersede)

    def _requested(
        self,
        asked: ChangeSet,
        how: Strategy,
        at: int | datetime | EventMoment | None,
        cause: str,
        *,
        fixed: Plan | None = None,
        supersede: bool = False,
    ) -> Reconfiguration:
        """Request changes of the driver. fixed: the plan that they are, if they were planned."""
        if not self.is_active:
            msg = f"job {self.name!r} does not run: start it, then change it"
            raise RefusedError(msg)
        check_at(at)
        check_words(cause, "cause")
        switch, opener = self._parts.switch, self._parts.opener
        place = self._driver.position
        with (
            logging_for(self.name),
            offered_change(asked, switch, opener, place, supersede=supersede) as made,
        ):
            request = Request(
                change=made,
                strategy=how,
                cause=cause,
                at_timestep=at if isinstance(at, int) else None,
                at_ms=int(at.timestamp() * 1e3) if isinstance(at, datetime) else None,
                at_event=at if isinstance(at, EventMoment) else None,
                steps=fixed.steps if fixed else None,
                supersede=supersede,
            )
            answer = self._parts.changes.request(request)
            return Reconfiguration(
                self._parts, wait_for(answer, "the request for a reconfiguration")
            )

    def plan_deploy(self, job: Any, *, without: Collection[str] = ()) -> UpgradePlan:
        """Return what `deploy` would do. Nothing happens; stored rows are converted on trial, for at most a minute.

        job, without: as for `deploy`.

        Raises:
            OtherDataflowError, RefusedError, DataflowError: `deploy` would raise it.
        """
        return plan_deploy(self._parts, self._texts(job, without=without, what="the program"))

    def deploy(
        self,
        job: Any,
        *,
        without: Collection[str] = (),
        at: int | datetime | EventMoment | None = None,
        supersede: bool = False,
        what: str = "the program",
        cause: str = ASKED,
    ) -> Reconfiguration | None:
        """Let another version of the program take over, without a stop. Returns as soon as that is accepted.

        The text is compared with the running program by the rules of `rechannel upgrade`, and takes over at one
        timestep boundary. After that, the job is restarted with it.

        Args:
            job: an `rc.Job` of the same name and state directory, that is not started. Its settings, its
                controllers and what it allows hold from the next start on.
            without: operators whose state is dropped, sources whose offsets are forgotten, and sinks in
                quarantine whose unpublished timesteps are given up.
            at: when it holds, as for `reconfigure`; None = at the next possible timestep boundary.
            supersede: replace another change of the program that has not begun.
            what: is deployed, in words, for the history and for messages.
            cause: who asks and why, for the history.

        Returns:
            None if the program is the running one.

        Raises:
            OtherDataflowError: something would be lost; the message has the line that is missing.
            RefusedError: a running job cannot do it, with the reason and what to do. Nothing has happened then.
            DataflowError: the dataflow cannot run as written.
        """
        check_words(what, "what")
        asked = request_of(self._texts(job, without=without, what=what))
        try:
            return self._requested(asked, strategy_of(None), at, cause, supersede=supersede)
        except UnchangedError:
            return None

    def abort(self, id_: str, reason: str = ASKED) -> None:
        """End a reconfiguration that has not begun, or lead back one that has.

        Args:
            id_: of the reconfiguration, such as "r3".
            reason: who asks and why, for the history.

        Raises:
            RefusedError: it is over, or unknown.
        """
        abort(self._parts, id_, reason)

    def history(self, last: int | None = None) -> list[ReconfigurationSummary]:
        """Return what the reconfigurations of this state directory did, oldest first.

        Args:
            last: only this many of the newest; None = all that are kept. One file is read for each.
        """
        known = self._parts.changes.coordination.records
        found = self._history.read(known, last)
        return [ReconfigurationSummary.from_dict(fields) for fields in found]

    def reconfiguration(self, id_: str) -> Reconfiguration:
        """Return the handle on a reconfiguration, also on one that is over. Raises NotReadyError for an unknown id."""
        handle = Reconfiguration(self._parts, id_)
        handle.summary()
        return handle

    @property
    def open_reconfigurations(self) -> list[Reconfiguration]:
        """Handles on the reconfigurations that are not over, oldest first."""
        return [
            Reconfiguration(self._parts, record.id)
            for record in self._parts.changes.coordination.open
        ]
