"""A running job at one moment, as its metrics are read from it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rechannel.errors import NotReadyError
from rechannel.metrics.seen import OpenMoves, Seen
from rechannel.monitoring import ControllerStatus, ReconfigurationSummary
from rechannel.reconfigure.record import OPEN

if TYPE_CHECKING:
    from rechannel.running.job import RunningJob


def seen_of(job: RunningJob) -> Seen:
    """Return what metrics are read from. Nothing is asked of a source, a store or Spark."""
    configured = job.configuration.operators
    return Seen(
        job=job.name,
        status=job.status,
        sums=job.totals,
        sinks=job.sinks,
        bins={n: each.routing.bins for n, each in configured.items() if each.routing is not None},
        moves=[
            OpenMoves(id=one.id, moved=one.bins, left=bins_left(job, one))
            for one in (each.summary() for each in job.open_reconfigurations)
        ],
        controllers=statuses_of(job),
    )


def statuses_of(job: RunningJob) -> list[ControllerStatus]:
    """Return the status of each controller, in the order of their installation."""
    found = []
    for handle in job.controllers.values():
        with suppress(NotReadyError):  # it has just been removed
            found.append(handle.status)
    return found


def bins_left(job: RunningJob, one: ReconfigurationSummary) -> int:
    """Return how many bins a reconfiguration has still to move, as far as its steps are planned."""
    if one.phase in OPEN:
        with suppress(NotReadyError):  # it has just ended, and the journal no longer keeps it
            return sum(len(step.moves) for step in job.reconfiguration(one.id).record.left)
    return 0
