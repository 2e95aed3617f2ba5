"""`rc.changes.migrate(...)`: what becomes of an operator's state when its logic keeps other columns.

    rc.changes.migrate(add={"total": 0.0}, rename={"n": "flights"}, retype={"flights": "BIGINT"}, drop=["old"])

Every column must be accounted for: nothing of a key's state is lost or made up without being said. `bind` holds what
was said against the columns before and after and makes a `Migration` of it, or refuses with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from rechannel.dataflow.evolution.expressions import computed
from rechannel.dataflow.evolution.widening import widens
from rechannel.dataflow.identity.digests import path_of
from rechannel.errors import DataflowError, RefusedError, UnknownColumnError, UserFunctionError
from rechannel.kernels.columnar.sparse import SEEN
from rechannel.kernels.functions.python_rows import column_of
from rechannel.kernels.protocol.migrate import Answer, Carry, ColumnStep, Convert, Fill, Migration
from rechannel.model.ddl import schema_of, type_name
from rechannel.operators.checks import suggest
from rechannel.operators.process.timers import UNTIL

NO_KEYS = pa.schema([])


def migrate(
    *,
    add: Mapping[str, Any] | None = None,
    drop: Iterable[str] = (),
    rename: Mapping[str, str] | None = None,
    retype: Mapping[str, pa.DataType | str] | None = None,
    using: Convert | None = None,
    back: Convert | None = None,
) -> Migrate:
    """What becomes of the stored state of an operator whose new logic keeps other columns.

    add: new columns: a value for all keys, or, as text, a SQL expression over the old columns
    (polars' SQL; a text value is quoted: "'none'"). drop: old columns that are given up. rename:
    {old name: new name}. retype: {new name: type} of columns that stay, in a type that holds every
    value of the old one. using: instead of all these, a function of a RecordBatch of key and old
    state columns that answers one of the new state columns, any number of rows, row i from row i.
    back: the same the other way round, from new state columns to old ones, for a return with
    `start(revert=True)`; without it columns that were only added or renamed lead back by themselves.
    Raises DataflowError for what contradicts itself.
    """
    made = Migrate(
        add=add or {},
        drop=(drop,) if isinstance(drop, str) else tuple(drop),
        rename=rename or {},
        retype={name: _type_of(name, kind) for name, kind in (retype or {}).items()},
        using=using,
        back=back,
    )
    if made.is_empty and back is None:
        msg = "migrate needs at least one of add=, drop=, rename=, retype=, using= and back="
        raise DataflowError(msg)
    return made


@dataclass(frozen=True, eq=False, kw_only=True)
class Migrate:
    """See `migrate`, which makes one."""

    add: Mapping[str, Any] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    retype: Mapping[str, pa.DataType] = field(default_factory=dict)
    using: Convert | None = None
    back: Convert | None = None

    def __post_init__(self) -> None:
        """Freeze the mappings and check that the parts agree."""
        for part in ("add", "rename", "retype"):
            object.__setattr__(self, part, dict(getattr(self, part)))
        for part, function in (("using", self.using), ("back", self.back)):
            if function is not None and not callable(function):
                msg = f"migrate({part}=...) needs a function of a RecordBatch, not {type(function).__name__}"
                raise DataflowError(msg)
        if self.using is not None and (self.add or self.drop or self.rename or self.retype):
            msg = "migrate(using=...) makes all columns itself: leave add, drop, rename and retype out"
            raise DataflowError(msg)
        both = [name for name in self.rename if name in self.drop]
        if both:
            msg = f"migrate both drops and renames column {both[0]!r}: remove it from drop= or from rename="
            raise DataflowError(msg)

    @property
    def is_empty(self) -> bool:
        """Whether no column changes."""
        return not (self.add or self.drop or self.rename or self.retype or self.using)

    def bind(
        self,
        old: pa.Schema,
        new: pa.Schema,
        *,
        keys: pa.Schema = NO_KEYS,
        stream_ms: int | None = None,
        expired_before_ms: int | None = None,
    ) -> Migration:
        """Check against the state columns before and after, and become executable.

        keys: key columns, for expressions and functions to look at. stream_ms: the time of the change,
        for keys that get a timeout: they count as seen then. expired_before_ms: keys that were last
        seen before have no state any more (see `Migration`); needed to give a timeout up. Raises
        DataflowError (UnknownColumnError) where this does not fit the columns, RefusedError where
        state cannot be carried over.
        """
        if expired_before_ms is None:
            _refuse_lost_time(old, new)
        plan = _Plan(self, old, new, keys, stream_ms)
        plan.check_names()
        steps = tuple(plan.step(field) for field in new)
        migration = Migration(
            key_schema=keys,
            from_schema=old,
            to_schema=new,
            steps=steps,
            function=plan.function,
            expired_before_ms=expired_before_ms,
        )
        _try_out(migration)
        return migration


def check_migrate(given: Mapping[str, Any]) -> None:
    """Raise DataflowError for what is no migration by operator."""
    for name, one in given.items():
        if not isinstance(one, Migrate):
            msg = (
                f"migrate={{{name!r}: ...}} needs rc.changes.migrate(...), not {type(one).__name__}"
            )
            raise DataflowError(msg)


def functions_of(given: Mapping[str, Migrate]) -> list[Convert]:
    """Return the functions of migrations that have an import path; others are refused where they are journalled."""
    every = (function for one in given.values() for function in (one.using, one.back))
    return [each for each in every if each is not None and path_of(each) is not None]


@dataclass(frozen=True, eq=False)
class _Plan:
    """What the user wrote, beside the columns that it is about."""

    migrate: Migrate
    old: pa.Schema
    new: pa.Schema
    keys: pa.Schema
    stream_ms: int | None

    @property
    def function(self) -> Convert | None:
        """The user's function, where there is a column for it to make."""
        return self.migrate.using if set(self.new.names) - {SEEN, UNTIL.name} else None

    @property
    def carried(self) -> dict[str, int]:
        """Places of old columns that stay, by their new names."""
        rename, drop = self.migrate.rename, self.migrate.drop
        stay = ((i, name) for i, name in enumerate(self.old.names) if name not in drop)
        return {rename.get(name, name): i for i, name in stay}

    def check_names(self) -> None:
        """Every name that was said is one of a column, and every old column goes somewhere."""
        migrate, carried = self.migrate, self.carried
        for part, names, schema in (
            ("drop", migrate.drop, self.old),
            ("rename", migrate.rename, self.old),
            ("rename", migrate.rename.values(), self.new),
            ("retype", migrate.retype, self.new),
            ("add", migrate.add, self.new),
        ):
            for name in names:
                if name not in schema.names:
                    when = "old" if schema is self.old else "new"
                    known = suggest(name, schema.names)
                    msg = f"migrate({part}=...): the {when} state has no column {name!r}{known}"
                    raise UnknownColumnError(msg)
        if len(carried) + len(set(migrate.drop)) != len(self.old):
            msg = f"migrate(rename={dict(migrate.rename)}): two columns would get the same name; drop one of them"
            raise DataflowError(msg)
        for name in migrate.add:
            if name in carried:
                msg = f"migrate adds column {name!r}, which the old state has too: drop or rename the old one"
                raise DataflowError(msg)
        lost = [name for name in carried if name not in (*self.new.names, SEEN)]
        if lost and migrate.using is None:
            msg = (
                f"the new state has no column {lost[0]!r}: use migrate(drop=[{lost[0]!r}]) to give "
                "it up, or rename={old: new} to keep it under another name"
            )
            raise RefusedError(msg)

    def step(self, field: pa.Field) -> ColumnStep:
        """What makes one new column."""
        name, place = field.name, self.carried.get(field.name)
        if name == SEEN and place is None:
            return self._seen(field)
        if self.migrate.using is not None and name not in (SEEN, UNTIL.name):
            return Answer()
        if name in self.migrate.add:
            return self._added(field, self.migrate.add[name])
        if place is None:
            msg = (
                f"the new state has a column {name!r} ({type_name(field.type)}) that the old one "
                f"has not: give its value for keys that have state, as in migrate(add={{{name!r}: "
                "...}), or rename an old one to it"
            )
            raise RefusedError(msg)
        self._check_carried(self.old.field(place), field)
        return Carry(column=place)

    def _seen(self, field: pa.Field) -> ColumnStep:
        """Keys that had no timeout count as seen at the moment of the change."""
        if SEEN in self.migrate.add:
            return self._added(field, self.migrate.add[SEEN])
        if self.stream_ms is None:
            msg = (
                "the timeout is new, and when stored keys were last seen is unknown: use "
                f"migrate(add={{{SEEN!r}: milliseconds}})"
            )
            raise RefusedError(msg)
        return self._added(field, self.stream_ms)

    def _added(self, field: pa.Field, value: Any) -> ColumnStep:
        if isinstance(value, str):
            return computed(value, field, pa.schema([*self.keys, *self.old]))
        if isinstance(value, pa.Array):
            return Fill(value=value)
        if value is None and not field.nullable:
            msg = f"migrate(add=...): column {field.name!r} is NOT NULL and cannot start as None; give another value"
            raise DataflowError(msg)
        try:
            return Fill(value=column_of([value], field, lambda _: "migrate(add=...)"))
        except UserFunctionError as error:
            raise DataflowError(str(error)) from error

    def _check_carried(self, old: pa.Field, new: pa.Field) -> None:
        asked = self.migrate.retype.get(new.name)
        was, will = type_name(old.type), type_name(new.type)
        if asked is not None and asked != new.type:
            msg = (
                f"migrate(retype=...): the new state declares {new.name!r} as {will}, not {type_name(asked)}: use "
                "that type, or remove the entry"
            )
            raise DataflowError(msg)
        if not widens(old.type, new.type):
            msg = (
                f"column {new.name!r} was {was} and would be {will}, which does not hold every "
                "value: convert them with migrate(using=function), or with drop= and "
                f'add={{{new.name!r}: "CAST(... AS ...)"}}'
            )
            raise RefusedError(msg)
        if old.type != new.type and asked is None:
            msg = (
                f"column {new.name!r} was {was} and would be {will}: if that is intended, use "
                f"migrate(retype={{{new.name!r}: {will!r}}})"
            )
            raise RefusedError(msg)
        if old.nullable and not new.nullable:
            msg = (
                f"column {new.name!r} would be NOT NULL and could be null before: keep it nullable, "
                f'or replace its nulls, with drop= and add={{{new.name!r}: "COALESCE(...)"}}'
            )
            raise RefusedError(msg)


def _refuse_lost_time(old: pa.Schema, new: pa.Schema) -> None:
    if SEEN in old.names and SEEN not in new.names:
        msg = (
            "the new state has no timeout, and which keys the old one has ended depends on its length "
            "and the present time, which are unknown here: keep the timeout"
        )
        raise RefusedError(msg)


def _try_out(migration: Migration) -> None:
    """Migrate no rows: that tells columns and types that a function answers."""
    schema = pa.schema([*migration.key_schema, *migration.from_schema])
    try:
        migration.apply([pa.array([], field.type) for field in schema])
    except UserFunctionError as error:
        msg = f"{error}\n(the function was called with a batch of no rows, which it must accept)"
        raise DataflowError(msg) from error


def _type_of(name: str, kind: pa.DataType | str) -> pa.DataType:
    if isinstance(kind, pa.DataType):
        return kind
    if not isinstance(kind, str):
        msg = f"migrate(retype=...): {name!r} needs a type such as 'BIGINT', not {kind!r}"
        raise DataflowError(msg)
    schema = schema_of(f"v {kind}")
    if len(schema) != 1:
        msg = f"migrate(retype=...): {name!r} needs one type, not {kind!r}"
        raise DataflowError(msg)
    return schema.field(0).type
