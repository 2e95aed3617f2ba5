"""`lookup`: what the user says of a stream and a table, and what it means as nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from rechannel.dataflow.durations import Duration, microseconds
from rechannel.dataflow.graph import Node, Paired, Source, Stateful
from rechannel.dataflow.naming import DerivedName, caller, given, keyed_name
from rechannel.dataflow.operator_spec import OperatorSpec
from rechannel.dataflow.pairing import On, mapped, operator_over, pairs_of, plain_name
from rechannel.dataflow.rules import need_columns
from rechannel.dataflow.schema import known
from rechannel.errors import DataflowError
from rechannel.kernels.columnar.ranking import orderable
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.kernels.protocol.two_sides import LEFT, PREFIXES, RIGHT, Side, Sided, slots_of
from rechannel.model.ddl import type_name
from rechannel.operators.join.lookup import LookupLogic
from rechannel.sources.table import GONE, Held, TableConnector, is_table

Found = Literal["inner", "left"]


@dataclass(frozen=True, eq=False, kw_only=True)
class LookupSpec(OperatorSpec):
    """Rows of a stream with the newest row of a table. See `kernels.table`.

    on: columns that are alike, of the stream and of the table. by: the table's columns that tell the newer row. suffix:
    ends names that both have.
    """

    how: str
    on: tuple[tuple[str, str], ...]
    by: tuple[str, ...] = ()
    suffix: str = "_right"

    @property
    def has_table(self) -> bool:
        """Rows leave when they come, and a table has no part in their event time."""
        return True

    @property
    def kind(self) -> str:
        """One word."""
        return "lookup"

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check columns and types of both sides. Raises DataflowError."""
        others = schema.names[len(keys) + 1 :]
        sources = [[n for n in others if n.startswith(PREFIXES[side])] for side in (LEFT, RIGHT)]
        fields = [[schema.field(name) for name in names] for names in sources]
        left, right, slots = slots_of(*fields)
        ours, theirs = ([plain_name(name) for name in names] for names in sources)
        ends = GONE in theirs
        columns = [name for name in theirs if name != GONE]
        if ends and theirs[-1] != GONE:
            msg = f"lookup: the table's column {GONE!r} must be its last one"
            raise DataflowError(msg)
        kept = [*self._named(columns, keys), *([GONE] if ends else [])]
        shown = self._named(columns, (*keys, *ours))
        return LookupLogic(
            key_schema=pa.schema([schema.field(key) for key in keys]),
            left=_side(fields[LEFT], sources[LEFT], ours, left),
            right=_side(fields[RIGHT], sources[RIGHT], kept, right),
            slots=slots,
            shown=pa.schema(_called(fields[RIGHT][: len(shown)], shown)),
            how=self.how,
            by=self._order(columns, fields[RIGHT]),
            ends=ends,
        )

    def _order(self, columns: list[str], fields: list[pa.Field]) -> tuple[int, ...]:
        need_columns("lookup: by", self.by, pa.schema(_called(fields[: len(columns)], columns)))
        places = tuple(columns.index(name) for name in self.by)
        for place in places:
            kind = fields[place].type
            if not orderable(kind):
                msg = f"lookup: rows of a key cannot be ordered by {columns[place]!r}, which is {type_name(kind)}"
                raise DataflowError(msg)
        return places

    def _named(self, columns: list[str], taken: Sequence[str]) -> list[str]:
        """Names of the table's columns beside others."""
        names = [name + self.suffix if name in taken else name for name in columns]
        for name, plain in zip(names, columns, strict=True):
            if names.count(name) > 1 or name in taken:
                msg = (
                    f"lookup: the stream and the table have a column {plain!r}, and {name!r} is there already; give"
                    " another suffix="
                )
                raise DataflowError(msg)
        return names

    def fingerprint(self) -> str:
        """What stored rows mean."""
        return f"lookup({self.fixed})"

    @property
    def fixed(self) -> str:
        """Which row of a key is kept: others are gone."""
        return f"{self.on} by {self.by}"


def lookup(  # noqa: PLR0913 - the arguments of `Stream.lookup`
    stream: Node,
    table: Any,
    on: On,
    *,
    how: str,
    by: str | Sequence[str],
    refresh: Duration | None,
    suffix: str,
    name: str | None,
    tasks: int | None,
    bins: int | None,
) -> Stateful:
    """The operator that looks rows up in a table. Raises DataflowError, UnknownColumnError.

    table: a node, a DataFrame, an Arrow table, or a function that makes one of the latter.
    """
    what = f"lookup ({caller()})"
    pairs = pairs_of(on, what)
    if how not in ("inner", "left"):
        msg = f"{what}: how is 'inner' (rows that have a match) or 'left' (all rows), not {how!r}"
        raise DataflowError(msg)
    if not isinstance(suffix, str):
        msg = f"{what}: suffix ends names: it is a text, not {suffix!r}"
        raise DataflowError(msg)
    order = order_in(by, what)
    alike = [column for column in order if column in pairs.values()]
    if alike:
        msg = f"{what}: by={alike[0]!r} is a column of on=: rows of a key are all alike in it"
        raise DataflowError(msg)
    keys = tuple(pairs)
    settled = given(name, keyed_name(stream, "lookup", keys))
    if isinstance(table, Node):
        if refresh is not None:
            msg = f"{what}: refresh= says how often a DataFrame is read again; a stream brings its changes itself"
            raise DataflowError(msg)
    else:
        table, order = _source(table, pairs, order, refresh, settled, what), ()
    sides = ((LEFT, stream, list(pairs)), (RIGHT, table, list(pairs.values())))
    for _, node, names in sides:
        schema = known(node)
        if schema is not None:
            need_columns(what, names, schema)
    spec = LookupSpec(how=how, on=tuple(pairs.items()), by=order, suffix=suffix)
    inputs: list[Node] = [
        mapped(
            f"{settled}.{PREFIXES[side]}rows",
            node,
            Sided(side=side, keys=tuple(zip(names, keys, strict=True))),
        )
        for side, node, names in sides
    ]
    both = Paired(name=f"{settled}.sides", where=caller(), inputs=tuple(inputs), keys=keys)
    return operator_over(both, settled, spec, tasks, bins)


def _source(
    table: object,
    pairs: Mapping[str, str],
    by: tuple[str, ...],
    refresh: Duration | None,
    name: str,
    what: str,
) -> Source:
    """A finished table as a source. What its rows are is settled where it is read: its rows have no order."""
    if not (is_table(table) or callable(table)):
        msg = f"{what} takes a stream, a DataFrame or a function that makes one, not {type(table).__name__}"
        raise DataflowError(msg)
    every = None
    if refresh is not None:
        every = microseconds(refresh, f"{what}: refresh", least=1_000) // 1_000
    connector = TableConnector(
        held=Held(table), keys=tuple(pairs.values()), by=by, refresh_ms=every
    )
    schema = connector.schema
    if schema is not None:
        need_columns(f"{what}: by", by, schema)
    return Source(name=DerivedName(f"{name}.table"), where=caller(), connector=connector)


def order_in(by: str | Sequence[str], what: str) -> tuple[str, ...]:
    """The columns that tell which row of a table is newer. Raises DataflowError."""
    names = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, Sequence) else (by,)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        msg = f"{what}: by names columns of the table, each once, as in by='changed', not {by!r}"
        raise DataflowError(msg)
    return names


def _side(
    fields: list[pa.Field], sources: list[str], names: list[str], slots: tuple[int, ...]
) -> Side:
    return Side(fields=pa.schema(_called(fields, names)), sources=tuple(sources), slots=slots)


def _called(fields: list[pa.Field], names: list[str]) -> list[pa.Field]:
    return [field.with_name(name) for field, name in zip(fields, names, strict=True)]
