"""Where a finding is on the timeline: the rows, the time, the operator and the kinds of activity that it is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rechannel.profiling.model.finding import Finding, Place
from rechannel.profiling.model.findings import cause_of
from rechannel.profiling.model.landmarks import Mark, MarkKind
from rechannel.profiling.model.trace import Names
from rechannel.profiling.report.rows import Row


def sight(
    finding: Finding, marks: Sequence[Mark], rows: Sequence[Row], names: Names, begin: int
) -> dict[str, Any]:
    """Return JSON values: start and end (ns from `begin`), rows, operator, kinds; null and [] where nothing is known.

    A finding without a place is about the kinds of activity that have its cause.
    """
    place = finding.place
    times = [mark for mark in marks if _names(place, mark)]
    return {
        "start": min(mark.start for mark in times) - begin if times else None,
        "end": max(mark.end for mark in times) - begin if times else None,
        "rows": [i for i, row in enumerate(rows) if _is_about(place, row.name)],
        "operator": list(names.operators).index(place.operator)
        if place.operator in names.operators
        else None,
        "kinds": [i for i, kind in enumerate(names.kinds) if cause_of(kind) == finding.cause]
        if place == Place()
        else [],
    }


def _names(place: Place, mark: Mark) -> bool:
    """Whether a mark is the most precise thing that a place names."""
    if place.stage is not None:
        attempt = place.attempt is None or place.attempt == mark.attempt
        return mark.what == MarkKind.STAGE and mark.number == place.stage and attempt
    if place.job is not None:
        return mark.what == MarkKind.JOB and mark.number == place.job
    if place.execution is not None:
        return mark.what == MarkKind.EXECUTION and mark.number == place.execution
    return mark.what in {MarkKind.BATCH, MarkKind.TIMESTEP} and mark.number == place.batch


def _is_about(place: Place, name: str) -> bool:
    if place.worker:
        return name == place.worker
    if place.executor:
        return name == f"executor {place.executor}" or name.startswith(
            f"executor {place.executor} core "
        )
    return bool(place.host) and name == f"host {place.host}"
