"""The source seam: how the driver asks a source what is new, and how tasks read it.

Offsets, layouts and splits are plain JSON values: they are journalled before a timestep starts, so
that a replay reads the same rows in the same splits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from rechannel.errors import SourceError

Offset = dict[str, Any]
"""How far a source has been read. JSON; equal offsets mean the same position."""

Split = dict[str, Any]
"""A part of a timestep's rows that one task reads from start to end. JSON.

`split["order"]` (int, unique and ascending within a timestep and independent of the number of
tasks) is its position in the stream.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The most that a timestep takes from a source. The source interprets it; one unit is always
    allowed.
    """

    units: int | None = None
    """Rows (files, batches), in place of the source's own bound; None for the source's own."""
    bytes: int | None = None
    """Approximate bytes of rows in memory, as far as the source can know them; None for no bound.
    """
    span_ms: int | None = None
    """Of rows that become due with time, those of this many milliseconds; None for all that are
    due.
    """

    def __post_init__(self) -> None:
        """Check that something is allowed. Raises ValueError."""
        if any(most is not None and most < 1 for most in (self.units, self.bytes, self.span_ms)):
            msg = f"bounds must be at least 1: {self}"
            raise ValueError(msg)


UNBOUNDED = Bound()


class SplitReader(Protocol):
    """Reads splits on workers. Picklable; holds everything it needs."""

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split, in order, always the same, with exactly the columns of the
        source's schema.
        """


@runtime_checkable
class ColumnReader(SplitReader, Protocol):
    """Reads some columns at less cost than all of them."""

    def only(self, columns: tuple[str, ...]) -> SplitReader:
        """Return a reader of these columns, in this order."""


@dataclass(frozen=True)
class _Selected:
    reader: SplitReader
    columns: tuple[str, ...]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split."""
        for batch in self.reader.read(split):
            yield batch.select(self.columns)


def only(reader: SplitReader, schema: pa.Schema, columns: tuple[str, ...]) -> SplitReader:
    """Return a reader of some columns. schema: all columns of the source."""
    if columns == tuple(schema.names):
        return reader
    return reader.only(columns) if isinstance(reader, ColumnReader) else _Selected(reader, columns)


class SourceReader(Protocol):
    """A source as the driver sees it."""

    @property
    def schema(self) -> pa.Schema:
        """Columns."""

    @property
    def native(self) -> bool:
        """Whether tasks can read splits themselves; otherwise rows come through `frame` (Spark's
        own readers).
        """

    @property
    def repeats(self) -> bool:
        """Whether tasks that read a split again get the same batches, not only the same rows: rows of
        a spread bin may then be dealt out by their places.
        """

    @property
    def boundable(self) -> bool:
        """Whether `latest` keeps to the bound that it is given; False for a source that decides
        itself how much it gives.
        """

    @property
    def complaint(self) -> SourceError | None:
        """Why it had nothing new at the last look, shown as a problem of the job until it is None
        again.
        """

    def initial(self) -> Offset:
        """Return where a new stream starts."""

    def latest(self, start: Offset, stream_ms: int, bound: Bound = UNBOUNDED) -> Offset:
        """Return how far a timestep that begins at `start` may read now; `start` itself if there
        is nothing new.

        bound: what one timestep may take. Only the source knows its units and their sizes, so it
        cuts by itself. Raises SourceError if the source does not answer.
        """

    def layout(self, start: Offset, end: Offset) -> list[Split]:
        """Return the splits between two offsets, in stream order. The journal keeps them."""

    def split_reader(self, start: Offset, end: Offset, layout: list[Split]) -> SplitReader:
        """Return what reads them on workers (native sources)."""

    def frame(self, spark: Any, start: Offset, end: Offset, layout: list[Split]) -> Any:
        """Return the rows as a Spark DataFrame. Called if the source is not native, or if a
        DataFrame function reads it first.
        """

    def committed(self, end: Offset) -> None:
        """Note that everything before `end` is committed: the source may drop it."""

    def close(self) -> None:
        """Free the reader's resources."""


@runtime_checkable
class Forgetful(Protocol):
    """A source that keeps something in the state directory which must go when the source goes."""

    def forget(self) -> None:
        """Remove what it keeps: another source may bear its name later."""


@runtime_checkable
class Recording(Protocol):
    """A source that reads what it once wrote to the state directory, and removes what no later offset needs.

    While a savepoint names an earlier offset, it is not told what is committed, and not to forget.
    """

    records: bool
    """True."""


@runtime_checkable
class Rereads(Protocol):
    """A source that can tell cheaply whether it can give the rows of an earlier timestep again."""

    def check_again(self, start: Offset, end: Offset, layout: list[Split]) -> None:
        """Raise SourceError or StorageError, with the reason, if it cannot."""


@runtime_checkable
class Explains(Protocol):
    """A source that can explain an error of the engine that reads it."""

    def explain(self, error: BaseException) -> SourceError | None:
        """Return what an error says about this source's input; None if it is about something else."""


def explained(error: BaseException, readers: Iterable[SourceReader]) -> SourceError | None:
    """Return the explanation of the source that an error is about; None if no source has one."""
    explanations = (reader.explain(error) for reader in readers if isinstance(reader, Explains))
    return next((one for one in explanations if one is not None), None)


def check_again(reader: SourceReader, start: Offset, end: Offset, layout: list[Split]) -> None:
    """Raise SourceError or StorageError if a source cannot give the rows of an earlier timestep again.

    A source that cannot tell is asked for what reads them.
    """
    if isinstance(reader, Rereads):
        reader.check_again(start, end, layout)
    elif reader.native:
        reader.split_reader(start, end, layout)
