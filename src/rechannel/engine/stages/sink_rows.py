"""What publishing needs from others: the rows of a sink, the meaning of errors, and a listener."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from rechannel.engine.program.physical import Frame, SinkBufferFrame, SinkPlan, UnionFrame, leaves
from rechannel.engine.stages.runner import Timestep
from rechannel.sinks.writer import Rows


class RowsOf(Protocol):
    """Makes the rows of a frame readable for a sink."""

    def __call__(
        self, sink: SinkPlan, timestep: Timestep | None, kept: Mapping[str, list[str]]
    ) -> Rows:
        """Return the rows of a sink's frame. timestep: only needed for frames over sources."""


class Meaning(Protocol):
    """Translates an error of a sink's attempt at a timestep."""

    def __call__(self, error: BaseException, sink: str, timestep: int) -> BaseException:
        """Return the error of this library that it stands for, with its cause; else the error itself."""


def as_it_is(error: BaseException, sink: str, timestep: int) -> BaseException:
    """Return the error unchanged: a `Meaning`."""
    del sink, timestep
    return error


class Told(Protocol):
    """Called when a sink has published a timestep. It must not raise and must not block."""

    def __call__(self, timestep: int, sink: str, *, duration_ms: float, again: bool) -> None:
        """again: this is a second publication, after a restart."""


def nobody(timestep: int, sink: str, *, duration_ms: float, again: bool) -> None:
    """Do nothing."""


def is_plain(frame: Frame) -> bool:
    """Return whether a sink writes rows as they were kept, without a DataFrame function."""
    if isinstance(frame, UnionFrame):
        return all(map(is_plain, frame.children))
    return isinstance(frame, SinkBufferFrame)


def as_kept(sink: SinkPlan, nodes: Iterable[str]) -> SinkPlan:
    """Return the sink with the rows of these nodes as they were kept."""
    frames = tuple(SinkBufferFrame(node=node, schema=sink.schema) for node in nodes)
    frame = frames[0] if len(frames) == 1 else UnionFrame(children=frames)
    return replace(sink, frame=frame, direct=False)


Columns = Callable[[int, Mapping[str, list[str]]], pa.Schema | None]
"""(timestep, sink-buffer files by node) -> the columns in which their rows are published; None = those of the sink."""


def unknown(timestep: int, kept: Mapping[str, list[str]]) -> None:
    """Return None: the `Columns` of a sink whose rows have always been the same."""
    del timestep, kept


def owed_rows(
    rows_of: RowsOf,
    sink: SinkPlan,
    timestep: int,
    kept: Mapping[str, list[str]],
    columns: Columns,
) -> Rows:
    """Return rows that an earlier driver committed: in the columns of then, if the sink has no longer all of them."""
    written = columns(timestep, kept) if is_plain(sink.frame) else None
    if written is None or set(written.names) <= set(sink.schema.names):
        return rows_of(sink, None, kept)
    return rows_of(as_kept(replace(sink, schema=written), kept), None, kept)


def kept_for(frame: Frame, kept: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return the sink-buffer files that a frame reads, by node."""
    nodes = [leaf.node for leaf in leaves(frame) if isinstance(leaf, SinkBufferFrame)]
    return {node: list(kept.get(node, [])) for node in nodes}
