"""The dataflow of the schedules at the seams, with parts that come and go.

Some texts are long, so that small limits cut timesteps by bytes, and tasks go through their keys in parts and keep rows
on disk. A function fails for some rows; what it does not like follows from the row alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.sources.connectors import MemoryConnector

SCHEMA = "k bigint, v bigint, w string"

WIDTHS = (0, 0, 40, 0, 700, 0, 3_000)
"""Lengths of texts, in turn."""

DISLIKED = 5
"""One row of so many cannot be handled."""

ALL, TOTALS = "/out/all", "/out/totals"
"""Where the sinks write that are always there."""

KINDS = {"more": "rows", "late": "totals", "again": "counts", "side": "side", "liked": "liked"}
"""Names that come and go."""


def text_of(value: int) -> str:
    """The text of a row: greater for greater values."""
    return f"{value:06d}" + "." * WIDTHS[value % len(WIDTHS)]


class DislikedError(Exception):
    """A function fails."""


def dislike(value: int) -> None:
    """Fail for some rows."""
    if value % DISLIKED == 2:
        msg = f"{value} is disliked"
        raise DislikedError(msg)


# Functions ----------------------------------------------------------------------------------------


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def liked(row: Any) -> bool:
    dislike(row.v)
    return True


def like(row: Any) -> Any:
    dislike(row.v)
    return (row.k, row.v, row.w)


def many(row: Any) -> Iterator[Any]:
    yield (row.k, row.v, row.w)
    dislike(row.v)


def all_liked(batch: pa.RecordBatch) -> pa.RecordBatch:
    for value in batch.column("v").to_pylist():
        dislike(value)
    return batch


def follow(key: Any, state: Any, rows: Any) -> Any:
    del key
    for value in rows["v"]:
        dislike(value)
    return (state or 0) + len(rows)


FUNCTIONS = ("filter", "map", "flat_map", "batches", "track")


# What runs ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part that comes and goes: one incarnation of a name.

    kind: "rows" (a sink of the rows themselves), "totals" (a sink after the operator), "counts" (an
    operator with its sink), "side" (a source with its sink) or "liked" (a function that fails for
    some rows, with a sink, and a sink of its dead letters).
    """

    name: str
    kind: str
    serial: int

    @property
    def path(self) -> str:
        """Where its sink writes: never where an earlier one of its name wrote."""
        return f"/out/{self.name}-{self.serial}"

    @property
    def letters(self) -> str:
        """Where what its sink cannot write goes."""
        return f"{self.path}-letters"

    @property
    def dead(self) -> str:
        """Where the rows go that its function does not like."""
        return f"{self.path}-dead"

    @property
    def function(self) -> str:
        """What kind of function."""
        return FUNCTIONS[self.serial % len(FUNCTIONS)]


@dataclass(frozen=True, kw_only=True)
class Text:
    """A version of the program: the parts it has beside those that are always there."""

    parts: tuple[Part, ...] = ()

    def flows(self, feeds: Mapping[str, MemoryConnector]) -> list[Any]:
        """The dataflow. feeds: by source and incarnation."""
        source = rc.read().memory(feeds["in"], name="in")
        aggregates: dict[str, Any] = {"n": agg.count(), "t": agg.sum("v"), "w": agg.max("w")}
        sums = source.key_by("k").aggregate(**aggregates, name="sums")
        copied = source.map_batches(same, schema=SCHEMA, name="copied")
        flows = [
            copied.write.json(ALL, name="all"),
            sums.write.json(TOTALS, name="totals"),
        ]
        return flows + [flow for part in self.parts for flow in _flows(part, source, sums, feeds)]


def _flows(part: Part, source: Any, sums: Any, feeds: Any) -> list[Any]:
    if part.kind == "rows":
        writer = source.write.on_failure("skip", attempts=2)
        return [writer.json(part.path, name=part.name)]
    if part.kind == "totals":
        writer = sums.write.on_failure("dead_letter", path=part.letters, attempts=2)
        return [writer.json(part.path, name=part.name)]
    if part.kind == "counts":
        operator = source.key_by("k").aggregate(n=agg.count(), name=part.name)
        return [operator.write.json(part.path, name=f"{part.name}-out")]
    if part.kind == "liked":
        rows = _liked(part, source)
        return [
            rows.write.json(part.path, name=f"{part.name}-out"),
            rows.dead_letters.write.json(part.dead, name=f"{part.name}-dead"),
        ]
    # Nothing comes between: what it shows is staged before the commit.
    side = rc.read().memory(feeds[part.path], name=part.name)
    return [side.write.json(part.path, name=f"{part.name}-out")]


def _liked(part: Part, source: Any) -> Any:
    named = {"name": part.name, "on_error": "dead_letter"}
    if part.function == "filter":
        return source.filter(liked, **named)
    if part.function == "map":
        return source.map(like, SCHEMA, **named)
    if part.function == "flat_map":
        return source.flat_map(many, SCHEMA, **named)
    if part.function == "batches":
        return source.map_batches(all_liked, **named)
    return source.key_by("k").track(follow, state="n bigint", **named)
