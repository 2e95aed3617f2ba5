"""Replayed dead letters as the driver reads them: the files of the log, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rechannel.errors import SourceError
from rechannel.kernels.functions.letter_rows import order_of
from rechannel.model.ddl import columns_text
from rechannel.sources.cutting import cut
from rechannel.sources.native import NativeReader
from rechannel.sources.reader import UNBOUNDED, Bound, Offset, Split, SplitReader
from rechannel.sources.replayed.log import ATTEMPTS, ReplayLog, rows_in
from rechannel.state.store import Store

if TYPE_CHECKING:
    from rechannel.sources.replayed.connector import ReplayedConnector


class ReplayedReader(NativeReader):
    """Reads a `ReplayedConnector`. Offsets are {"files": number of files read, "begun": whether a timestep has}.

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
        self.complaint = None
        done = start["files"]
        last = self._log.newest(done)
        taken = 0
        if last > done:
            self._log.settle(last)
            taken, _ = cut(self._sizes(done + 1, last), bound.bytes)
        return {"files": done + taken, "begun": True}

    def layout(self, start: Offset, end: Offset) -> list[Split]:
        """Return the rows of each file that were tried equally often."""
        return [
            split
            for number in range(start["files"] + 1, end["files"] + 1)
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

    def _sizes(self, first: int, last: int) -> Iterator[list[int]]:
        """Yield the bytes of files; it complains of one with other columns, and stays before it."""
        for number in range(first, last + 1):
            rows = rows_in(self._log.read(number))
            if not rows.schema.equals(self.schema):
                self.complaint = SourceError(
                    f"source {self._name!r}: replay {number} has rows with the columns {columns_text(rows.schema)}, for"
                    f" an earlier program; this one reads {columns_text(self.schema)}. Bring back a program with the"
                    " earlier columns until they are read"
                )
                return
            yield [max(1, rows.nbytes)]

    def _splits(self, number: int) -> Iterator[Split]:
        attempts = self._log.read(number).column(ATTEMPTS).to_numpy()
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
        yield rows_in(self.log.read(split["file"])).slice(first, stop - first)
