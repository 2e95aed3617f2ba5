"""What comes of an operation: the replies in its reports, read and merged by its handler."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

from rechannel.control.controller import Outcome, TaskReply
from rechannel.control.operation import Operation
from rechannel.kernels.protocol.control import OperatorHandler
from rechannel.kernels.tasks.control import ERROR_CHARACTERS
from rechannel.kernels.tasks.replies import Merging, by_operator, read
from rechannel.kernels.tasks.report import IN_DRIVER, ControlReport, FailedReply


def reply_of(handler: OperatorHandler, timestep: int, report: ControlReport) -> TaskReply:
    """Return what one of the last tasks delivers. A reply that cannot be read has failed."""
    replies: dict[str, Any] = {}
    failures = list(report.failures)
    for operator, value in report.replies.items():
        try:
            replies[operator] = read(handler, value)
        except Exception:
            failures.append(_failed(operator, traceback.format_exc()))
    return TaskReply(
        operation=report.operation, timestep=timestep, replies=replies, failures=tuple(failures)
    )


def outcome_of(
    operation: Operation, id_: str, timestep: int, reports: Sequence[ControlReport]
) -> Outcome:
    """Return the outcome of an operation. A reply that cannot be read or merged has failed."""
    replies: dict[str, Any] = {}
    failures = [failure for report in reports for failure in report.failures]
    for operator, values in by_operator(report.replies for report in reports).items():
        merging = Merging(handler=operation.handler, values=values, most=operation.reply_bytes)
        try:
            replies[operator] = read(operation.handler, merging.run())
        except Exception:
            merging.errors.append(traceback.format_exc())
        failures += [_failed(operator, error) for error in merging.errors]
    return Outcome(
        operation=id_,
        timestep=timestep,
        replies=replies,
        failures=tuple(failures),
        failed=len(failures) + sum(report.more for report in reports),
    )


def _failed(operator: str, error: str) -> FailedReply:
    return FailedReply(operator=operator, task=IN_DRIVER, error=error[-ERROR_CHARACTERS:])
