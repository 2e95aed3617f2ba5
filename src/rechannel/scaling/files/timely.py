"""Timely's logs, as DS2 reads them: events of operators, channels and rates; lines of other events are skipped.

    Operates(OperatesEvent { id: 2, addr: [0, 0, 2], name: "FilterMap" })
    Channels(ChannelsEvent { id: 3, scope_addr: [0, 0], source: (2, 0), target: (3, 0) })
    replayed converted: TIMESTAMP (Rates(Op(WORKER, OPERATOR)), (TRUE_IN, TRUE_OUT, OBSERVED_IN, OBSERVED_OUT))

An address is worker, dataflow and the number of the operator within it, which channels refer to. Every operator has an
instance on every worker. Operators of nested scopes, whose addresses are longer, are skipped.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from rechannel.errors import TraceError
from rechannel.scaling.files.deployment import Deployment, deployment
from rechannel.scaling.files.lines import read_lines
from rechannel.scaling.files.reports import Epochs, Report, Seen, by_epoch, report_of

_OPERATES = re.compile(r'OperatesEvent \{ id: (\d+), addr: \[([\d, ]+)\], name: "([^"]*)"')
_CHANNELS = re.compile(
    r"ChannelsEvent \{ id: \d+, scope_addr: \[([\d, ]+)\], source: \((\d+), \d+\), target: \((\d+), \d+\)"
)
_RATES = re.compile(
    r"replayed converted:\s+(\d+)\s+\(Rates\(Op\((\d+),\s*(\d+)\)\),\s*"
    r"\(([^,()]+),\s*([^,()]+),\s*([^,()]+),\s*([^,()]+)\)\)"
)


def read_timely_topology(file: Path) -> Deployment:
    """Read operators and channels from a log. Raises TraceError."""
    names: dict[str, str] = {}
    workers: dict[str, set[str]] = defaultdict(set)
    local: dict[tuple[str, str], str] = {}
    channels: set[tuple[str, str, str]] = set()

    def event(_: Path, line: str) -> None:
        if "OperatesEvent" in line:
            key, address, name = _matched(_OPERATES, line)
            parts = address.split(", ")
            if len(parts) == 3:
                worker, dataflow, number = parts
                names[key] = name
                workers[key].add(worker)
                local[dataflow, number] = key
        elif "ChannelsEvent" in line:
            scope, source, target = _matched(_CHANNELS, line)
            parts = scope.split(", ")
            if len(parts) == 2:
                channels.add((parts[1], source, target))

    read_lines([file], event)
    counts = {len(on) for on in workers.values()}
    if len(counts) > 1:
        msg = (
            f"{file}: operators are on {min(counts)} to {max(counts)} workers; Timely runs each on all of them."
            " Is the log complete?"
        )
        raise TraceError(msg)
    lost = {end for scope, *ends in channels for end in ends if (scope, end) not in local}
    if lost:
        msg = (
            f"{file}: channels name the operators {sorted(lost)}, which no OperatesEvent describes"
        )
        raise TraceError(msg)
    edges = [
        (local[scope, source], local[scope, target]) for scope, source, target in sorted(channels)
    ]
    return deployment(file, edges, {key: (name, len(workers[key])) for key, name in names.items()})


def read_timely_reports(files: Iterable[Path], of: Deployment) -> Epochs:
    """Read rates from logs. Raises TraceError."""
    seen = Seen(of)

    def report(_: Path, line: str) -> Report | None:
        if "Rates(" not in line:
            return None
        timestamp, worker, operator, *rates = _matched(_RATES, line)
        return seen.check(report_of(operator, worker, timestamp, rates))

    return by_epoch(read_lines(files, report))


def _matched(pattern: re.Pattern[str], line: str) -> tuple[str, ...]:
    match = pattern.search(line)
    if match is None:
        msg = "the event has another form than DS2's logs have"
        raise ValueError(msg)
    return match.groups()
