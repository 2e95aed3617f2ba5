"""Rows pushed in this process, for tests and notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from rechannel.errors import SourceError
from rechannel.sources.backlog import Backlog
from rechannel.sources.cutting import cut
from rechannel.sources.native import NativeReader
from rechannel.sources.reader import UNBOUNDED, Bound, Offset, Split, SplitReader

if TYPE_CHECKING:
    from rechannel.sources.connectors import MemoryConnector


class MemoryReader(NativeReader):
    """Reads a `MemoryConnector`. Offsets are {"batches": number of batches read}.

    The connector keeps every batch, so a restarted job reads from the first; pushed rows do not
    survive the process.
    """

    repeats = True

    def __init__(self, connector: MemoryConnector) -> None:
        """Read what the connector holds now and later."""
        self._connector = connector
        self.schema: pa.Schema = connector.schema
        self._counted = [0]

    def initial(self) -> Offset:
        """Return the offset before the first batch."""
        return {"batches": 0}

    def latest(self, start: Offset, stream_ms: int, bound: Bound = UNBOUNDED) -> Offset:
        """Return the offset after the last batch, or after `per_timestep` more. See
        `SourceReader`.
        """
        del stream_ms
        done, there = start["batches"], len(self._connector.batches)
        most = bound.units or self._connector.per_timestep
        end = there if most is None else min(there, done + most)
        sizes = ([batch.nbytes] for batch in self._connector.batches[done:end])
        taken, _ = cut(sizes, bound.bytes)
        return {"batches": done + taken} if taken else start

    def backlog(self, end: Offset, stream_ms: int) -> Backlog:
        """Return the rows of the batches that are left; none after a restart that lost them. See `Backlogged`."""
        del stream_ms
        batches, counted = self._connector.batches, self._counted
        for batch in batches[len(counted) - 1 :]:
            counted.append(counted[-1] + batch.num_rows)
        read = min(end["batches"], len(batches))
        return Backlog(rows=counted[len(batches)] - counted[read])

    def layout(self, start: Offset, end: Offset) -> list[Split]:
        """Return every batch in `partitions` pieces of about equal size, without empty ones."""
        return [
            split for batch in range(start["batches"], end["batches"]) for split in self._cut(batch)
        ]

    def _cut(self, batch: int) -> Iterator[Split]:
        parts, rows = self._connector.partitions, self._batch(batch).num_rows
        for part in range(parts):
            first, stop = rows * part // parts, rows * (part + 1) // parts
            if first < stop:
                order = batch * parts + part
                yield {"order": order, "batch": batch, "rows": [first, stop], "size": stop - first}

    def _batch(self, number: int) -> pa.RecordBatch:
        if number >= len(self._connector.batches):
            msg = (
                f"the memory source holds {len(self._connector.batches)} batches, but the journal"
                f" names batch {number}: push the same batches again before a restart"
            )
            raise SourceError(msg)
        return self._connector.batches[number]

    def split_reader(self, start: Offset, end: Offset, layout: list[Split]) -> SplitReader:
        """Return the batches themselves, which travel to the tasks."""
        del start, end
        return MemorySplits({split["batch"]: self._batch(split["batch"]) for split in layout})


@dataclass(frozen=True)
class MemorySplits:
    """Batches by number."""

    batches: dict[int, pa.RecordBatch]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a piece of a batch."""
        first, stop = split["rows"]
        yield self.batches[split["batch"]].slice(first, stop - first)
