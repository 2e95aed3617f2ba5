"""Prune the columns that a source stage does not need. Pure.

Columns are collected from the leaves of the tree of branches to its root. An operator declares the columns it reads
(`Projecting.reads`). A `ColumnFunction` declares what it needs for the columns wanted of it; any other function,
such as a user's, receives all columns. A sink buffer keeps all columns.
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
    """A function of record batches that knows which columns it reads."""

    def reads(self, wanted: AbstractSet[str]) -> AbstractSet[str]:
        """Return the input columns for the wanted output columns. The function may receive only these."""


def pruned(root: Branch) -> Branch:
    """Return the branches of a source stage, each with the columns that are needed of it, at least one."""
    branches = tuple(_below(branch) for branch in root.branches)
    return replace(root, branches=branches, schema=_only(root.schema, _wanted(root)))


def _below(branch: Branch) -> Branch:
    """Return a branch whose function computes only wanted columns; a user's function keeps all declared columns."""
    made = replace(branch, branches=tuple(map(_below, branch.branches)))
    if not isinstance(branch.function, ColumnFunction):
        return made
    return replace(made, schema=_only(branch.schema, _wanted(branch)))


def _wanted(branch: Branch) -> AbstractSet[str]:
    """Return the columns of a branch's rows that are needed."""
    every = set(branch.schema.names)
    if branch.sink_buffer:
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
    """Return the fields of these names in the schema's order; if there are none, the first one, to count rows by."""
    return pa.schema([field for field in schema if field.name in names] or list(schema)[:1])
