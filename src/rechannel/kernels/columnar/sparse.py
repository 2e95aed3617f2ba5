"""Columns with values in some rows only, and the name of the column that holds when a key was last seen."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rechannel.model.buffers import IntArray

SEEN = "_seen"
"""State column of `track`: time, in Unix milliseconds, of the last timestep that brought rows for the key."""


def spread(column: pa.Array, rows: IntArray, count: int) -> pa.Array:
    """Return a column of `count` rows with the given values at the given rows and null elsewhere."""
    place = np.zeros(count, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    absent = np.ones(count, dtype=np.bool_)
    absent[rows] = False
    return column.take(pa.array(place, mask=absent))
