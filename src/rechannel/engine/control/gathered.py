"""What the last tasks of an operation have delivered, as much of it as a commit takes. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace

from rechannel.kernels.tasks.control import bounded
from rechannel.kernels.tasks.report import ControlReport, FailedReply
from rechannel.model.codec import Json

GATHERED_BYTES = 8 << 20
"""Bytes that all replies to one operation may have together, as JSON: they are part of a commit and of snapshots."""


def gathered(
    reports: Iterable[tuple[int, ControlReport]], most: int = GATHERED_BYTES
) -> tuple[ControlReport, ...]:
    """Return the reports, without the replies that are beyond `most` bytes: these have failed.

    reports: with the number of the task that each comes from.
    """
    return tuple(_within(reports, most))


def _within(reports: Iterable[tuple[int, ControlReport]], most: int) -> Iterator[ControlReport]:
    left = most
    for task, report in reports:
        kept: dict[str, Json] = {}
        refused: list[FailedReply] = []
        for operator, reply in report.replies.items():
            size = len(json.dumps(reply))
            if size <= left:
                kept[operator] = reply
                left -= size
            else:
                refused.append(_refused(operator, task, size, most))
        failures = (*report.failures, *refused)
        yield bounded(replace(report, replies=kept, failures=failures)) if refused else report


def _refused(operator: str, task: int, size: int, most: int) -> FailedReply:
    error = (
        f"its reply of {size:,} bytes is beyond the {most:,} that all replies to one operation may have together:"
        " let on_next merge them into smaller ones"
    )
    return FailedReply(operator=operator, task=task, error=error)
