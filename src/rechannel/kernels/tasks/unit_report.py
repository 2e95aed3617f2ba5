"""What all tasks of an operator report of one timestep: the sum of their reports, as the driver goes by it.

There are two forms of one value. Of few tasks, the driver has the reports themselves (`ReportList`). Of many, a task
of Spark has folded them into columns (`report_table.py`), since a driver that unpacks thousands of reports in every
timestep does little else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from rechannel.errors import TimestepError
from rechannel.kernels.tasks.report import (
    ControlReport,
    HotKey,
    Judged,
    Sent,
    StateReport,
    TaskReport,
)
from rechannel.model.eventtime import Times
from rechannel.state.manifest import Edit


class UnitReport(Protocol):
    """The report of all tasks of one operator in one timestep."""

    @property
    def operator(self) -> str:
        """Name of the operator."""

    @property
    def timestep(self) -> int:
        """Number of the timestep."""

    @property
    def tasks(self) -> int:
        """How many tasks have reported."""

    @property
    def rows_in(self) -> int:
        """Rows that they received."""

    @property
    def took_ms(self) -> float:
        """How long they took, summed."""

    @property
    def edit(self) -> Edit:
        """What becomes of the operator's state."""

    @property
    def times(self) -> tuple[Times, ...]:
        """Event time of the operator after the timestep, as its tasks have it: one value unless they disagree."""

    @property
    def event_times(self) -> Mapping[str, int]:
        """By time input: the latest event time that a task knows."""

    @property
    def first_timers(self) -> Mapping[str, int]:
        """By segment that was read: the first event time after this timestep that one of its rows waits for."""

    @property
    def first_processing(self) -> Mapping[str, int]:
        """The same of processing time."""

    @property
    def buffered(self) -> Mapping[str, tuple[tuple[int, str], ...]]:
        """By node: the files of its sink buffer, as (task, key)."""

    @property
    def sent(self) -> tuple[Sent, ...]:
        """What went to each input of each operator downstream, summed over the tasks."""

    @property
    def judged(self) -> Mapping[str, Judged]:
        """By node that has bad rows, or expectations."""

    @property
    def bins(self) -> tuple[str, ...]:
        """Rows received per bin, of each task that received any, as `binned.pack_bins` writes them."""

    @property
    def hot_keys(self) -> tuple[HotKey, ...]:
        """Keys with a large part of a task's rows."""

    @property
    def controls(self) -> tuple[tuple[int, ControlReport], ...]:
        """Control operations that end here, by task."""


@dataclass(frozen=True)
class ReportList:
    """The reports of few tasks. There is at least one."""

    reports: tuple[TaskReport, ...]

    @property
    def operator(self) -> str:
        """See `UnitReport`."""
        return self.reports[0].operator

    @property
    def timestep(self) -> int:
        """See `UnitReport`."""
        return self.reports[0].timestep

    @property
    def tasks(self) -> int:
        """See `UnitReport`."""
        return len(self.reports)

    @property
    def rows_in(self) -> int:
        """See `UnitReport`."""
        return sum(report.costs.counts.get("rows_in", 0) for report in self.reports)

    @property
    def took_ms(self) -> float:
        """See `UnitReport`."""
        return sum(each.costs.finished_ms - each.costs.started_ms for each in self.reports)

    @property
    def edit(self) -> Edit:
        """See `UnitReport`."""
        edits = [state.edit for state in self._states]
        return Edit(
            retire=tuple(each for edit in edits for each in edit.retire),
            add=tuple(run for edit in edits for run in edit.add),
        )

    @property
    def times(self) -> tuple[Times, ...]:
        """See `UnitReport`."""
        out: list[Times] = []
        for state in self._states:
            if state.times is not None and state.times not in out:
                out.append(state.times)
        return tuple(out)

    @property
    def event_times(self) -> Mapping[str, int]:
        """See `UnitReport`."""
        return latest(report.emitted.event_times for report in self.reports)

    @property
    def first_timers(self) -> Mapping[str, int]:
        """See `UnitReport`."""
        return earliest(state.first_timers for state in self._states)

    @property
    def first_processing(self) -> Mapping[str, int]:
        """See `UnitReport`."""
        return earliest(state.first_processing for state in self._states)

    @property
    def buffered(self) -> Mapping[str, tuple[tuple[int, str], ...]]:
        """See `UnitReport`."""
        out: dict[str, list[tuple[int, str]]] = {}
        for report in self.reports:
            for node, file in report.emitted.buffered.items():
                out.setdefault(node, []).append((report.task, file.key))
        return {node: tuple(files) for node, files in out.items()}

    @property
    def sent(self) -> tuple[Sent, ...]:
        """See `UnitReport`."""
        out: dict[tuple[str, int], Sent] = {}
        for each in (each for report in self.reports for each in report.emitted.sent):
            known = out.get((each.operator, each.input))
            out[each.operator, each.input] = each if known is None else known.plus(each)
        return tuple(out.values())

    @property
    def judged(self) -> Mapping[str, Judged]:
        """See `UnitReport`."""
        out: dict[str, Judged] = {}
        for report in self.reports:
            for node, judged in report.emitted.judged.items():
                out[node] = judged if node not in out else out[node].plus(judged)
        return out

    @property
    def bins(self) -> tuple[str, ...]:
        """See `UnitReport`."""
        return tuple(state.bins for state in self._states if state.bins)

    @property
    def hot_keys(self) -> tuple[HotKey, ...]:
        """See `UnitReport`."""
        return tuple(key for state in self._states for key in state.hot_keys)

    @property
    def controls(self) -> tuple[tuple[int, ControlReport], ...]:
        """See `UnitReport`."""
        return tuple((report.task, each) for report in self.reports for each in report.controls)

    @property
    def _states(self) -> Iterator[StateReport]:
        return (report.state for report in self.reports if report.state is not None)


def by_operator(reports: Iterable[TaskReport]) -> list[ReportList]:
    """Return the reports of tasks by operator: those of source tasks may have come with those of their consumer.

    Raises TimestepError where a task has reported twice: its rows would count twice.
    """
    found: dict[str, dict[int, TaskReport]] = {}
    for report in reports:
        if found.setdefault(report.operator, {}).setdefault(report.task, report) is not report:
            where = f"operator {report.operator!r}, timestep {report.timestep}"
            raise TimestepError(f"{where}: task {report.task} has reported twice")
    return [ReportList(tuple(each.values())) for each in found.values()]


def latest(times: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the latest time under each name."""
    out: dict[str, int] = {}
    for each in times:
        for name, at in each.items():
            out[name] = max(at, out.get(name, at))
    return out


def earliest(times: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the earliest time under each name."""
    out: dict[str, int] = {}
    for each in times:
        for name, at in each.items():
            out[name] = min(at, out.get(name, at))
    return out
