"""Facts of a job for the routes, as plain JSON values, from its handle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rechannel.errors import NotReadyError
from rechannel.model.configuration import Configuration
from rechannel.monitoring import JobStatus, ReconfigurationSummary
from rechannel.reconfigure.record import OPEN
from rechannel.running import RunningJob
from rechannel.running.controllers import ControllerHandle
from rechannel.running.seen import bins_left
from rechannel.version import __version__


def status_of(job: RunningJob) -> dict[str, Any]:
    """Status of the job, its operators, the offsets of its sources, and its lag."""
    offsets = {name: job.committed_offset(name) for name in job.sources}
    return with_configured(job.status, job.configuration, offsets)


def with_configured(
    status: JobStatus,
    configuration: Configuration,
    offsets: Mapping[str, Any],
    *,
    as_of_ms: int | None = None,
) -> dict[str, Any]:
    """Return a status with how its operators are configured, and the offsets of its sources.

    as_of_ms: since when the driver has said nothing, Unix milliseconds; None = it is asked itself.
    """
    fields = status.to_dict()
    standing = fields.pop("operators")
    return {
        **fields,
        "version": __version__,
        "as_of_ms": as_of_ms,
        "operators": {
            name: {**standing.get(name, {}), **configured}
            for name, configured in operators_of(configuration).items()
        },
        "sources": dict(offsets),
    }


def operators_of(configuration: Configuration) -> dict[str, dict[str, Any]]:
    """By name: tasks, bins (None without state), combines (None without state), logic."""
    return {
        name: {
            "tasks": operator.tasks,
            "bins": None if operator.routing is None else operator.routing.bins,
            "combines": None if operator.routing is None else operator.combines,
            "logic": operator.logic,
        }
        for name, operator in configuration.operators.items()
    }


def history_of(job: RunningJob, last: int) -> list[dict[str, Any]]:
    """The newest reconfigurations, oldest first, with the number of bins that they still have to move."""
    return [_with_bins_left(job, body) for body in job.history(last)]


def open_reconfigurations(job: RunningJob) -> list[dict[str, Any]]:
    """Reconfigurations that are not finished."""
    return [
        _with_bins_left(job, body)
        for body in (each.summary() for each in job.open_reconfigurations)
    ]


def reconfiguration_of(job: RunningJob, id_: str) -> dict[str, Any]:
    """The reconfiguration of an id. Raises NotReadyError if there is none."""
    return _with_bins_left(job, job.reconfiguration(id_).summary())


def controller_of(job: RunningJob, name: str) -> dict[str, Any]:
    """Status of a controller, and its state. Raises NotReadyError if there is none."""
    handle = handle_of(job, name)
    return {**handle.status.to_dict(), "state": handle.state}


def handle_of(job: RunningJob, name: str) -> ControllerHandle:
    """The controller of a name. Raises NotReadyError if there is none."""
    known = job.controllers
    if name not in known:
        msg = f"there is no controller {name!r}; there are {sorted(known)}"
        raise NotReadyError(msg)
    return known[name]


def _with_bins_left(job: RunningJob, one: ReconfigurationSummary) -> dict[str, Any]:
    return {**one.to_dict(), "open": one.phase in OPEN, "bins_left": bins_left(job, one)}
