"""Edits: changes of the program as users write them in Python. They hold functions and streams, so they have no JSON.

Each is a function of dataflows. The engine makes the next version of the program from the result, judges what happens
to state, and turns all edits of a request into one `ChangeProgram`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rechannel.dataflow.checks.check import check
from rechannel.dataflow.evolution.evolution import Logic, with_branch, with_logic, without
from rechannel.dataflow.evolution.migration import Migrate
from rechannel.dataflow.graph.nodes import Dataflow
from rechannel.dataflow.identity.factories import Factory, Find
from rechannel.dataflow.identity.logic import load_logic
from rechannel.dataflow.streams.formatted import Columns
from rechannel.dataflow.streams.stream import Stream, dataflow_of
from rechannel.dataflow.streams.writer import Flow
from rechannel.errors import RefusedError
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.changes.program import AssignLogic
from rechannel.reconfigure.changes.registry import in_python
from rechannel.reconfigure.changes.together import Together, parts_of

__all__ = ["add", "change_dataflow", "change_logic", "remove"]


class ProgramEdit(ABC):
    """A change of the program, as a function of its dataflow."""

    __slots__ = ()

    @abstractmethod
    def applied(self, dataflow: Dataflow) -> Dataflow:
        """The dataflow after the edit."""

    @property
    @abstractmethod
    def migrations(self) -> Mapping[str, Migrate]:
        """What happens to state whose columns change, by operator."""

    @property
    def builds_on_present_nodes(self) -> bool:
        """Whether it has to be applied before all edits that replace nodes."""
        return False


@dataclass(frozen=True, eq=False, kw_only=True)
class ChangeLogic(ProgramEdit):
    """Run other logic in one node."""

    operator: str
    logic: Logic
    schema: Columns | None = None
    migration: Migrate | None = None
    factory: Factory | None = None
    """What has made the logic of parameters, if it was requested so."""

    @property
    def migrations(self) -> Mapping[str, Migrate]:
        """Return the migration of this operator."""
        return {} if self.migration is None else {self.operator: self.migration}

    def applied(self, dataflow: Dataflow) -> Dataflow:
        """The dataflow in which the node has its new logic."""
        return with_logic(dataflow, self.operator, self.logic, schema=self.schema)

    def __str__(self) -> str:
        """As it is written in Python."""
        if self.factory is not None:
            return f"assign_logic({self.operator!r}, {self.factory})"
        name = getattr(self.logic, "__qualname__", None) or type(self.logic).__name__
        return f"change_logic({self.operator!r}, {name})"


@dataclass(frozen=True, eq=False, kw_only=True)
class AddBranch(ProgramEdit):
    """Add branches."""

    flows: tuple[Flow | Stream, ...]

    @property
    def migrations(self) -> Mapping[str, Migrate]:
        """None: new operators have no state yet."""
        return {}

    @property
    def builds_on_present_nodes(self) -> bool:
        """Always: `job.stream(name)` is a node of the running dataflow."""
        return True

    def applied(self, dataflow: Dataflow) -> Dataflow:
        """The dataflow with the branches."""
        return with_branch(dataflow, *self.flows)

    def __str__(self) -> str:
        """As it is written in Python."""
        return f"add({', '.join(repr(str(flow.node.name)) for flow in self.flows)})"


@dataclass(frozen=True, eq=False, kw_only=True)
class Remove(ProgramEdit):
    """Remove sinks, or whole branches."""

    names: tuple[str, ...]

    @property
    def migrations(self) -> Mapping[str, Migrate]:
        """None: state of removed operators is dropped."""
        return {}

    def applied(self, dataflow: Dataflow) -> Dataflow:
        """The dataflow without them."""
        return without(dataflow, self.names)

    def __str__(self) -> str:
        """As it is written in Python."""
        return f"remove({', '.join(map(repr, self.names))})"


@dataclass(frozen=True, eq=False, kw_only=True)
class ReplaceDataflow(ProgramEdit):
    """Put another dataflow in place of the whole; nodes of the same name are the same."""

    flows: tuple[Flow | Stream, ...]
    migrate: Mapping[str, Migrate] = field(default_factory=dict)

    @property
    def migrations(self) -> Mapping[str, Migrate]:
        """Return the migrations as given."""
        return self.migrate

    def applied(self, dataflow: Dataflow) -> Dataflow:
        """The new dataflow."""
        del dataflow
        made = dataflow_of(*self.flows)
        check(made)
        return made

    def __str__(self) -> str:
        """As it is written in Python."""
        return f"change_dataflow({', '.join(repr(str(flow.node.name)) for flow in self.flows)})"


@in_python
def change_logic(
    operator: str,
    logic: Logic,
    *,
    schema: Columns | None = None,
    migrate: Migrate | None = None,
) -> ChangeLogic:
    """Run another function, or another set of aggregates or running functions, in a node; state is carried over.

    logic: a function of the same shape as the node's own, new aggregates such as {"name": rc.aggregates.count()}, or
    the import path "module:function". schema: new output columns, for maps. migrate: what happens to stored state whose
    columns change (see `rc.changes.migrate`).
    """
    found = load_logic(logic) if isinstance(logic, str) and ":" in logic else logic
    return ChangeLogic(operator=operator, logic=found, schema=schema, migration=migrate)


@in_python
def add(*flows: Flow | Stream) -> AddBranch:
    """Add branches, with their operators and sinks; new operators start empty, or with `preload`.

    A branch is built on `job.stream(name)`, or on sources of its own.
    """
    if not flows:
        msg = "add() needs a branch, such as rc.changes.add(job.stream('delays').write.parquet('late'))"
        raise RefusedError(msg)
    return AddBranch(flows=flows)


@in_python
def remove(*names: str) -> Remove:
    """Remove sinks or whole branches, by the names of their nodes. State of removed operators is dropped."""
    if not names:
        msg = "remove() needs the name of a node"
        raise RefusedError(msg)
    return Remove(names=names)


@in_python
def change_dataflow(
    *flows: Flow | Stream, migrate: Mapping[str, Migrate] | None = None
) -> ReplaceDataflow:
    """Go on with another dataflow; nodes of the same name keep offsets, state and files."""
    if not flows:
        msg = "change_dataflow() needs the sinks of the new dataflow, like Job"
        raise RefusedError(msg)
    return ReplaceDataflow(flows=flows, migrate=dict(migrate or {}))


AnyChange: TypeAlias = Change | ProgramEdit
"""What users pass to `job.plan` and `job.reconfigure`, alone or in a list."""


@dataclass(frozen=True, kw_only=True)
class ChangeSet:
    """The changes of one request, separated by what judges them."""

    edits: tuple[ProgramEdit, ...]
    """Changes of the program, which the engine turns into one `ChangeProgram`."""

    changes: tuple[Change, ...]
    """All others, which the Configuration alone decides."""

    @property
    def text(self) -> str:
        """The edits in words."""
        return ", ".join(map(str, self.edits))

    @property
    def migrations(self) -> dict[str, Migrate]:
        """What happens to state whose columns change, by operator."""
        return {name: migrate for edit in self.edits for name, migrate in edit.migrations.items()}

    @property
    def assigned(self) -> dict[str, Factory]:
        """What makes the logic of nodes of parameters, by node."""
        made: dict[str, Factory] = {}
        for edit in self.edits:
            if isinstance(edit, ReplaceDataflow):
                made.clear()
            elif isinstance(edit, ChangeLogic):
                made.pop(edit.operator, None)
                made |= {} if edit.factory is None else {edit.operator: edit.factory}
        return made

    def applied(self, dataflow: Dataflow) -> Dataflow:
        """The dataflow after all edits."""
        for edit in sorted(self.edits, key=lambda edit: not edit.builds_on_present_nodes):
            dataflow = edit.applied(dataflow)
        return dataflow

    def together(self, *first: Change) -> Change:
        """One change: `first` (the program), then all others. Raises RefusedError if there is none."""
        every = (*first, *self.changes)
        if not every:
            msg = "expected a change or a list of changes, such as rc.changes.rescale('counts', tasks=8)"
            raise RefusedError(msg)
        return every[0] if len(every) == 1 else Together(every)


def change_set(given: AnyChange | Sequence[AnyChange]) -> ChangeSet:
    """Separate what a user requests. Raises RefusedError for anything else, DataflowError for an import path."""
    edits: list[ProgramEdit] = []
    changes: list[Change] = []
    for one in with_functions(_flat(given), load_logic):
        if isinstance(one, ProgramEdit):
            edits.append(one)
        elif one.switches_program:
            msg = "a plan that switches the program cannot be replayed: request its change again"
            raise RefusedError(msg)
        else:
            changes.append(one)
    return ChangeSet(edits=tuple(edits), changes=tuple(changes))


def with_functions(changes: Iterable[AnyChange], find: Find) -> Sequence[AnyChange]:
    """The changes with edits in place of those that name a function. find: the function at an import path.

    Raises RefusedError where a factory does not make a function of its parameters.
    """
    return [_with_function(one, find) if isinstance(one, AssignLogic) else one for one in changes]


def _with_function(change: AssignLogic, find: Find) -> ChangeLogic:
    if change.parameters is None:
        return change_logic(change.operator, find(change.function))
    factory = Factory(path=change.function, parameters=change.parameters)
    return ChangeLogic(operator=change.operator, logic=factory.made(find), factory=factory)


def _flat(given: Any) -> Sequence[AnyChange]:
    flat: list[AnyChange] = []
    for one in given if isinstance(given, list | tuple) else (given,):
        if isinstance(one, Change):
            flat.extend(parts_of(one))
        elif isinstance(one, ProgramEdit):
            flat.append(one)
        elif isinstance(one, type) and issubclass(one, Change):
            msg = f"change is rc.changes.{one.kind} itself: call it with its arguments"
            raise RefusedError(msg)
        else:
            msg = f"expected a change, such as rc.changes.rescale('counts', tasks=8), got {one!r}"
            raise RefusedError(msg)
    return flat
