"""Rows as a function of their offset, by a clock or as fast as they are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa

from rechannel.errors import SourceError
from rechannel.kernels.functions.user_errors import function_name, user_error
from rechannel.sources.backlog import Backlog
from rechannel.sources.cutting import row_bytes
from rechannel.sources.declared import as_declared
from rechannel.sources.native import NativeReader
from rechannel.sources.reader import UNBOUNDED, Bound, Offset, Split, SplitReader

if TYPE_CHECKING:
    from rechannel.sources.connectors import GeneratorConnector

_CHUNK_ROWS = 1 << 20


class GeneratorReader(NativeReader):
    """Reads a `GeneratorConnector`.

    Offsets are {"rows": rows generated so far, "since_ms": when the clock of the rate started}. A
    job that was down catches up, limited by `per_timestep`.
    """

    repeats = True

    def __init__(self, connector: GeneratorConnector) -> None:
        """Use a connector; the clock starts with the first look."""
        self._connector = connector
        self._since_ms: int | None = None
        self.schema: pa.Schema = connector.schema

    def initial(self) -> Offset:
        """Return the offset before the first row; no clock runs yet."""
        return {"rows": 0, "since_ms": None}

    def latest(self, start: Offset, stream_ms: int, bound: Bound = UNBOUNDED) -> Offset:
        """Return the offset after the rows that are due now. See `SourceReader`.

        The bytes of rows that do not exist yet are estimated from their columns. A job that was
        down catches up in timesteps of `bound.span_ms` each.
        """
        since_ms = start["since_ms"]
        if since_ms is None:
            since_ms = self._since_ms = stream_ms if self._since_ms is None else self._since_ms
        connector, ends, most = self._connector, [], []
        if (rate := connector.rows_per_second) is not None:
            ends.append(_due(stream_ms - since_ms, rate))
            if bound.span_ms is not None:
                most.append(int(bound.span_ms * rate / 1000))
        if (units := bound.units or connector.per_timestep) is not None:
            most.append(units)
        if bound.bytes is not None:
            most.append(bound.bytes // row_bytes(self.schema))
        if connector.rows is not None:
            ends.append(connector.rows)
        ends.extend(start["rows"] + max(1, rows) for rows in most)
        rows = min(ends)
        return {"rows": rows, "since_ms": since_ms} if rows > start["rows"] else start

    def backlog(self, end: Offset, stream_ms: int) -> Backlog | None:
        """Return the rows that are due and left; None without a rate: then no row is ever due. See `Backlogged`."""
        rate, rows = self._connector.rows_per_second, self._connector.rows
        if rate is None:
            return None
        since_ms = self._since_ms if end["since_ms"] is None else end["since_ms"]
        due = 0 if since_ms is None else _due(stream_ms - since_ms, rate)
        return Backlog(rows=max(0, (due if rows is None else min(due, rows)) - end["rows"]))

    def layout(self, start: Offset, end: Offset) -> list[Split]:
        """Return `partitions` ranges of about equal size."""
        first, count, parts = start["rows"], end["rows"] - start["rows"], self._connector.partitions
        edges = [first + count * i // parts for i in range(parts + 1)]
        return [
            {"order": i, "start": a, "stop": b, "size": b - a}
            for i, (a, b) in enumerate(pairwise(edges))
            if a < b
        ]

    def split_reader(self, start: Offset, end: Offset, layout: list[Split]) -> SplitReader:
        """Return what calls the function."""
        del start, end, layout
        return GeneratedSplits(self._connector)


def _due(passed_ms: int, rate: float) -> int:
    """Return how many rows are due after `passed_ms`. rate: rows per second."""
    return int(passed_ms * rate / 1000)


@dataclass(frozen=True)
class GeneratedSplits:
    """Calls the user's function for ranges of rows, one chunk at a time."""

    connector: GeneratorConnector

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split.

        Raises UserFunctionError if the function raises, SourceError if it returns a wrong number
        of rows.
        """
        for start in range(split["start"], split["stop"], _CHUNK_ROWS):
            yield self._rows(start, min(start + _CHUNK_ROWS, split["stop"]))

    def _rows(self, start: int, stop: int) -> pa.RecordBatch:
        function, schema = self.connector.function, self.connector.schema
        asked = f"generator {function_name(function)}({start}, {stop})"
        try:
            batch = function(start, stop)
        except Exception as error:
            raise user_error(asked, error) from error
        if not isinstance(batch, pa.RecordBatch) or batch.num_rows != stop - start:
            got = getattr(batch, "num_rows", type(batch).__name__)
            msg = f"{asked} must return a RecordBatch of {stop - start} rows, not {got}"
            raise SourceError(msg)
        return as_declared(batch, schema, asked)
