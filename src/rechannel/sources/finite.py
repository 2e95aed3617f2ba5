"""A source of a batch run: what it has at the first look is all there is, and one timestep reads
it.

A source may limit how far a timestep gets. It is then asked repeatedly until it has nothing new,
and every stretch is laid out and read as a timestep of its own would have read it: the source need
not know that stretches are combined.

Offsets are {"from": the source's own offset} before the look and {"from", "to": own offsets} after
it. They differ even if there is nothing to read, so there is always exactly one timestep.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rechannel.errors import SourceError
from rechannel.sources.connector import Connector, SourceContext
from rechannel.sources.reader import (
    UNBOUNDED,
    Bound,
    Offset,
    SourceReader,
    Split,
    SplitReader,
    check_again,
    explained,
)
from rechannel.sources.spark import split_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_LOOKS = 100_000
"""How often a source that limits itself is asked before it is taken for an endless one."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FiniteConnector(Connector):
    """A source that is read to its present end."""

    inner: Connector
    """The source."""

    @property
    def schema(self) -> pa.Schema | None:
        """Columns of the source."""
        return self.inner.schema

    def describe(self) -> str:
        """Return the source's own line."""
        return self.inner.describe()

    @property
    def user_functions(self) -> tuple[object, ...]:
        """Return the user's functions of the source."""
        return self.inner.user_functions

    def open(self, context: SourceContext) -> FiniteReader:
        """Open the source and read it to its end."""
        return FiniteReader(self.inner.open(context), context.name)


class FiniteReader:
    """Reads a source to its present end, once. See the theory above."""

    boundable = False
    complaint = None

    def __init__(self, inner: SourceReader, name: str) -> None:
        """name: of the source, for messages."""
        self._inner, self._name = inner, name
        self.schema: pa.Schema = inner.schema
        self.native = inner.native
        self.repeats = inner.repeats

    def initial(self) -> Offset:
        """Return where the source starts."""
        return {"from": self._inner.initial()}

    def latest(self, start: Offset, stream_ms: int, bound: Bound = UNBOUNDED) -> Offset:
        """Return the source's present end at the first look, and the same offset after that. See
        `SourceReader`.

        Raises SourceError for a source that does not end, or that reports a complaint at its last
        look.
        """
        del bound
        return start if "to" in start else {**start, "to": self._ends(start["from"], stream_ms)}

    def _ends(self, at: Offset, stream_ms: int) -> list[Offset]:
        ends: list[Offset] = []
        while (end := self._inner.latest(at, stream_ms)) != at:
            ends.append(end)
            if self._inner.boundable:
                break
            if len(ends) == MOST_LOOKS:
                msg = (
                    f"source {self._name!r} had more rows each of the {MOST_LOOKS} times it was asked: it does not"
                    f" seem to end; give its rows with inputs={{{self._name!r}: df}}"
                )
                raise SourceError(msg)
            at = end
        # Nothing new means the end only if the source has no complaint: there may be rows that it could not give.
        if self._inner.complaint is not None:
            raise self._inner.complaint
        return ends

    def layout(self, start: Offset, end: Offset) -> list[Split]:
        """Return the splits of every stretch, in order."""
        stretches = _stretches(start, end)
        if len(stretches) == 1:
            return self._inner.layout(*stretches[0])
        parts = [
            (number, split)
            for number, (a, b) in enumerate(stretches)
            for split in self._inner.layout(a, b)
        ]
        return [{"order": i, "of": of, "split": split} for i, (of, split) in enumerate(parts)]

    def split_reader(self, start: Offset, end: Offset, layout: list[Split]) -> SplitReader:
        """Return the source's own reader, or one for every stretch."""
        stretches = _stretches(start, end)
        if len(stretches) == 1:
            return self._inner.split_reader(*stretches[0], layout)
        if not stretches:
            return self._inner.split_reader(start["from"], start["from"], [])
        own = _by_stretch(stretches, layout)
        return Stretches(
            tuple(self._inner.split_reader(a, b, own[of]) for of, (a, b) in enumerate(stretches))
        )

    def frame(self, spark: Any, start: Offset, end: Offset, layout: list[Split]) -> DataFrame:
        """Return the source's own frame, or the union of those of all stretches."""
        stretches = _stretches(start, end)
        if self.native and len(stretches) > 1:
            return split_frame(spark, self.split_reader(start, end, layout), layout, self.schema)
        own = [layout] if len(stretches) == 1 else _by_stretch(stretches, layout)
        frames = [
            self._inner.frame(spark, a, b, own[of]) for of, (a, b) in enumerate(stretches)
        ] or [self._inner.frame(spark, start["from"], start["from"], [])]
        joined: DataFrame = reduce(lambda one, other: one.unionAll(other), frames)
        return joined

    def check_again(self, start: Offset, end: Offset, layout: list[Split]) -> None:
        """Raise what the source raises for one of the stretches."""
        stretches = _stretches(start, end)
        own = [layout] if len(stretches) == 1 else _by_stretch(stretches, layout)
        for (a, b), splits in zip(stretches, own, strict=True):
            check_again(self._inner, a, b, splits)

    def explain(self, error: BaseException) -> SourceError | None:
        """Return what the source says about an error."""
        return explained(error, [self._inner])

    def committed(self, end: Offset) -> None:
        """Notify the source."""
        if end.get("to"):
            self._inner.committed(end["to"][-1])

    def close(self) -> None:
        """Close the source."""
        self._inner.close()


@dataclass(frozen=True)
class Stretches:
    """Reads splits of several stretches, each with its own reader."""

    readers: tuple[SplitReader, ...]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split."""
        yield from self.readers[split["of"]].read(split["split"])


def _stretches(start: Offset, end: Offset) -> list[tuple[Offset, Offset]]:
    """Return where the source's own timesteps would have begun and ended."""
    return [] if "to" in start else list(pairwise([end["from"], *end.get("to", [])]))


def _by_stretch(stretches: list[tuple[Offset, Offset]], layout: list[Split]) -> list[list[Split]]:
    own: list[list[Split]] = [[] for _ in stretches]
    for split in layout:
        own[split["of"]].append(split["split"])
    return own
