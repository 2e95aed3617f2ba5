"""Rows sorted so that equal keys are neighbours, and where each group starts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rechannel.model.buffers import IntArray


@dataclass(frozen=True, eq=False)
class Groups:
    """A partition of rows 0..rows-1 into consecutive groups. They are not empty, unless a key is there without rows."""

    starts: IntArray
    """First row of each group, shape (groups,), ascending."""
    rows: int
    """Number of rows."""

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.starts)

    @cached_property
    def ends(self) -> IntArray:
        """One past the last row of each group. Shape (groups,)."""
        return np.append(self.starts[1:], self.rows)[: self.count].astype(np.int64)

    @cached_property
    def sizes(self) -> IntArray:
        """Rows of each group. Shape (groups,)."""
        return self.ends - self.starts

    @cached_property
    def ids(self) -> IntArray:
        """Group number of each row. Shape (rows,)."""
        return np.repeat(np.arange(self.count, dtype=np.int64), self.sizes)
