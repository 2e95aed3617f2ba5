"""Carries out the commands of the loop, one by one: the table of which part of the outside does which."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any

from rechannel.engine.failures.blame import blame_of
from rechannel.engine.loop.boundary import Boundary
from rechannel.engine.loop.committing import Committing
from rechannel.engine.loop.core import commands, events
from rechannel.engine.loop.core.state import LoopState
from rechannel.engine.loop.outside import Outside
from rechannel.engine.loop.units import Units
from rechannel.engine.program.withdrawal import bounded
from rechannel.errors import TooManyBadRowsError, one_sentence
from rechannel.logs import fields

_LOG = logging.getLogger("rechannel")

Handler = Callable[[Any, LoopState], events.Event | None]


class Hands:
    """Carries out commands on what is outside. Belongs to the driver's thread."""

    def __init__(self, outside: Outside, executor: Executor | None) -> None:
        """executor: runs units; None = the driver's thread, and a pool."""
        self._out = outside
        self._units = Units(outside.runner, outside.inbox, executor, outside.waits)
        boundary, committing = Boundary(outside), Committing(outside)
        self._handlers: Mapping[type[commands.Command], Handler] = {
            commands.ReadState: boundary.read_state,
            commands.AnswerChanges: boundary.answer_changes,
            commands.LookAround: boundary.look_around,
            commands.AskCoordinator: boundary.ask_coordinator,
            commands.LookAtVersion: boundary.look_at_version,
            commands.FailChanges: boundary.fail_changes,
            commands.SwitchProgram: boundary.switch_program,
            commands.PollSources: boundary.poll_sources,
            commands.SettleIdle: boundary.settle_idle,
            commands.JournalIntent: boundary.journal_intent,
            commands.OpenAgain: boundary.open_again,
            commands.StartUnits: self._start,
            commands.Keep: self._keep,
            commands.CancelUnits: self._cancel,
            commands.StageSinks: committing.stage_sinks,
            commands.JournalCommit: committing.journal_commit,
            commands.Publish: committing.publish,
            commands.Release: committing.release,
            commands.ForgetInput: committing.forget_input,
            commands.Account: committing.account,
            commands.ReportCommit: committing.report,
            commands.Sweep: committing.sweep,
            commands.ReportOperators: self._report_operators,
            commands.ReportFailure: self._report_failure,
            commands.ReportWell: self._report_well,
            commands.AnswerDrains: self._answer_drains,
            commands.End: self._end,
        }

    def carry_out(self, command: commands.Command, state: LoopState) -> events.Event | None:
        """Carry out a command; return the event that answers it, if one does. Raises what ends the job."""
        return self._handlers[type(command)](command, state)

    def shut_down(self, cancel: Callable[[], None] | None = None) -> None:
        """End the threads of units. cancel: cancels what they wait for; None = it is waited for."""
        self._units.shut_down(cancel)

    def _start(self, command: commands.StartUnits, state: LoopState) -> events.Event | None:
        del state
        return self._units.start(command)

    def _keep(self, command: commands.Keep, state: LoopState) -> None:
        del state
        for node, keys in command.files.items():
            self._out.runner.kept(command.number, node, keys)

    def _cancel(self, command: commands.CancelUnits, state: LoopState) -> None:
        del command, state
        self._out.runner.cancel()

    def _report_operators(self, command: commands.ReportOperators, state: LoopState) -> None:
        del state
        for operator in command.operators:
            self._out.listener.operator(command.number, operator, self._out.clock())

    def _report_failure(self, command: commands.ReportFailure, state: LoopState) -> None:
        del state
        _LOG.warning(
            "%s failed, a fault of the %s (%d in a row); next retry in %.1f s: %s",
            command.what,
            blame_of(command.error),
            command.failures,
            command.wait_ms / 1e3,
            one_sentence(command.error),
            extra=fields(
                "timestep_failed",
                timestep=command.number,
                failures=command.failures,
                retry_seconds=command.wait_ms / 1e3,
                reason=one_sentence(command.error),
            ),
        )
        self._out.listener.failed(command.number, command.error, again_ms=command.wait_ms)

    def _report_well(self, command: commands.ReportWell, state: LoopState) -> None:
        del command, state
        self._out.listener.well()

    def _answer_drains(self, command: commands.AnswerDrains, state: LoopState) -> None:
        del state
        self._out.draining.answer(command.asked)

    def _end(self, command: commands.End, state: LoopState) -> None:
        del state
        if isinstance(command.error, TooManyBadRowsError):
            journal = self._out.journal
            journal.append(bounded(journal.state))
        raise command.error
