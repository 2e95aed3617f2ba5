"""Where a finding is on the timeline: the rows, the time, the operator and the kinds of activity that it is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rechannel.profiling.model.finding import Finding, Place
from rechannel.profiling.model.landmarks import Mark, MarkKind
from rechannel.profiling.report.rows import Row


def sight(
    finding: Finding,
    marks: Sequence[Mark],
    rows: Sequence[Row],
    operators: Sequence[str],
    begin: int,
) -> dict[str, Any]:
    """Return JSON values: start and end (ns from `begin`, null for all of the time), rows, operator (null for all)."""
    place = finding.place
    times = [mark for mark in marks if _names(place, mark)]
    return {
        "start": min(mark.start for mark in times) - begin if times else None,
        "end": max(mark.end for mark in times) - begin if times else None,
        "rows": [i for i, row in enumerate(rows) if _is_about(place, row.name)],
        "operator": operators.index(place.operator) if place.operator in operators else None,
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
    return mark.what == MarkKind.BATCH and mark.number == place.batch


def _is_about(place: Place, name: str) -> bool:
    if place.worker:
        return name == place.worker
    if place.executor:
        return name == f"executor {place.executor}" or name.startswith(
            f"executor {place.executor} core "
        )
    return bool(place.host) and name == f"host {place.host}"
