"""Carries out the commands of the loop, one by one: the table of which part of the outside does which."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any

from rechannel.engine.failures.blame import blame_of
from rechannel.engine.loop.boundary import Boundary
from rechannel.engine.loop.committing import Committing
from rechannel.engine.loop.core import messages as m
from rechannel.engine.loop.core.state import LoopState
from rechannel.engine.loop.outside import Outside
from rechannel.engine.loop.units import Units
from rechannel.errors import one_sentence

_LOG = logging.getLogger("rechannel")

Handler = Callable[[Any, LoopState], m.Event | None]


class Hands:
    """Carries out commands on what is outside. Belongs to the driver's thread."""

    def __init__(self, outside: Outside, executor: Executor | None) -> None:
        """executor: runs units; None = the driver's thread, and a pool."""
        self._out = outside
        self._units = Units(outside.runner, outside.inbox, executor, outside.waits)
        boundary, committing = Boundary(outside), Committing(outside)
        self._handlers: Mapping[type[m.Command], Handler] = {
            m.ReadState: boundary.read_state,
            m.AnswerChanges: boundary.answer_changes,
            m.LookAround: boundary.look_around,
            m.AskCoordinator: boundary.ask_coordinator,
            m.LookAtVersion: boundary.look_at_version,
            m.FailChanges: boundary.fail_changes,
            m.SwitchProgram: boundary.switch_program,
            m.PollSources: boundary.poll_sources,
            m.SettleIdle: boundary.settle_idle,
            m.JournalIntent: boundary.journal_intent,
            m.OpenAgain: boundary.open_again,
            m.StartUnits: self._start,
            m.Keep: self._keep,
            m.CancelUnits: self._cancel,
            m.StageSinks: committing.stage_sinks,
            m.JournalCommit: committing.journal_commit,
            m.Publish: committing.publish,
            m.Release: committing.release,
            m.ForgetInput: committing.forget_input,
            m.Account: committing.account,
            m.ReportCommit: committing.report,
            m.Sweep: committing.sweep,
            m.ReportOperators: self._report_operators,
            m.ReportFailure: self._report_failure,
            m.ReportWell: self._report_well,
            m.AnswerDrains: self._answer_drains,
            m.End: self._end,
        }

    def carry_out(self, command: m.Command, state: LoopState) -> m.Event | None:
        """Carry out a command; return the event that answers it, if one does. Raises what ends the job."""
        return self._handlers[type(command)](command, state)

    def shut_down(self) -> None:
        """End the threads of units."""
        self._units.shut_down()

    def _start(self, command: m.StartUnits, state: LoopState) -> m.Event | None:
        del state
        return self._units.start(command)

    def _keep(self, command: m.Keep, state: LoopState) -> None:
        del state
        for node, keys in command.files.items():
            self._out.runner.kept(command.number, node, keys)

    def _cancel(self, command: m.CancelUnits, state: LoopState) -> None:
        del command, state
        self._out.runner.cancel()

    def _report_operators(self, command: m.ReportOperators, state: LoopState) -> None:
        del state
        for operator in command.operators:
            self._out.listener.operator(command.number, operator, self._out.clock())

    def _report_failure(self, command: m.ReportFailure, state: LoopState) -> None:
        del state
        _LOG.warning(
            "%s failed, a fault of the %s (%d in a row); next retry in %.1f s: %s",
            command.what,
            blame_of(command.error),
            command.failures,
            command.wait_ms / 1e3,
            one_sentence(command.error),
        )
        self._out.listener.failed(command.number, command.error, again_ms=command.wait_ms)

    def _report_well(self, command: m.ReportWell, state: LoopState) -> None:
        del command, state
        self._out.listener.well()

    def _answer_drains(self, command: m.AnswerDrains, state: LoopState) -> None:
        del state
        self._out.draining.answer(command.asked)

    def _end(self, command: m.End, state: LoopState) -> None:
        del state
        raise command.error
