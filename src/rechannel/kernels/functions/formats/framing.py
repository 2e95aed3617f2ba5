"""The wire format of schema registries: a zero, four bytes with the id of the writer's schema, and the record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

HEAD = 5
"""Bytes before the record."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Framed:
    """Values by the schema they were written with."""

    places: Mapping[int, np.ndarray]
    """Places of values by id."""
    errors: Mapping[int, str]
    """Values that do not have the format, by place."""


def framed(values: pa.Array) -> Framed:
    """Read the ids of binaries. Nulls have none."""
    there = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    buffers = values.buffers()
    offsets = np.frombuffer(buffers[1], np.int32)[values.offset :][: len(values) + 1]
    data = np.frombuffer(buffers[2] or b"", np.uint8)
    long = offsets[there + 1] - offsets[there] >= HEAD
    whole = there[long]
    starts = offsets[whole].astype(np.int64)
    magic = data[starts] == 0 if len(starts) else np.zeros(0, bool)
    heads = data[starts[magic, None] + np.arange(1, HEAD)].astype(np.int64)
    ids = heads @ np.array([1 << 24, 1 << 16, 1 << 8, 1], np.int64)
    errors = {int(at): f"it is shorter than {HEAD} bytes" for at in there[~long]}
    unknown = "it does not begin with the zero of a schema registry's format"
    errors |= {int(at): unknown for at in whole[~magic]}
    kept = whole[magic]
    return Framed(places={int(of): kept[ids == of] for of in np.unique(ids)}, errors=errors)


def framing(schema_id: int) -> bytes:
    """Return what stands before a record."""
    return b"\0" + schema_id.to_bytes(HEAD - 1, "big")
