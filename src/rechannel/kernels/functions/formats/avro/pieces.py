"""Bytes of records, all records of a batch at once: what one field after another adds to each.

Numbers and other short parts are laid out by numpy, texts and bytes are copied by Arrow. A record that cannot be
written gets an error; what is written of it counts for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

There = np.ndarray | None
"""Which records a field is written for; None = all."""


@dataclass(kw_only=True)
class Pieces:
    """What has been written so far."""

    count: int
    """Records."""
    errors: dict[int, str] = field(default_factory=dict)
    """The first thing wrong with a record, by place."""
    _short: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    """Since the last text: bytes of each record (count, width), and how many of them count."""
    _done: list[pa.Array] = field(default_factory=list)

    def refuse(self, which: np.ndarray, there: There, why: str) -> None:
        """Give records an error. which: a boolean for each; those that are not there do not count."""
        bad = which if there is None else which & there
        for place in np.flatnonzero(bad):
            self.errors.setdefault(int(place), why)

    def short(self, parts: np.ndarray, there: There) -> None:
        """Add bytes, as many to each record. parts: (count, width)."""
        sizes = np.full(self.count, parts.shape[1], np.int64)
        self._add(parts, sizes, there)

    def numbers(self, values: np.ndarray, there: There) -> None:
        """Add whole numbers of 64 bits."""
        zigzag = (values.view(np.uint64) << np.uint64(1)) ^ (values >> 63).view(np.uint64)
        if (zigzag < 0x80).all():
            self._add(zigzag.astype(np.uint8)[:, None], np.ones(self.count, np.int64), there)
            return
        bounds = np.uint64(1) << np.arange(7, 64, 7, dtype=np.uint64)
        sizes = 1 + np.searchsorted(bounds, zigzag, "right")
        places = np.arange(int(sizes.max()))
        parts = (zigzag[:, None] >> (7 * places).astype(np.uint64)) & np.uint64(0x7F)
        more = places < sizes[:, None] - 1
        self._add(parts.astype(np.uint8) | (more * np.uint8(0x80)), sizes, there)

    def tails(self, parts: np.ndarray, sizes: np.ndarray, there: There) -> None:
        """Add some bytes of each record. parts: (count, width), of which `sizes` count from the left."""
        self._add(parts, sizes, there)

    def blob(self, values: pa.Array, there: There) -> None:
        """Add binaries of any length; nulls are nothing."""
        self._flush()
        if there is not None:
            values = pc.if_else(pa.array(there), values, pa.scalar(None, values.type))
        self._done.append(values)

    def records(self, head: bytes) -> pa.Array:
        """Return each record, after a head that all have."""
        self._flush()
        parts = [pa.scalar(head, pa.binary()), *self._done, pa.scalar(b"", pa.binary())]
        if not self._done:
            return pa.repeat(parts[0], self.count)
        return pc.binary_join_element_wise(*parts, null_handling="replace", null_replacement=b"")

    def _add(self, parts: np.ndarray, sizes: np.ndarray, there: There) -> None:
        self._short.append((parts, sizes if there is None else np.where(there, sizes, 0)))

    def _flush(self) -> None:
        if not self._short:
            return
        all_parts = np.hstack([parts for parts, _ in self._short])
        counts = [np.arange(parts.shape[1]) < sizes[:, None] for parts, sizes in self._short]
        data = all_parts[np.hstack(counts)]
        offsets = np.zeros(self.count + 1, np.int32)
        np.cumsum(np.sum([sizes for _, sizes in self._short], axis=0), out=offsets[1:])
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        self._done.append(pa.Array.from_buffers(pa.binary(), self.count, buffers))
        self._short.clear()
