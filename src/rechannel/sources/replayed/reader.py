"""Replayed dead letters as the driver reads them: the files of the log, one after the other.

A file may have been written for an earlier program. Its rows are read with the columns of the present one, where those
are there with their types; those that are missing are null. A file that cannot be read so is passed over: its dead
letters go back to those that no call has taken. The offset names such a file, so whether it was read is decided with
the commit, as all else is; after the commit the file is emptied, since what lies in it counts as taken.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rechannel.errors import SourceError
from rechannel.kernels.functions.letter_rows import order_of
from rechannel.logs import fields
from rechannel.model.ddl import type_name
from rechannel.sources.cutting import cut
from rechannel.sources.native import NativeReader
from rechannel.sources.reader import UNBOUNDED, Bound, Offset, Split, SplitReader
from rechannel.sources.replayed.log import ATTEMPTS, ReplayLog, rows_in
from rechannel.state.store import Store

if TYPE_CHECKING:
    from rechannel.sources.replayed.connector import ReplayedConnector

_LOG = logging.getLogger("rechannel")

RETURNED = "returned"
"""Member of an offset."""


class ReplayedReader(NativeReader):
    """Reads a `ReplayedConnector`. Offsets are {"files": number of files read, "begun": whether a timestep has}, and
    "returned": numbers of files that were passed over and are not emptied yet, if there are any.

    Files stay: they say which dead letters were replayed. A source that is new begins after those that are there. So
    that no file can come between that and its first timestep, it has a first timestep without rows, and nothing is
    appended to the log before the journal has its offset.
    """

    repeats = True

    def __init__(self, connector: ReplayedConnector, *, store: Store, name: str) -> None:
        """store: of the job. name: of the source."""
        self._name, self._log = name, ReplayLog(store, name)
        self.schema: pa.Schema = connector.schema

    def initial(self) -> Offset:
        """Return the offset after the files of an earlier source of this name."""
        return {"files": self._log.newest(), "begun": False}

    def latest(self, start: Offset, stream_ms: int, bound: Bound = UNBOUNDED) -> Offset:
        """Return the offset after the files that a timestep takes. See `SourceReader`."""
        del stream_ms
        done = start["files"]
        last = self._log.newest(done)
        taken, returned = 0, list[int]()
        if last > done:
            self._log.settle(last)
            reasons: dict[int, str] = {}
            taken, _ = cut(self._sizes(done + 1, last, reasons), bound.bytes)
            returned = [number for number in reasons if number <= done + taken]
            self._tell({number: reasons[number] for number in returned})
        elif start["begun"]:
            return start
        kept = [n for n in start.get(RETURNED, ()) if self._log.read(n).num_rows]
        end = {"files": done + taken, "begun": True}
        return {**end, RETURNED: [*kept, *returned]} if kept or returned else end

    def _tell(self, reasons: Mapping[int, str]) -> None:
        for number, reason in reasons.items():
            _LOG.warning(
                "source %r does not read replay %d, which was made for an earlier program: %s. Its dead letters can be"
                " replayed again",
                self._name,
                number,
                reason,
                extra=fields("replay_returned", source=self._name, reason=reason),
            )

    def committed(self, end: Offset) -> None:
        """Empty the files that were passed over: their dead letters are not taken any more."""
        for number in end.get(RETURNED, ()):
            self._log.empty(number)

    def layout(self, start: Offset, end: Offset) -> list[Split]:
        """Return the rows of each file that were tried equally often."""
        return [
            split
            for number in range(start["files"] + 1, end["files"] + 1)
            if number not in end.get(RETURNED, ())
            for split in self._splits(number)
        ]

    def split_reader(self, start: Offset, end: Offset, layout: list[Split]) -> SplitReader:
        """Return what reads them."""
        del start, end, layout
        return ReplayedSplits(log=self._log, schema=self.schema)

    def check_again(self, start: Offset, end: Offset, layout: list[Split]) -> None:
        """Raise MissingFileError if a file is gone."""
        del start, end
        for split in layout:
            self._log.read(split["file"])

    def _sizes(self, first: int, last: int, reasons: dict[int, str]) -> Iterator[list[int]]:
        """Yield the bytes of files. reasons: gets why a file cannot be read."""
        for number in range(first, last + 1):
            rows = rows_in(self._log.read(number))
            reason = _unreadable(rows.schema, self.schema) if rows.num_rows else ""
            if reason:
                reasons[number] = reason
            yield [1 if reason else max(1, rows.nbytes)]

    def _splits(self, number: int) -> Iterator[Split]:
        attempts = self._log.read(number).column(ATTEMPTS).to_numpy()
        if not len(attempts):
            return
        firsts = [0, *(np.flatnonzero(np.diff(attempts)) + 1).tolist()]
        for first, stop in zip(firsts, [*firsts[1:], len(attempts)], strict=True):
            order = order_of(number, int(attempts[first]))
            yield {"order": order, "file": number, "rows": [first, stop], "size": stop - first}


@dataclass(frozen=True, kw_only=True)
class ReplayedSplits:
    """Reads the files of the log on workers."""

    log: ReplayLog
    schema: pa.Schema

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split, in order."""
        first, stop = split["rows"]
        rows = rows_in(self.log.read(split["file"])).slice(first, stop - first)
        if reason := _unreadable(rows.schema, self.schema):
            msg = (
                f"replay {split['file']} was made for an earlier program: {reason}. A timestep that reads it is"
                " planned already: plan it anew with start(replan=True), and its dead letters can be replayed again"
            )
            raise SourceError(msg)
        yield _fitted(rows, self.schema)


def _unreadable(found: pa.Schema, schema: pa.Schema) -> str:
    """Return why rows cannot be read with the columns of a schema; "" if they can."""
    for field in schema:
        if field.name not in found.names:
            if not field.nullable:
                return f"it has no column {field.name!r}, which is never null"
        elif found.field(field.name).type != field.type:
            was, will = (type_name(each.field(field.name).type) for each in (found, schema))
            return f"its column {field.name!r} is {was}, and the program reads {will}"
    return ""


def _fitted(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with the columns of a schema; null where they have none."""
    columns = [
        rows.column(field.name)
        if field.name in rows.schema.names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
