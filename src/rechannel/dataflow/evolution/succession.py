"""May this logic take over from that one, and what becomes of the state? Answers come as a value or a refusal.

What is the same for every operator: key columns stay, for state lies where their hash says; so does the kind of
operator, for what a column means is not written in it. `aggregate` knows by itself what becomes of its columns:
aggregates that are new start as if no row had been (their empty state), those that are gone are dropped, and one
that is computed otherwise is refused, since what is stored is the result of the old way. `track` keeps time: where a
timeout comes, keys count as seen at the change; where it gets longer or goes, keys that it had ended stay ended,
whether or not their rows were merged away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from rechannel.dataflow.evolution.description import (
    Described,
    Description,
    KeptAggregate,
    aggregates_of,
    described,
)
from rechannel.dataflow.evolution.migration import Migrate
from rechannel.dataflow.evolution.widening import widens
from rechannel.errors import RefusedError
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.kernels.protocol.migrate import Migration
from rechannel.model.ddl import columns_text
from rechannel.operators.spec import INSTEAD


def migration_between(
    before: Described,
    after: Described,
    migrate: Migrate | None = None,
    *,
    stream_ms: int | None = None,
) -> Migration | None:
    """What converts state of the old logic to the new one; None if it needs no conversion.

    before, after: the logic, or what the journal keeps of it. Aggregates are added by their own functions only, so
    `after` is logic, or there is a `using` in `migrate`.

    migrate: what the user said. stream_ms: time of the change, Unix milliseconds: not before that of
    any timestep of the old logic, not after that of any of the new one.
    Raises RefusedError with the reason, or DataflowError for a `migrate` that does not fit.
    """
    old, new = described(before), described(after)
    _check_kinds(old, new)
    _check_keys(old.key_schema, new.key_schema)
    _check_ends(old.noted_timeout, new.noted_timeout)
    expired = expired_before(old, new, stream_ms)
    wanted = migrate or Migrate()
    _check_named_states(old, new, wanted)
    if old.aggregates is not None and new.aggregates is not None and wanted.using is None:
        wanted = _Aggregates(old, new, wanted).merged()
    migration = wanted.bind(
        old.state_schema,
        new.state_schema,
        keys=new.key_schema,
        stream_ms=stream_ms,
        expired_before_ms=expired,
    )
    if wanted.is_empty and expired is None and old.columns == new.columns:
        _check_nothing_back(wanted)
        return None
    return migration


def _check_nothing_back(wanted: Migrate) -> None:
    if wanted.back is not None:
        msg = "migrate(back=...): state does not change, so there is nothing to convert back; leave it out"
        raise RefusedError(msg)


def expired_before(old: Described, new: Described, stream_ms: int | None) -> int | None:
    """Keys that were last seen before this were gone at the change, and stay so under a longer timeout.

    Raises RefusedError where that needs a time and there is none.
    """
    before, after = described(old).timeout, described(new).timeout
    if before is None or after is None or before.timeout_ms is None or before.keeps_timers:
        return None
    if after.timeout_ms is not None and after.timeout_ms <= before.timeout_ms:
        return None
    if stream_ms is None:
        msg = (
            "a longer timeout, or none, needs the time of the change, because keys that the shorter one has ended by"
            " then stay ended: change the timeout in the running job, with rc.changes.change_logic()"
        )
        raise RefusedError(msg)
    return stream_ms - before.timeout_ms


def _check_ends(old: int | None, new: int | None) -> None:
    if old is not None and new is not None and old != new:
        msg = (
            f"a timeout cannot change from {old} ms to {new} ms while a changelog is read, which reports every key"
            f" that ends: the ends of stored keys would be reported at the wrong time; {INSTEAD}"
        )
        raise RefusedError(msg)


def _check_kinds(old: Description, new: Description) -> None:
    if old.kind != new.kind:
        msg = f"{old.kind} cannot become {new.kind}: {INSTEAD}"
        raise RefusedError(msg)


def _check_named_states(old: Description, new: Description, wanted: Migrate) -> None:
    """Refuse what would give stored rows, each of which bears the name of its state, another meaning."""
    if old.shapes is None or new.shapes is None:
        return
    if wanted.using is not None or wanted.back is not None:
        msg = (
            "migrate(using=...) and migrate(back=...) cannot convert the states of process, of which each stored row"
            f" holds one: add states empty with migrate(add={{name: None}}), drop others, or {INSTEAD}"
        )
        raise RefusedError(msg)
    if wanted.rename:
        one, other = next(iter(wanted.rename.items()))
        msg = (
            f"state {one!r} cannot be renamed to {other!r}, since stored rows bear its name: keep the name, or give"
            f" its values up with migrate(drop=[{one!r}], add={{{other!r}: None}})"
        )
        raise RefusedError(msg)
    for name, value in wanted.add.items():
        if value is not None:
            msg = f"state {name!r} of process begins empty: say migrate(add={{{name!r}: None}}), not {value!r}"
            raise RefusedError(msg)
    for name, shape in new.shapes.items():
        if name in wanted.drop or name not in old.shapes:
            continue
        was = old.shapes[name]
        if was != shape:
            msg = (
                f"state {name!r} is stored as a {was} and would be a {shape}: give the new one another name, and give"
                f" the old one up with migrate(drop=[{name!r}])"
            )
            raise RefusedError(msg)
        _check_values(name, *(each.state_schema.field(name).type for each in (old, new)))


def _check_values(name: str, old: pa.StructType, new: pa.StructType) -> None:
    """Refuse a state that cannot hold what is stored of it."""
    if widens(old, new):
        return
    holds, would = (columns_text(pa.schema(list(each))) for each in (old, new))
    msg = (
        f"state {name!r} holds {holds} and would hold {would}, in which not every value fits: give the new one another"
        " name, and let the function move what it reads in the old one, or give the values up with"
        f" migrate(drop=[{name!r}], add={{{name!r}: None}})"
    )
    raise RefusedError(msg)


def hidden_types(logic: StatefulLogic) -> dict[str, str]:
    """Types of inputs, by aggregate, where what is stored depends on them and does not show them."""
    kept = aggregates_of(logic)
    return {} if kept is None else kept.hidden_types


def other_types(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Aggregates whose input was of another type. before, after: see `hidden_types`."""
    return sorted(name for name, kind in after.items() if before.get(name, kind) != kind)


def _check_keys(old: pa.Schema, new: pa.Schema) -> None:
    if columns_text(old) != columns_text(new) or old.types != new.types:
        msg = (
            f"key columns cannot change: they are {columns_text(old)} and would be "
            f"{columns_text(new)}, and state lies where the hash of its key says; {INSTEAD}"
        )
        raise RefusedError(msg)


class _Aggregates:
    """What a set of aggregates says of its columns by itself, beside what the user said."""

    def __init__(self, old: Description, new: Description, user: Migrate) -> None:
        self.old = old
        self.before = {one.name: one for one in old.aggregates or ()}
        self.after = {one.name: one for one in new.aggregates or ()}
        self.user = self._spelt_out(user)

    def merged(self) -> Migrate:
        """Everything, column by column. Raises RefusedError."""
        add, rename, drop = dict(self.user.add), dict(self.user.rename), list(self.user.drop)
        gone = {name for name in self.old.state_schema.names if name in (*drop, *rename)}
        for name, one in self.after.items():
            older = self.before.get(name)
            mine = one.columns
            if older is not None and not gone.intersection(older.columns):
                if not self._explained(mine):
                    _refuse_other_way(older, one, retyped=bool({*self.user.retype} & {*mine}))
            elif not {*add, *rename.values()}.intersection(mine):
                add.update(self._empty(one))
        for name, one in self.before.items():
            if name not in self.after:
                drop += [c for c in one.columns if c not in (*drop, *rename)]
        return replace(self.user, add=add, drop=tuple(drop), rename=rename)

    def _spelt_out(self, user: Migrate) -> Migrate:
        """Aggregates are known to users by the name of their result: say their columns instead."""
        rename: dict[str, str] = {}
        for name, other in user.rename.items():
            older, newer = self.before.get(name), self.after.get(other)
            if older is None or newer is None:
                rename[name] = other
                continue
            _refuse_other_way(older, newer)
            rename.update(zip(older.columns, newer.columns, strict=True))
        drop = [
            column
            for name in user.drop
            for column in (self.before[name].columns if name in self.before else [name])
        ]
        return replace(
            user,
            add=self._by_column(user.add),
            retype=self._by_column(user.retype),
            rename=rename,
            drop=tuple(drop),
        )

    def _by_column(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Apply what the user gave for an aggregate with one state column to that column."""
        out: dict[str, Any] = {}
        for name, value in wanted.items():
            mine = self.after[name].columns if name in self.after else ()
            out[mine[0] if len(mine) == 1 else name] = value
        return out

    def _explained(self, columns: Sequence[str]) -> bool:
        """Whether the user said something of these new columns."""
        return bool({*self.user.add, *self.user.rename.values()}.intersection(columns))

    @staticmethod
    def _empty(one: KeptAggregate) -> dict[str, pa.Array]:
        """State of no rows."""
        assert one.bound is not None  # noqa: S101 - of the program that begins
        state = one.bound.function.empty(list(one.fields))
        if state is None:
            msg = (
                f"aggregate {one.name!r} ({one.function}) cannot be added: its state cannot say "
                "that there were no rows yet for keys that are known already. Let it ignore nulls, "
                "where it can, or keep it in an operator of its own"
            )
            raise RefusedError(msg)
        return dict(zip(one.columns, state, strict=True))


def _refuse_other_way(old: KeptAggregate, new: KeptAggregate, *, retyped: bool = False) -> None:
    """Raise RefusedError unless what is stored means the same to both. retyped: other types are intended."""
    if old.same_way(new, retyped=retyped):
        return
    was = f"{old.function} of {columns_text(pa.schema(old.fields)) or 'rows'}"
    will = f"{new.function} of {columns_text(pa.schema(new.fields)) or 'rows'}"
    msg = (
        f"aggregate {new.name!r} was {was} and would be {will}: what is stored is the result of "
        f"the old way. Give the new one another name, start it anew with "
        f"migrate(drop=[{new.name!r}]), or say what becomes of its columns with migrate(using=...)"
    )
    raise RefusedError(msg)
