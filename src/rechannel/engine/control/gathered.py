"""What the last tasks of an operation have delivered, as much of it as a commit takes. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from rechannel.kernels.tasks.control import bounded
from rechannel.kernels.tasks.report import ControlReport, FailedReply
from rechannel.model.codec import Json, encode

GATHERED_BYTES = 8 << 20
"""Bytes that all replies in a commit may have together, as JSON: they stay in memory and in snapshots."""

FAILURE_BYTES = 1 << 20
"""The same for the texts of failed replies. Those beyond it are only counted."""


def gathered(
    reports: Iterable[tuple[int, ControlReport]],
    operations: int = 1,
    *,
    replies: int = GATHERED_BYTES,
    failures: int = FAILURE_BYTES,
) -> tuple[ControlReport, ...]:
    """Return the reports of an operation, as far as its part of a commit reaches. Replies beyond it have failed.

    reports: with the number of the task that each comes from. operations: that the commit has; each has an equal part.
    replies, failures: bytes of the commit.
    """
    room = _Room(replies=replies // operations, failures=failures // operations)
    left = replace(room)
    return tuple(left.take_failures(left.take_replies(*each, room.replies)) for each in reports)


@dataclass(kw_only=True)
class _Room:
    """Bytes that an operation has left."""

    replies: int
    failures: int

    def take_replies(self, task: int, report: ControlReport, most: int) -> ControlReport:
        """Return a report without the replies that there is no room for. most: room for all replies."""
        kept: dict[str, Json] = {}
        refused: list[FailedReply] = []
        for operator, reply in report.replies.items():
            size = len(json.dumps(reply))
            if size <= self.replies:
                kept[operator] = reply
                self.replies -= size
            else:
                refused.append(_refused(operator, task, size, most))
        if not refused:
            return report
        return bounded(replace(report, replies=kept, failures=(*report.failures, *refused)))

    def take_failures(self, report: ControlReport) -> ControlReport:
        """Return a report without the failures from the first one on that there is no room for: they are counted."""
        kept: list[FailedReply] = []
        for failure in report.failures if self.failures > 0 else ():
            self.failures -= len(json.dumps(encode(failure)))
            if self.failures < 0:
                break
            kept.append(failure)
        over = len(report.failures) - len(kept)
        return replace(report, failures=tuple(kept), more=report.more + over) if over else report


def _refused(operator: str, task: int, size: int, most: int) -> FailedReply:
    error = (
        f"its reply of {size:,} bytes is beyond the {most:,} that all replies to the operation may have together:"
        " let on_next merge them into smaller ones"
    )
    return FailedReply(operator=operator, task=task, error=error)
