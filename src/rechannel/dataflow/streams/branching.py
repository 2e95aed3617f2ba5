"""Rows by conditions: `filter`, and `branch`, which gives each row to the first stream whose condition holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rechannel.dataflow.graph.naming import DerivedName, anchor, caller, given, stateless_name
from rechannel.dataflow.graph.nodes import MapBatches, Node, Transform
from rechannel.errors import DataflowError
from rechannel.kernels.functions.masks import MaskFilter

Condition = str | Callable[[pa.RecordBatch], Any]
"""A SQL condition (Spark's), or a function (RecordBatch) -> one boolean per row."""


@dataclass(frozen=True, slots=True)
class SqlFilter:
    """Rows for which a SQL condition holds, as a function of a DataFrame."""

    condition: str

    def __call__(self, frame: Any) -> Any:
        """Keep the rows."""
        return frame.where(self.condition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Rows for which no SQL condition before holds, and the last one does (None = all others), of a DataFrame."""

    passed: tuple[str, ...]
    last: str | None

    def __call__(self, frame: Any) -> Any:
        """Keep the rows."""
        parts = [f"NOT coalesce(({each}), false)" for each in self.passed]
        parts += [] if self.last is None else [f"({self.last})"]
        return frame.where(" AND ".join(parts))

    @property
    def condition(self) -> str:
        """Return the condition, for pictures."""
        return "otherwise" if self.last is None else self.last


def branches(
    upstream: Node, conditions: Mapping[str, Condition], otherwise: str | None, name: str | None
) -> dict[str, Node]:
    """Nodes by the names of branches. otherwise: what the rest is called, if it is taken. Raises DataflowError."""
    _check(conditions, otherwise)
    stem = anchor(upstream) if name is None else given(name, DerivedName())
    return dict(_cut(upstream, conditions, otherwise, stem))


def _cut(
    upstream: Node, conditions: Mapping[str, Condition], otherwise: str | None, stem: str
) -> Iterator[tuple[str, Node]]:
    """Branches one by one.

    Consecutive SQL conditions are evaluated together, so that no branch waits for the previous one. A function is
    called once for its branch and once for the remaining rows, which all later branches share.
    """
    left, passed = upstream, list[str]()
    for number, (branch, condition) in enumerate(conditions.items()):
        called = DerivedName(f"{stem}.{branch}")
        if isinstance(condition, str):
            yield branch, _where(left, called, passed, condition)
            passed.append(condition)
            continue
        if passed:
            left, passed = _where(left, stateless_name(left, "rest"), passed, None), []
        yield branch, _masked(left, called, MaskFilter(function=condition))
        last = number + 1 == len(conditions)
        if last and otherwise is None:
            return
        called = DerivedName(f"{stem}.{otherwise}") if last else stateless_name(left, "rest")
        left = _masked(left, called, MaskFilter(function=condition, rest=True))
        if last and otherwise is not None:
            yield otherwise, left
            return
    if otherwise is not None:
        yield otherwise, _where(left, DerivedName(f"{stem}.{otherwise}"), passed, None)


def _where(upstream: Node, name: DerivedName, passed: list[str], last: str | None) -> Node:
    return Transform(
        name=name,
        where=caller(),
        upstream=upstream,
        function=Chosen(passed=tuple(passed), last=last),
    )


def _masked(upstream: Node, name: DerivedName, function: MaskFilter) -> Node:
    return MapBatches(name=name, where=caller(), upstream=upstream, function=function, schema=None)


def _check(conditions: Mapping[str, Condition], otherwise: str | None) -> None:
    what = f"branch ({caller()})"
    if not conditions:
        msg = f"{what}: name at least one branch, as in branch(cheap='price < 5', otherwise='dear')"
        raise DataflowError(msg)
    for name, condition in conditions.items():
        if not isinstance(condition, str) and not callable(condition):
            msg = (
                f"{what}: {name!r} needs a SQL condition or a function (RecordBatch) -> booleans, not"
                f" {type(condition).__name__}"
            )
            raise DataflowError(msg)
    if otherwise is not None and (not isinstance(otherwise, str) or otherwise in conditions):
        msg = f"{what}: otherwise= must be a name that no other branch has, not {otherwise!r}"
        raise DataflowError(msg)
