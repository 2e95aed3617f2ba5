"""SnailTrail's own records: a sequence of MessagePack arrays of seven whole numbers.

timestamp (ns), worker, activity type (`SNAILTRAIL`), event (1 begin, 2 end, 3 sent, 4 received, 5
ignored), correlator of a message (-1 = none), the other worker (-1), operator (-1).

A begin without an end lasts until the end of the trace, an end without a begin from its beginning.
A message with only one half says nothing about when it travelled: it is left out and counted.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import msgpack
import numpy as np
import numpy.typing as npt

from rechannel.errors import TraceError
from rechannel.profiling.files.table import check_length
from rechannel.profiling.model.trace import RESERVED, SNAILTRAIL, Activities, Messages, Names, Trace
from rechannel.profiling.storage.blocks import BLOCK_ROWS

BEGIN, END, SENT, RECEIVED, BOGUS = 1, 2, 3, 4, 5
RECORD_FIELDS = 7
_KINDS = [*RESERVED, *(name for name in SNAILTRAIL.values() if name not in RESERVED)]
_PLACE = {number: _KINDS.index(name) for number, name in SNAILTRAIL.items()}

Records = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A trace made of records."""

    trace: Trace
    halves: int
    """Number of messages whose other half is missing."""


def read_records(path: str | Path) -> Recorded:
    """Read a file of SnailTrail's records. Raises TraceError, which names the bad record."""
    blocks, rows = [], []
    try:
        with Path(path).open("rb") as stream:
            for number, record in enumerate(msgpack.Unpacker(stream)):
                if not _is_record(record):
                    msg = f"record {number} of {path} is not {RECORD_FIELDS} whole numbers: {str(record)[:60]}"
                    raise TraceError(msg)
                rows.append(record)
                if len(rows) == BLOCK_ROWS:
                    blocks.append(np.array(rows, dtype=np.int64))
                    rows = []
        last = np.array(rows, dtype=np.int64).reshape(-1, RECORD_FIELDS)
        records = np.concatenate([*blocks, last])
    except (msgpack.UnpackException, TypeError, ValueError, OverflowError, OSError) as error:
        reason = str(error) or f"{type(error).__name__} in MessagePack"
        msg = f"{path} is not a trace of SnailTrail: {reason}"
        raise TraceError(msg) from error
    if len(records):
        check_length(int(records[:, 0].min()), int(records[:, 0].max()))
    return recorded(records)


def _is_record(found: object) -> bool:
    return (
        isinstance(found, list)
        and len(found) == RECORD_FIELDS
        and all(type(each) is int for each in found)
    )


def recorded(records: Records) -> Recorded:
    """Return the trace of records, shape (records, 7). Raises TraceError for an unknown activity
    type.
    """
    unknown = np.flatnonzero(~np.isin(records[:, 2], list(SNAILTRAIL)) & (records[:, 3] != BOGUS))
    if len(unknown):
        at = int(unknown[0])
        msg = f"record {at} has activity type {records[at, 2]}; they are {min(SNAILTRAIL)} to {max(SNAILTRAIL)}"
        raise TraceError(msg)
    workers = np.unique(np.concatenate([records[:, 1], records[records[:, 5] >= 0, 5]]))
    operators = np.unique(records[records[:, 6] >= 0, 6])
    ordered = records[np.argsort(records[:, 0], kind="stable")]
    acts = _activities(ordered, workers, operators)
    sent, halves = _messages(ordered, workers, operators)
    names = Names(
        workers=[str(worker) for worker in workers],
        operators=[str(operator) for operator in operators],
        kinds=_KINDS,
    )
    return Recorded(trace=Trace(names=names, activities=acts, messages=sent), halves=halves)


def _activities(records: Records, workers: Records, operators: Records) -> Activities:
    local = records[np.isin(records[:, 3], (BEGIN, END))]
    first = int(records[0, 0]) if len(records) else 0
    last = int(records[-1, 0]) if len(records) else 0
    open_: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    rows = []
    places = np.searchsorted(workers, local[:, 1]).tolist()
    for place, record in zip(places, local.tolist(), strict=True):
        time, _, kind, event, _, _, operator = record
        begun = open_[place, kind, operator]
        if event == BEGIN:
            begun.append(time)
        else:
            rows.append((place, kind, operator, begun.pop() if begun else first, time))
    rows += [(*key, time, last) for key, times in open_.items() for time in times]
    return Activities.of(
        [
            (worker, _PLACE[kind], _operator(operators, operator), start, end)
            for worker, kind, operator, start, end in rows
        ]
    )


def _messages(records: Records, workers: Records, operators: Records) -> tuple[Messages, int]:
    halves: dict[tuple[int, int, int], dict[int, list[list[int]]]] = defaultdict(
        lambda: {SENT: [], RECEIVED: []}
    )
    for record in records[np.isin(records[:, 3], (SENT, RECEIVED))].tolist():
        _, worker, _, event, correlator, other, _ = record
        pair = (worker, other) if event == SENT else (other, worker)
        halves[*pair, correlator][event].append(record)
    rows, left = [], 0
    for (source, target, _), both in halves.items():
        left += abs(len(both[SENT]) - len(both[RECEIVED]))
        ends = np.searchsorted(workers, [source, target]).tolist()
        for one, two in zip(both[SENT], both[RECEIVED], strict=False):
            if two[0] >= one[0]:
                rows.append((*ends, _PLACE[one[2]], _operator(operators, one[6]), one[0], two[0]))
            else:
                left += 2
    return Messages.of(rows), left


def _operator(operators: Records, number: int) -> int:
    return int(np.searchsorted(operators, number)) if number >= 0 else -1
