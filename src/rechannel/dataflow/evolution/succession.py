"""May this logic take over from that one, and what becomes of the state? Answers come as a value or a refusal.

What is the same for every operator: key columns stay, for state lies where their hash says; so does the kind of
operator, for what a column means is not written in it. `aggregate` knows by itself what becomes of its columns:
aggregates that are new start as if no row had been (their empty state), those that are gone are dropped, and one
that is computed otherwise is refused, since what is stored is the result of the old way. `track` keeps time: where a
timeout comes, keys count as seen at the change; where it gets longer or goes, keys that it had ended stay ended,
whether or not their rows were merged away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from rechannel.dataflow.evolution.migration import Migrate
from rechannel.errors import RefusedError
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.kernels.protocol.migrate import Migration, fingerprint
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.model.ddl import columns_text
from rechannel.operators.aggregate.logic import AggregateLogic, Bound, KeepsAggregates
from rechannel.operators.spec import INSTEAD


def migration_between(
    old: StatefulLogic,
    new: StatefulLogic,
    migrate: Migrate | None = None,
    *,
    stream_ms: int | None = None,
) -> Migration | None:
    """What converts state of the old logic to the new one; None if it needs no conversion.

    migrate: what the user said. stream_ms: time of the change, Unix milliseconds: not before that of
    any timestep of the old logic, not after that of any of the new one.
    Raises RefusedError with the reason, or DataflowError for a `migrate` that does not fit.
    """
    _check_kinds(old, new)
    _check_keys(old.key_schema, new.key_schema)
    _check_ends(noted_timeout(old), noted_timeout(new))
    expired = expired_before(old, new, stream_ms)
    wanted = migrate or Migrate()
    before, after = aggregates_of(old), aggregates_of(new)
    if before is not None and after is not None and wanted.using is None:
        wanted = _Aggregates(before, after, wanted).merged()
    migration = wanted.bind(
        old.state_schema,
        new.state_schema,
        keys=new.key_schema,
        stream_ms=stream_ms,
        expired_before_ms=expired,
    )
    if wanted.is_empty and expired is None and _same(old, new):
        _check_nothing_back(wanted)
        return None
    return migration


def _check_nothing_back(wanted: Migrate) -> None:
    if wanted.back is not None:
        msg = "migrate(back=...): state does not change, so there is nothing to convert back; leave it out"
        raise RefusedError(msg)


def expired_before(old: StatefulLogic, new: StatefulLogic, stream_ms: int | None) -> int | None:
    """Keys that were last seen before this were gone at the change, and stay so under a longer timeout.

    Raises RefusedError where that needs a time and there is none.
    """
    before, after = Capabilities(old).timing_out, Capabilities(new).timing_out
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


def noted_timeout(logic: StatefulLogic) -> int | None:
    """The timeout by which stored state is looked for keys that end, in ms; None = it is not."""
    timing = Capabilities(logic).timing_out
    return timing.timeout_ms if timing is not None and timing.ends_noted else None


def _check_ends(old: int | None, new: int | None) -> None:
    if old is not None and new is not None and old != new:
        msg = (
            f"a timeout cannot change from {old} ms to {new} ms while a changelog is read, which reports every key"
            f" that ends: the ends of stored keys would be reported at the wrong time; {INSTEAD}"
        )
        raise RefusedError(msg)


def _same(old: StatefulLogic, new: StatefulLogic) -> bool:
    before = fingerprint(old.key_schema, old.state_schema)
    return before == fingerprint(new.key_schema, new.state_schema)


def _check_kinds(old: StatefulLogic, new: StatefulLogic) -> None:
    was, will = Capabilities(old).state_kind, Capabilities(new).state_kind
    if was != will:
        msg = f"{was} cannot become {will}: {INSTEAD}"
        raise RefusedError(msg)


def aggregates_of(logic: StatefulLogic) -> AggregateLogic | None:
    """The aggregates that are all the state there is of an operator, None where it has other state."""
    return logic.kept_aggregates if isinstance(logic, KeepsAggregates) else None


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

    def __init__(self, old: AggregateLogic, new: AggregateLogic, user: Migrate) -> None:
        self.old, self.new = old, new
        self.before = {one.name: one for one in old.aggregates}
        self.after = {one.name: one for one in new.aggregates}
        self.user = self._spelt_out(user)

    def merged(self) -> Migrate:
        """Everything, column by column. Raises RefusedError."""
        add, rename, drop = dict(self.user.add), dict(self.user.rename), list(self.user.drop)
        gone = {name for name in self.old.state_schema.names if name in (*drop, *rename)}
        for name, one in self.after.items():
            older = self.before.get(name)
            mine = self._columns(self.new, one)
            if older is not None and not gone.intersection(self._columns(self.old, older)):
                if not self._explained(mine):
                    _refuse_other_way(older, one, retyped=bool({*self.user.retype} & {*mine}))
            elif not {*add, *rename.values()}.intersection(mine):
                add.update(self._empty(one, mine))
        for name, one in self.before.items():
            if name not in self.after:
                drop += [c for c in self._columns(self.old, one) if c not in (*drop, *rename)]
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
            columns = self._columns(self.old, older), self._columns(self.new, newer)
            rename.update(zip(*columns, strict=True))
        drop = [
            column
            for name in user.drop
            for column in (
                self._columns(self.old, self.before[name]) if name in self.before else [name]
            )
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
            mine = self._columns(self.new, self.after[name]) if name in self.after else []
            out[mine[0] if len(mine) == 1 else name] = value
        return out

    def _explained(self, columns: list[str]) -> bool:
        """Whether the user said something of these new columns."""
        return bool({*self.user.add, *self.user.rename.values()}.intersection(columns))

    @staticmethod
    def _columns(logic: AggregateLogic, one: Bound) -> list[str]:
        names: list[str] = logic.state_schema.names
        return names[one.state]

    def _empty(self, one: Bound, columns: list[str]) -> dict[str, pa.Array]:
        """State of no rows."""
        state = one.function.empty(list(one.fields))
        if state is None:
            msg = (
                f"aggregate {one.name!r} ({one.function!r}) cannot be added: its state cannot say "
                "that there were no rows yet for keys that are known already. Let it ignore nulls, "
                "where it can, or keep it in an operator of its own"
            )
            raise RefusedError(msg)
        return dict(zip(columns, state, strict=True))


def _refuse_other_way(old: Bound, new: Bound, *, retyped: bool = False) -> None:
    """Raise RefusedError unless what is stored means the same to both. retyped: other types are intended."""
    before, after = [field.type for field in old.fields], [field.type for field in new.fields]
    if repr(old.function) == repr(new.function) and (retyped or before == after):
        return
    was = f"{old.function!r} of {columns_text(pa.schema(old.fields)) or 'rows'}"
    will = f"{new.function!r} of {columns_text(pa.schema(new.fields)) or 'rows'}"
    msg = (
        f"aggregate {new.name!r} was {was} and would be {will}: what is stored is the result of "
        f"the old way. Give the new one another name, start it anew with "
        f"migrate(drop=[{new.name!r}]), or say what becomes of its columns with migrate(using=...)"
    )
    raise RefusedError(msg)
