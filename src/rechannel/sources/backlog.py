"""What has arrived at a source and is not read: measured outside of the dataflow.

What a stream reads says nothing about what arrives: a stream that cannot keep up reads what it can, and the rest waits.
So a source that can tell says what waits. The driver asks when it has fixed the range of a timestep; `latest` has
looked at the same moment, so an answer costs no further look.

A source counts rows. One that cannot, such as a directory of files, counts bytes, and with them the bytes of the same
kind that the timestep takes: rows follow from the rows that the last timesteps found in theirs (`BytesPerRow`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from rechannel.model.codec import sparse
from rechannel.sources.reader import Offset


@sparse
@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What a timestep leaves unread at one source. `rows` is given, or `bytes` with `taken_bytes`."""

    rows: int | None = None
    """Rows; None if the source counts bytes."""
    bytes: int | None = None
    """Bytes, as the source stores them; None if it counts rows."""
    taken_bytes: int = 0
    """Bytes that the timestep takes, in the same measure."""
    taken_rows: int | None = None
    """Rows that the timestep takes, as they are counted here; None = as many as its tasks read."""
    files: int | None = None
    """Files of which nothing has been read; None if it has none."""

    def __post_init__(self) -> None:
        """Check that one of the two is given, and no figure is negative. Raises ValueError."""
        if (self.rows is None) == (self.bytes is None):
            msg = f"{self}: give rows or bytes"
            raise ValueError(msg)
        counts = (self.rows, self.bytes, self.taken_bytes, self.taken_rows, self.files)
        if min(count or 0 for count in counts) < 0:
            msg = f"{self}: no figure may be negative"
            raise ValueError(msg)


@runtime_checkable
class Backlogged(Protocol):
    """A source that can tell what has arrived and is not read."""

    def backlog(self, end: Offset, stream_ms: int) -> Backlog | None:
        """Return what a timestep that ends at `end` leaves unread; None if that is not known now.

        end: what `latest` has returned just before. stream_ms: what it was given. Never looks anywhere again.
        """


def left_of(
    sizes: Sequence[int], taken: int, done: float = 0.0, stop: float | None = None
) -> Backlog:
    """Return the backlog of files in the order in which they are read.

    sizes: bytes of each file that was there. taken: how many of them the timestep reads, the last one up to the share
    `stop` if that is given. done: share of the first one that an earlier timestep has read.
    """
    shares = [1.0] * taken
    if shares and stop is not None:
        shares[-1] = stop
    if shares:
        shares[0] -= done
    read = sum(share * size for share, size in zip(shares, sizes, strict=False))
    there = sum(sizes) - (done * sizes[0] if sizes else 0.0)
    return Backlog(
        bytes=round(max(0.0, there - read)), taken_bytes=round(read), files=len(sizes) - taken
    )


class BytesPerRow:
    """How many bytes a row of one source has, from its last timesteps: earlier ones count less and less."""

    FADING = 0.8
    """Weight of all earlier timesteps at each new one: about the last five count."""

    def __init__(self) -> None:
        self._rows = self._bytes = 0.0

    def see(self, rows: int, size: int) -> None:
        """Count a timestep that found `rows` in `size` bytes."""
        if rows > 0 and size > 0:
            self._rows = self.FADING * self._rows + rows
            self._bytes = self.FADING * self._bytes + size

    def rows(self, size: int) -> int | None:
        """Return about how many rows `size` bytes have; None before the first rows."""
        if not size:
            return 0
        return round(size * self._rows / self._bytes) if self._bytes else None

    def bytes(self, rows: int) -> int | None:
        """Return about how many bytes some rows have; None before the first rows."""
        if not rows:
            return 0
        return round(rows * self._bytes / self._rows) if self._rows else None
