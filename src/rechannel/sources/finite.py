"""A source of a batch run: what it has at the first look is all there is, and one timestep reads it.

A source may bound itself how far a timestep gets. It is then asked on until it has nothing new, and every stretch is
laid out and read as a timestep of its own would have read it: a source need not know what lies further apart.

Offsets are {"from": the source's own offset} before the look and {"from", "to": own offsets} behind it. They differ
also where there is nothing to read, so there is always one timestep, and never another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from rechannel.errors import SourceError
from rechannel.sources.reader import (
    UNBOUNDED,
    Bound,
    Offset,
    SourceReader,
    Split,
    SplitReader,
    explained,
)
from rechannel.sources.spark import split_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_LOOKS = 100_000
"""So often a source that bounds itself is asked before it is taken for one that never ends."""


class Connector(Protocol):
    """What this room says of a source, as far as batch runs look at it."""

    @property
    def schema(self) -> pa.Schema | None:
        """Columns; None where only a reader knows."""

    def describe(self) -> str:
        """One short line for messages."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FiniteConnector:
    """A source that is read to its present end. inner: the source."""

    inner: Connector

    @property
    def schema(self) -> pa.Schema | None:
        """Columns of the source."""
        return self.inner.schema

    def describe(self) -> str:
        """The source's own line."""
        return self.inner.describe()


class FiniteReader:
    """Reads a source to its present end, once. See the theory above."""

    boundable = False

    def __init__(self, inner: SourceReader, name: str) -> None:
        """name: of the source, for messages."""
        self._inner, self._name = inner, name
        self.schema: pa.Schema = inner.schema
        self.native = inner.native

    def initial(self) -> Offset:
        """Where the source starts."""
        return {"from": self._inner.initial()}

    def latest(self, start: Offset, now_ms: int, bound: Bound = UNBOUNDED) -> Offset:
        """The source's present end at the first look, and then no further. See `SourceReader`.

        Raises SourceError for a source that has always more, or that says why it gives nothing at its last look.
        """
        del bound
        return start if "to" in start else {**start, "to": self._ends(start["from"], now_ms)}

    def _ends(self, at: Offset, now_ms: int) -> list[Offset]:
        ends: list[Offset] = []
        bounded = not getattr(self._inner, "boundable", True)
        while (end := self._inner.latest(at, now_ms)) != at:
            ends.append(end)
            if not bounded:
                break
            if len(ends) == MOST_LOOKS:
                msg = (
                    f"source {self._name!r} had more at each of {MOST_LOOKS} looks: it does not seem to end;"
                    f" give its rows with inputs={{{self._name!r}: df}}"
                )
                raise SourceError(msg)
            at = end
        # Nothing new is the end only where the source does not complain: there may be rows that it could not give.
        complaint: SourceError | None = getattr(self._inner, "complaint", None)
        if complaint is not None:
            raise complaint
        return ends

    def layout(self, start: Offset, end: Offset) -> list[Split]:
        """Splits of every stretch, one stretch behind the other."""
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
        """The source's own, or one for every stretch."""
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
        """The source's own, or those of all stretches."""
        stretches = _stretches(start, end)
        if self.native and len(stretches) > 1:
            return split_frame(spark, self.split_reader(start, end, layout), layout, self.schema)
        own = [layout] if len(stretches) == 1 else _by_stretch(stretches, layout)
        frames = [
            self._inner.frame(spark, a, b, own[of]) for of, (a, b) in enumerate(stretches)
        ] or [self._inner.frame(spark, start["from"], start["from"], [])]
        joined: DataFrame = reduce(lambda one, other: one.unionAll(other), frames)
        return joined

    def explain(self, error: BaseException) -> SourceError | None:
        """What the source says of an error."""
        return explained(error, [self._inner])

    def committed(self, end: Offset) -> None:
        """Tell the source."""
        if end.get("to"):
            self._inner.committed(end["to"][-1])

    def close(self) -> None:
        """Close the source."""
        self._inner.close()


@dataclass(frozen=True)
class Stretches:
    """Reads splits of several stretches, each with the reader of its own."""

    readers: tuple[SplitReader, ...]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Rows of a split."""
        yield from self.readers[split["of"]].read(split["split"])


def _stretches(start: Offset, end: Offset) -> list[tuple[Offset, Offset]]:
    """Where the source's own timesteps would have begun and ended."""
    return [] if "to" in start else list(pairwise([end["from"], *end.get("to", [])]))


def _by_stretch(stretches: list[tuple[Offset, Offset]], layout: list[Split]) -> list[list[Split]]:
    own: list[list[Split]] = [[] for _ in stretches]
    for split in layout:
        own[split["of"]].append(split["split"])
    return own
