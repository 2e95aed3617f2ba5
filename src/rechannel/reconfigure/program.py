"""Changes of the program itself, as a user writes them in Python: they hold functions and streams, so they are no JSON.

Each is a function of dataflows. The engine makes the next version of the program of the result, judges what becomes
of state, and turns the whole into one `ChangeProgram`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rechannel.dataflow.check import check
from rechannel.dataflow.evolution import Logic, with_branch, with_logic, without
from rechannel.dataflow.graph import Dataflow
from rechannel.dataflow.identity import load_logic
from rechannel.dataflow.migration import Migrate
from rechannel.dataflow.stream import Columns, Stream, dataflow_of
from rechannel.dataflow.writer import Flow
from rechannel.errors import RefusedError
from rechannel.reconfigure.changes import (
    AssignLogic,
    Change,
    ChangeProgram,
    Together,
    is_change,
    parts_of,
)


@dataclass(frozen=True, eq=False, kw_only=True)
class ChangeLogic:
    """A node runs other logic."""

    operator: str
    logic: Logic
    schema: Columns | None = None
    migration: Migrate | None = None

    @property
    def migrate(self) -> Mapping[str, Migrate]:
        """Of this operator."""
        return {} if self.migration is None else {self.operator: self.migration}

    def applied(self, dataflow: Dataflow) -> Dataflow:
        """The node with its new logic."""
        return with_logic(dataflow, self.operator, self.logic, schema=self.schema)

    def __str__(self) -> str:
        """As a user would write it."""
        name = getattr(self.logic, "__qualname__", None) or type(self.logic).__name__
        return f"change_logic({self.operator!r}, {name})"


@dataclass(frozen=True, eq=False, kw_only=True)
class AddBranch:
    """More ends."""

    flows: tuple[Flow | Stream, ...]
    migrate: Mapping[str, Migrate] = field(default_factory=dict)

    def applied(self, dataflow: Dataflow) -> Dataflow:
        """The dataflow with the branches."""
        return with_branch(dataflow, *self.flows)

    def __str__(self) -> str:
        """As a user would write it."""
        return f"add({', '.join(repr(str(flow.node.name)) for flow in self.flows)})"


@dataclass(frozen=True, eq=False, kw_only=True)
class Remove:
    """Fewer nodes: sinks, or whole branches."""

    names: tuple[str, ...]
    migrate: Mapping[str, Migrate] = field(default_factory=dict)

    def applied(self, dataflow: Dataflow) -> Dataflow:
        """The dataflow without them."""
        return without(dataflow, self.names)

    def __str__(self) -> str:
        """As a user would write it."""
        return f"remove({', '.join(map(repr, self.names))})"


@dataclass(frozen=True, eq=False, kw_only=True)
class ReplaceProgram:
    """Another dataflow in place of the whole; what has the same name is the same."""

    flows: tuple[Flow | Stream, ...]
    migrate: Mapping[str, Migrate] = field(default_factory=dict)

    def applied(self, dataflow: Dataflow) -> Dataflow:
        """The new one."""
        del dataflow
        made = dataflow_of(*self.flows)
        check(made)
        return made

    def __str__(self) -> str:
        """As a user would write it."""
        return f"change_dataflow({', '.join(repr(str(flow.node.name)) for flow in self.flows)})"


Edit = ChangeLogic | AddBranch | Remove | ReplaceProgram


def change_logic(
    operator: str,
    logic: Logic,
    *,
    schema: Columns | None = None,
    migrate: Migrate | None = None,
) -> ChangeLogic:
    """Run other logic under a name, from one timestep on; state is carried over.

    logic: a function of the same shape as the node's own, new aggregates as {"name": rc.aggregates.count()}, or the
    import path "module:function". schema: new output columns, for maps. migrate: what becomes of stored state where its
    columns change (see `rc.changes.migrate`).
    """
    found = load_logic(logic) if isinstance(logic, str) and ":" in logic else logic
    return ChangeLogic(operator=operator, logic=found, schema=schema, migration=migrate)


def add(*flows: Flow | Stream) -> AddBranch:
    """Add branches: ends that are built on `job.stream(name)`, or on sources of their own."""
    if not flows:
        msg = "add needs a branch, as in rc.changes.add(job.stream('delays').write.parquet('late'))"
        raise RefusedError(msg)
    return AddBranch(flows=flows)


def remove(*names: str) -> Remove:
    """Take sinks or whole branches away, by the names of their nodes. State of operators that go is dropped."""
    if not names:
        msg = "remove needs the name of a node"
        raise RefusedError(msg)
    return Remove(names=names)


def change_dataflow(
    *flows: Flow | Stream, migrate: Mapping[str, Migrate] | None = None
) -> ReplaceProgram:
    """Go on with another dataflow; nodes of the same name keep offsets, state and files."""
    if not flows:
        msg = "change_dataflow needs the ends of the new dataflow, as Job does"
        raise RefusedError(msg)
    return ReplaceProgram(flows=flows, migrate=dict(migrate or {}))


Asked = Change | Edit
"""What a user may ask for."""


@dataclass(frozen=True, kw_only=True)
class Sorted:
    """What was asked for, by who judges it. edits: changes of the program. changes: all others."""

    edits: tuple[Edit, ...]
    changes: tuple[Change, ...]

    @property
    def text(self) -> str:
        """The edits in words."""
        return ", ".join(map(str, self.edits))

    @property
    def migrate(self) -> dict[str, Migrate]:
        """What becomes of state, by operator."""
        return {name: said for edit in self.edits for name, said in edit.migrate.items()}

    def applied(self, dataflow: Dataflow) -> Dataflow:
        """The dataflow after all edits: branches first, for they are built on nodes as they are now."""
        for edit in sorted(self.edits, key=lambda edit: not isinstance(edit, AddBranch)):
            dataflow = edit.applied(dataflow)
        return dataflow

    def together(self, *first: Change) -> Change:
        """One change: the program first, then all others. Raises RefusedError when there is nothing."""
        every = (*first, *self.changes)
        if not every:
            msg = (
                "a change or a list of changes is wanted, as rc.changes.rescale('counts', tasks=8)"
            )
            raise RefusedError(msg)
        return every[0] if len(every) == 1 else Together(changes=every)


def sort(asked: Asked | Sequence[Asked]) -> Sorted:
    """Take apart what was asked for. Raises RefusedError for what is no change, DataflowError for an import path."""
    given: Sequence[Any] = asked if isinstance(asked, list | tuple) else (asked,)
    edits: list[Edit] = []
    others: list[Change] = []
    for one in given:
        if isinstance(one, Edit):
            edits.append(one)
            continue
        if not is_change(one):
            msg = f"a change is wanted, as rc.changes.rescale('counts', tasks=8), not {one!r}"
            raise RefusedError(msg)
        for part in parts_of(one):
            if isinstance(part, AssignLogic):
                edits.append(change_logic(part.operator, part.function))
            elif isinstance(part, ChangeProgram):
                msg = "a plan that exchanges the program is not replayed: ask for its change again"
                raise RefusedError(msg)
            else:
                others.append(part)
    return Sorted(edits=tuple(edits), changes=tuple(others))
