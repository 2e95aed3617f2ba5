"""`reduce` in windows: the rows of a key in a window, combined two by two, and taken out again where there is a way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.protocol.logic import OperatorInput
from rechannel.operators.aggregate.reduce import ReduceLogic
from rechannel.operators.aggregate.running_totals import Part


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowReduceLogic(ReduceLogic):
    """What a window, or a part of one, keeps of its rows: one, combined of all.

    inverse: (combined, leaving) -> what `function` would make of the others; vectorised as `function` is. None =
    windows that overlap are combined anew of their panes.
    """

    inverse: Callable[[Any, Any], Any] | None = None

    kept_aggregates: ClassVar[None] = None
    """There are none: a function combines the rows."""
    keeps_rows: ClassVar[bool] = False

    @property
    def parts(self) -> tuple[Part, ...] | None:
        """The whole reduced row as one invertible part; None without the user's `inverse`."""
        if self.inverse is None:
            return None
        whole = slice(0, len(self.value_schema))
        return (Part(function=Combined(combine=self, inverse=self._inverse), columns=whole),)

    @cached_property
    def _inverse(self) -> ReduceLogic:
        assert self.inverse is not None  # noqa: S101 - asked for where there is one
        return ReduceLogic(
            key_schema=self.key_schema, value_schema=self.value_schema, function=self.inverse
        )

    def merged(self, arrivals: OperatorInput) -> Columns:
        """The row of every key with what arrived. Raises UserFunctionError."""
        new = self.combine(arrivals.values, arrivals.groups)
        return self.joined(arrivals.old, new, arrivals)

    def merged_states(self, states: Columns, groups: Groups) -> Columns:
        """One row per group. Raises UserFunctionError."""
        return self.combine(states, groups)


@dataclass(frozen=True, eq=False, kw_only=True)
class Combined:
    """Rows as totals: see `kernels.logic.Invertible`."""

    combine: ReduceLogic
    inverse: ReduceLogic

    def tally(self, states: Columns) -> Columns:
        """Return no columns: rows can be taken out without tallies."""
        return []

    def merge_tallied(self, totals: Columns, groups: Groups) -> Columns:
        """Rows combined."""
        return self.combine.combine(totals, groups)

    def subtract(self, totals: Columns, others: Columns) -> tuple[Columns, None]:
        """What the user's inverse makes of them."""
        return (self.inverse.pairwise(totals, others) if len(totals[0]) else totals), None
