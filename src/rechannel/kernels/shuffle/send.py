"""Partition and combine: turn the rows of a producer into blobs for the tasks of its consumers.

Rows are sorted by key hash once. A task's share is then a slice (routing is by ranges), equal keys are neighbours
(combining is a reduction over groups) and the receiver only merges sorted pieces. Hashes do not travel: computing them
again costs less than moving eight bytes per row through the JVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.overflow import combined
from rechannel.kernels.columnar.sorting import Ordered, from_numpy, group_rows, sort_index, take
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.kernels.shuffle.wire import DATA, Blob, encode, pack
from rechannel.model.canonical import one_zero
from rechannel.model.hashing import hash_columns
from rechannel.model.hashspace import HashArray
from rechannel.model.routing import Routing
from rechannel.model.spread import SpreadBin

CHUNK_ROWS = 1 << 20
"""Most rows that are sorted and combined at a time; this bounds a task's memory."""

CHUNK_BYTES = 256 << 20
"""Most bytes of rows that are sorted and combined at a time."""

ORDER = pa.field("_rc_order", pa.uint64(), False)

Order = int | npt.NDArray[np.uint64]
"""Position of rows in the stream: one number for a whole batch, or one per row."""


def chunk_bytes(memory: int) -> int:
    """Return how many bytes of rows a task sorts and combines at a time. memory: bytes that the task may hold."""
    return max(1, min(CHUNK_BYTES, memory // 8))


@dataclass(frozen=True, kw_only=True)
class Channel:
    """One consumer of a producer's rows."""

    operator: str
    """The consumer."""
    input: int
    """Which of its inputs this is."""
    first: int
    """Partition of the producer's exchange that the consumer's task 0 reads."""
    routing: Routing
    can: Capabilities
    combined: bool
    """Whether rows are combined before they travel."""


@dataclass
class ChannelStats:
    """What went through one channel."""

    offered: int = 0
    """Rows before combining or pruning."""
    sent: int = 0
    """Rows that travelled."""
    keys: int = 0
    """Distinct keys among the rows offered, chunk by chunk."""
    size: int = 0
    """Bytes that travelled."""


@dataclass
class Sender:
    """Sends the rows of one source or producer task to one consumer. chunk_bytes: most bytes sorted at a time."""

    channel: Channel
    producer: int
    stats: ChannelStats = field(default_factory=ChannelStats)
    chunk_bytes: int = CHUNK_BYTES
    repeats: bool = True
    """Whether every attempt of the task sends its rows in the same order."""
    _sequence: int = 0
    _dealt: dict[int, int] = field(default_factory=dict)
    """Rows dealt out so far, by the first hash of the spread bin."""

    def send(self, batch: pa.RecordBatch, order: Order) -> Iterator[tuple[int, bytes]]:
        """Yield (partition, blob) for a batch. Memory follows the size of a chunk, not of the batch."""
        pieces = max(1, -(-batch.nbytes // self.chunk_bytes))
        step = min(CHUNK_ROWS, max(1, -(-batch.num_rows // pieces)))
        for start in range(0, batch.num_rows, step):
            part = order if isinstance(order, int) else order[start : start + step]
            yield from self._chunk(batch.slice(start, step), part)

    def _chunk(self, batch: pa.RecordBatch, order: Order) -> Iterator[tuple[int, bytes]]:
        can = self.channel.can
        names = can.logic.key_schema.names[: can.sent]
        keys = [plain_key(_column(batch, name)) for name in names]
        values = can.values_of(batch)
        if can.logic.ordered:
            values.append(_order_column(order, batch.num_rows))
        hashes = hash_columns(keys[: can.hashed])
        row_order = can.sent_order(keys)
        rows = sort_index(hashes, row_order)
        hashes, keys = hashes[rows], take(keys, rows)
        groups, untangled = group_rows(hashes, keys, None if row_order is None else row_order[rows])
        if untangled is not None:
            hashes, keys, rows = hashes[untangled], take(keys, untangled), rows[untangled]
        self.stats.offered += batch.num_rows
        self.stats.keys += groups.count
        if self.channel.combined:
            values, parts = combined(can.combine, take(values, rows), groups)
            hashes, keys = hashes[parts.starts], take(keys, parts.starts)
        elif (kept := can.prune(Ordered(values, rows), groups)) is not None:
            stay, instead = kept
            hashes, keys, values = hashes[stay], take(keys, stay), take(values, rows[stay])
            values = [instead.get(i, column) for i, column in enumerate(values)]
        else:
            values = take(values, rows)
        yield from self._cut(hashes, wire_batch(can, keys, values, combined=self.channel.combined))

    def _cut(self, hashes: HashArray, batch: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
        routing = self.channel.routing
        offsets, owners = routing.cuts(hashes)
        for index in np.flatnonzero(np.diff(offsets)):
            start, stop = int(offsets[index]), int(offsets[index + 1])
            piece = batch.slice(start, stop - start)
            spread = routing.shared_pieces.get(int(index)) if routing.spreads else None
            if spread is None:
                yield from self._sent(int(owners[index]), piece)
            else:
                yield from self._shared(spread, piece)

    def _shared(self, spread: SpreadBin, rows: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
        """Deal rows of a spread bin out over its tasks, or send them to all of these."""
        can = self.channel.can
        values = rows.columns[can.sent : can.sent + len(can.logic.value_schema)]
        if can.side_of(values) != spread.side:
            for task in spread.tasks:
                yield from self._sent(task, rows)
        elif self.repeats:
            turn = self._dealt.setdefault(spread.lo, self.producer)
            self._dealt[spread.lo] += rows.num_rows
            for task, start, stop in spread.deal(rows.num_rows, turn):
                yield from self._sent(task, rows.slice(start, stop - start))
        else:
            # An attempt that is repeated has to send every row to the same task, wherever the row stands then.
            places = spread.places(hash_columns(values))
            for place in np.unique(places).tolist():
                mine = pa.array(np.flatnonzero(places == place))
                yield from self._sent(spread.tasks[place], rows.take(mine))

    def _sent(self, task: int, rows: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
        """Yield the blobs with rows for one task."""
        for piece in encode(rows):
            blob = pack(
                Blob(
                    kind=DATA,
                    input=self.channel.input,
                    producer=self.producer,
                    sequence=self._sequence,
                    combined=self.channel.combined,
                    rows=piece.num_rows,
                    message=piece.serialize(),
                )
            )
            self._sequence += 1
            self.stats.sent += piece.num_rows
            self.stats.size += len(blob)
            yield self.channel.first + task, blob


def wire_schema(can: Capabilities, *, combined: bool) -> pa.Schema:
    """Return the columns of a blob: keys, what the logic sends, and the stream order if the logic needs it."""
    keys = list(can.logic.key_schema)[: can.sent]
    fields = [*keys, *can.wire_schema(combined=combined)]
    if can.logic.ordered and not combined:
        fields.append(ORDER)
    return pa.schema(fields)


def wire_batch(
    can: Capabilities, keys: Columns, values: Columns, *, combined: bool
) -> pa.RecordBatch:
    """Return columns as a batch in the wire schema."""
    return pa.RecordBatch.from_arrays([*keys, *values], schema=wire_schema(can, combined=combined))


def plain_key(column: pa.Array) -> pa.Array:
    """Normalise the floats of a key, at every level, to one zero and one NaN, as Spark's GROUP BY does.

    State then does not depend on which row of a key came first.
    """
    return one_zero(column)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(batch.schema.get_field_index(name))


def _order_column(order: Order, rows: int) -> pa.Array:
    values = np.full(rows, order, dtype=np.uint64) if isinstance(order, int) else order
    return from_numpy(np.ascontiguousarray(values), ORDER.type)
