"""What differs between two dataflows: pure, by the stable names of nodes. Nothing is decided here but what cannot be.

A node of one name may run other logic, and its rows may come from elsewhere. What it *is* stays: a source keeps
offsets under its name, an operator state, a sink files. So kinds, keys, connectors and outlets do not change
under a name; `refusals` says which ones would, and what to do instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from rechannel.dataflow.checks.check import fingerprint
from rechannel.dataflow.graph.nodes import (
    Dataflow,
    MapBatches,
    Node,
    Paired,
    Sink,
    Source,
    Stateful,
    Transform,
)
from rechannel.dataflow.graph.rules import kind_of, label
from rechannel.dataflow.identity.digests import digest_of
from rechannel.dataflow.identity.logic import function_of, logic_identity, other_settings
from rechannel.errors import RefusedError
from rechannel.operators.spec import INSTEAD, OperatorSpec
from rechannel.operators.window.spec import AggregatesSpec

Schemas = Mapping[str, pa.Schema]
"""Columns of every node, by name, as `resolve` answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Names of nodes, each in the order of its dataflow.

    added, removed: nodes that only the new, only the old dataflow has. logic_changed: nodes that do
    something else. rewired: nodes whose rows come from other nodes. restated: operators whose state
    is described otherwise: `migration_between` says whether a migration is needed. affected: nodes
    of the new dataflow that are added, changed or rewired, and all downstream of them: their rows may
    differ from now on. refusals: what cannot be done, one sentence each.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    logic_changed: tuple[str, ...] = ()
    rewired: tuple[str, ...] = ()
    restated: tuple[str, ...] = ()
    affected: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything differs."""
        changed = (self.added, self.removed, self.logic_changed, self.rewired, self.restated)
        return any(changed) or bool(self.refusals)

    def check(self) -> None:
        """Raise RefusedError if the new dataflow cannot take over from the old one."""
        if self.refusals:
            raise RefusedError("; ".join(self.refusals))


def differences(
    old: Dataflow,
    new: Dataflow,
    *,
    old_schemas: Schemas | None = None,
    new_schemas: Schemas | None = None,
) -> Difference:
    """What differs. With the columns of all nodes, operators are compared by their bound state."""
    both = [(old.by_name[name], node) for name, node in new.by_name.items() if name in old.by_name]
    added = [name for name in new.by_name if name not in old.by_name]
    changed = [two.name for one, two in both if _other_logic(one, two)]
    rewired = [two.name for one, two in both if _inputs(one) != _inputs(two)]
    before, after = fingerprint(old, old_schemas), fingerprint(new, new_schemas)
    restated = [name for name in after if name in before and before[name] != after[name]]
    return Difference(
        added=tuple(added),
        removed=tuple(name for name in old.by_name if name not in new.by_name),
        logic_changed=tuple(changed),
        rewired=tuple(rewired),
        restated=tuple(restated),
        affected=_behind(new, {*added, *changed, *rewired, *restated}),
        refusals=(
            *(text for one, two in both if (text := refusal(one, two)) is not None),
            *table_refusals(old, new),
        ),
    )


def refusal(old: Node, new: Node) -> str | None:
    """Why a node cannot take the place of another under its name; None if it can."""
    if _role(old) != _role(new):
        return f"{label(new)} cannot take the place of {label(old)}: give it another name"
    if isinstance(old, Stateful) and isinstance(new, Stateful):
        return _operator_refusal(old, new)
    one, two = _place(old), _place(new)
    if one != two:
        kept = "offsets are" if isinstance(old, Source) else "what was published is"
        return f"{label(new)}: it was {one} and would be {two}, and {kept} kept under its name: give it another"
    if isinstance(old, Source) and isinstance(new, Source):
        others = other_settings(old.connector, new.connector)
        if others:
            return (
                f"{label(new)}: how it is read cannot change while the job runs, and {', '.join(others)} would: leave"
                " that as it was, or stop the job and start it with the new program"
            )
    return None


def _operator_refusal(old: Stateful, new: Stateful) -> str | None:
    if old.spec.kind != new.spec.kind:
        return f"{label(new)}: {old.spec.kind} cannot become {new.spec.kind}; {INSTEAD}"
    if old.spec.fixed != new.spec.fixed:
        return (
            f"{label(new)}: its windows cannot change, nor which rows it keeps and for how long: what is gone cannot"
            f" come back; {INSTEAD}"
        )
    if old.spec.irreplaceable is not None and _other_aggregates(old.spec, new.spec):
        return f"{label(new)}: {old.spec.irreplaceable}"
    if old.keys != new.keys:
        return (
            f"{label(new)}: its keys cannot change from {', '.join(old.keys)} to "
            f"{', '.join(new.keys)}: state lies where the hash of its key says; {INSTEAD}"
        )
    return None


def _other_aggregates(old: OperatorSpec, new: OperatorSpec) -> bool:
    """Whether what windows compute differs, as far as digests show."""
    one, two = lasting_digest(old), lasting_digest(new)
    return one is None or one != two


def lasting_digest(spec: OperatorSpec) -> str | None:
    """Digest of what windows compute, which no other logic can go on with; None of other operators."""
    return digest_of(spec.aggregates).text if isinstance(spec, AggregatesSpec) else None


def table_refusals(old: Dataflow, new: Dataflow) -> Iterator[str]:
    """Lookups that would begin without the rows which an operator that stays has emitted up to now."""
    for node in new.nodes:
        before = set(tables_of(old.by_name[node.name])) if node.name in old.by_name else set()
        missed = [n for n in tables_of(node) if n in old.by_name and n not in before]
        if missed:
            yield (
                f"{label(node)} would not have what {missed[0]!r} has emitted up to now, and not find keys that do not"
                f" change again: look up in a DataFrame of what a sink of it has written, lookup(lambda: ...,"
                " refresh='1 minute'), or begin a job with this lookup"
            )


def tables_of(node: Node) -> tuple[str, ...]:
    """Operators whose rows are the table of a lookup; none of other nodes."""
    if not isinstance(node, Stateful) or not node.spec.has_table:
        return ()
    assert isinstance(node.upstream, Paired)  # noqa: S101 - as `lookup` makes it
    return tuple(dict.fromkeys(each.name for each in _emitting(node.upstream.inputs[1])))


def _emitting(node: Node) -> Iterator[Stateful]:
    """The nearest operators with state upstream, the node itself included."""
    if isinstance(node, Stateful):
        yield node
        return
    for upstream in node.upstreams:
        yield from _emitting(upstream)


def _role(node: Node) -> str:
    """What a node is to others: what is kept under its name depends on it."""
    return "stateless" if isinstance(node, Transform | MapBatches) else type(node).__name__.lower()


def _place(node: Node) -> str | None:
    """What is kept under the name of a source or sink belongs to this."""
    if isinstance(node, Source):
        return node.connector.describe()
    if isinstance(node, Sink):
        kept = node.outlet.place is not None
        return node.outlet.describe() if kept else type(node.outlet).__name__
    return None


def _inputs(node: Node) -> list[str]:
    return [up.name for up in node.upstreams]


def _other_logic(old: Node, new: Node) -> bool:
    """Whether nodes of one name do something else, as far as digests show.

    A function that holds what a digest cannot read is another one unless it is the very same.
    """
    if old is new:
        return False
    if isinstance(old, Sink) and isinstance(new, Sink) and old.failure != new.failure:
        return True
    one, two = logic_identity(old), logic_identity(new)
    if one.digest != two.digest or kind_of(old) != kind_of(new):
        return True
    if one.complete and two.complete:
        return False
    mine, other = (function_of(node) or _logic(node) for node in (old, new))
    return mine is not other


def _logic(node: Node) -> object:
    """What a node holds as its logic, None for one that has none."""
    if isinstance(node, Stateful):
        return node.spec
    return node.function if isinstance(node, Transform | MapBatches) else None


def _behind(dataflow: Dataflow, names: set[str]) -> tuple[str, ...]:
    found = set(names)
    for node in dataflow.nodes:
        if any(up.name in found for up in node.upstreams):
            found.add(node.name)
    return tuple(node.name for node in dataflow.nodes if node.name in found)
