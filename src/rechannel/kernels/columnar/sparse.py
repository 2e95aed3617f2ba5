"""Columns that have values in some rows only, and the name of the one that says when a key was last seen."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

SEEN = "_seen"
"""Where `track` keeps the time (Unix milliseconds) of the last timestep that brought rows for a key."""


def spread(column: pa.Array, rows: npt.NDArray[np.int64], count: int) -> pa.Array:
    """A column of `count` rows with the given values at the given rows and null elsewhere."""
    place = np.zeros(count, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    absent = np.ones(count, dtype=np.bool_)
    absent[rows] = False
    return column.take(pa.array(place, mask=absent))
