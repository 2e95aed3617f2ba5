"""Columns that are not looked at are not read: what a front's rows need to have. Pure.

From the ends of the tree of branches to its root. An operator says what it takes from rows (`Projecting.reads`); a
function that knows says what it needs for the columns that are wanted of it (`ColumnFunction`); one that does not,
such as a user's, is given all columns, and what is kept in an outbox is kept whole.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Protocol, runtime_checkable

import pyarrow as pa

from rechannel.kernels.protocol.program import Branch
from rechannel.kernels.shuffle.watermarks import EventTime


@runtime_checkable
class ColumnFunction(Protocol):
    """A function of record batches that knows which columns it needs."""

    def reads(self, wanted: AbstractSet[str]) -> AbstractSet[str]:
        """Columns of its input, for those of its output that are wanted. It may be given no others."""


def pruned(root: Branch) -> Branch:
    """A front's branches with the columns that are needed of every one of them, one at least."""
    branches = tuple(_below(branch) for branch in root.branches)
    return replace(root, branches=branches, schema=_only(root.schema, _wanted(root)))


def _below(branch: Branch) -> Branch:
    """A branch whose function makes no more than what is wanted; a user's function is checked against all it says."""
    made = replace(branch, branches=tuple(map(_below, branch.branches)))
    if not isinstance(branch.function, ColumnFunction):
        return made
    return replace(made, schema=_only(branch.schema, _wanted(branch)))


def _wanted(branch: Branch) -> AbstractSet[str]:
    """Columns of a branch's rows that are looked at."""
    every = set(branch.schema.names)
    if branch.outbox:
        return every
    out = {branch.function.column} if isinstance(branch.function, EventTime) else set[str]()
    for consumer in branch.consumers:
        out.update(consumer.logic.key_schema.names[: consumer.can.sent], consumer.can.reads)
    for below in branch.branches:
        if not isinstance(below.function, ColumnFunction):
            return every
        out |= below.function.reads(_wanted(below))
    return out & every


def _only(schema: pa.Schema, names: AbstractSet[str]) -> pa.Schema:
    """Fields of these names, in the schema's order; the first one where there are none, for rows to be counted by."""
    return pa.schema([field for field in schema if field.name in names] or list(schema)[:1])
