"""Sums fail where the whole does not fit, and never where only a part of it does not.

How rows are cut into parts (by tasks, batches, or not at all) must not decide whether a timestep fails. Sums of parts
are kept in the type of the whole, since nearly all of them fit. Where one does not, its rows go on one by one, each a
state of its own, and the task that has all of them adds them up at once, which is exact (`aggregates.integers`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rechannel.errors import TimestepError
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups


def does_not_fit(error: TimestepError) -> bool:
    """Whether an aggregate says that a result is too large for its type."""
    return isinstance(error.__cause__, OverflowError)


def singles(rows: int) -> Groups:
    """Every row by itself."""
    return Groups(np.arange(rows, dtype=np.int64), rows)


def combined(
    combine: Callable[[Columns, Groups], Columns], values: Columns, groups: Groups
) -> tuple[Columns, Groups]:
    """Partial states of rows, and of which rows each is: those of a group, or single ones if a part does not fit."""
    try:
        return combine(values, groups), groups
    except TimestepError as error:
        if not does_not_fit(error):
            raise
        parts = singles(groups.rows)
        return combine(values, parts), parts
