"""The files of rates: what each instance reported of each epoch.

A line is `operator_id,instance_id,instances,timestamp,true_processing,true_output,observed_processing,observed_output`;
rates are records per second. There is one file, or a directory with a file per instance and epoch.

**Epochs.** The name of a file in a directory ends with its epoch, `name-instance-epoch.ext`. In one file, the n-th
report of an instance, by timestamp, is that of epoch n: timestamps of two instances are not compared, since their
clocks need not agree. Of a file in which some instances reported less often, the last epochs lack these instances.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from rechannel.scaling.files.deployment import Deployment
from rechannel.scaling.files.lines import fields, rate, read_lines, whole

HEADER = (
    "operator_id,instance_id,instances,timestamp,"
    "true_processing,true_output,observed_processing,observed_output"
)
NUMBERED = re.compile(r".+-(\d+)\.[^.]+")
"""Matches the name of a file that holds one epoch; its group is the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an instance reported of an epoch; rates in records per second, None for one that is not finite."""

    operator: str
    instance: str
    epoch: int | None
    """None until all reports of the instance are known."""
    timestamp: int
    true_processing: float | None
    true_output: float | None
    observed_processing: float | None
    observed_output: float | None


Epochs = Mapping[int, Mapping[str, tuple[Report, ...]]]
"""Reports by epoch and operator."""


class Seen:
    """What reports must not contradict: the topology, and each other."""

    def __init__(self, of: Deployment) -> None:
        self._of = of
        self._reports: set[tuple[str, str, int | None, int | None]] = set()
        self._instances: dict[str, set[str]] = defaultdict(set)

    def check(self, report: Report, instances: int | None = None) -> Report:
        """Return a report. instances: the total that it gives. Raises ValueError."""
        operator, present = report.operator, self._of.instances.get(report.operator)
        if present is None:
            msg = f"operator {operator!r} is not in the topology"
            raise ValueError(msg)
        if instances is not None and instances != present:
            msg = f"operator {operator!r} has {instances} instances here, and {present} in the topology"
            raise ValueError(msg)
        self._instances[operator].add(report.instance)
        if len(self._instances[operator]) > present:
            msg = f"instance {report.instance!r} of {operator!r} is one more than the {present} in the topology"
            raise ValueError(msg)
        named = report.epoch
        key = (operator, report.instance, named, report.timestamp if named is None else None)
        if key in self._reports:
            what = f"timestamp {report.timestamp}" if named is None else f"epoch {named}"
            msg = f"instance {report.instance!r} of {operator!r} reported {what} before"
            raise ValueError(msg)
        self._reports.add(key)
        return report


def read_reports(files: Iterable[Path], of: Deployment, *, numbered: bool) -> Epochs:
    """Read files of rates. numbered: whether their names end with epochs. Raises TraceError."""
    seen = Seen(of)

    def report(file: Path, line: str) -> Report:
        operator, instance, total, timestamp, *rates = fields(line, HEADER)
        made = report_of(
            operator, instance, timestamp, rates, epoch=_epoch(file) if numbered else None
        )
        return seen.check(made, whole(total, "the number of instances", least=1))

    return by_epoch(read_lines(files, report))


def report_of(
    operator: str, instance: str, timestamp: str, rates: Iterable[str], *, epoch: int | None = None
) -> Report:
    """Return a report of texts. rates: in the order of the files. Raises ValueError."""
    names = HEADER.split(",")[4:]
    found = [rate(text, name) for name, text in zip(names, rates, strict=True)]
    return Report(
        operator=operator,
        instance=instance,
        epoch=epoch,
        timestamp=whole(timestamp, "the timestamp"),
        true_processing=found[0],
        true_output=found[1],
        observed_processing=found[2],
        observed_output=found[3],
    )


def by_epoch(reports: Iterable[Report]) -> Epochs:
    """Group reports by epoch and operator; those without an epoch are numbered, by instance, in order of time."""
    ordered = sorted(reports, key=lambda each: (each.operator, each.instance, each.timestamp))
    found: dict[int, dict[str, list[Report]]] = defaultdict(lambda: defaultdict(list))
    for _, group in groupby(ordered, key=lambda each: (each.operator, each.instance)):
        for number, each in enumerate(group):
            epoch = number if each.epoch is None else each.epoch
            found[epoch][each.operator].append(replace(each, epoch=epoch))
    return {
        epoch: {operator: tuple(rows) for operator, rows in found[epoch].items()}
        for epoch in sorted(found)
    }


def _epoch(file: Path) -> int | None:
    match = NUMBERED.fullmatch(file.name)
    return None if match is None else int(match[1])
