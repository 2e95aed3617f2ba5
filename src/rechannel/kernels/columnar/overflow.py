"""A sum fails if the total does not fit its type, and never because a partial sum does not.

How rows are cut into parts (by tasks, by batches, or not at all) must not decide whether a timestep fails. Partial sums
have the type of the total, since nearly all of them fit. If one does not, its rows travel one by one, each as a state
of its own, and the task that receives all of them adds them at once, which is exact (`aggregate.functions.integers`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rechannel.errors import TimestepError
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups


def does_not_fit(error: TimestepError) -> bool:
    """Return whether an aggregate raised the error because a result is too large for its type."""
    return isinstance(error.__cause__, OverflowError)


def singles(rows: int) -> Groups:
    """Return groups of one row each."""
    return Groups(np.arange(rows, dtype=np.int64), rows)


def combined(
    combine: Callable[[Columns, Groups], Columns], values: Columns, groups: Groups
) -> tuple[Columns, Groups]:
    """Combine rows into one partial state per group, or per row if a partial sum does not fit.

    Returns the states and the groups that they stand for.
    """
    try:
        return combine(values, groups), groups
    except TimestepError as error:
        if not does_not_fit(error):
            raise
        parts = singles(groups.rows)
        return combine(values, parts), parts
