"""`lookup`: what the user says of a stream and a table, and what it means as nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rechannel.dataflow.graph.durations import Duration, microseconds
from rechannel.dataflow.graph.naming import DerivedName, caller, given, keyed_name
from rechannel.dataflow.graph.nodes import Node, Source, Stateful
from rechannel.dataflow.streams.pairing import On, both_sides, need_sides, operator_over, pairs_of
from rechannel.errors import DataflowError
from rechannel.operators.checks import need_columns
from rechannel.operators.join.lookup_spec import LookupSpec
from rechannel.sources.table import Held, TableConnector, is_table

Found = Literal["inner", "left"]

TABLE = ".table"
"""What the name of a lookup's table adds to that of the lookup."""


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
        msg = f"{what}: how must be 'inner' (rows that have a match) or 'left' (all rows), not {how!r}"
        raise DataflowError(msg)
    order = order_in(by, what)
    alike = [column for column in order if column in pairs.values()]
    if alike:
        msg = f"{what}: by={alike[0]!r} is a column of on=, in which all rows of a key are equal; name another column"
        raise DataflowError(msg)
    keys = tuple(pairs)
    settled = given(name, keyed_name(stream, "lookup", keys))
    if isinstance(table, Node):
        if refresh is not None:
            msg = f"{what}: refresh= says how often a DataFrame is read again; a stream brings its changes itself"
            raise DataflowError(msg)
    else:
        table, order = _source(table, pairs, order, refresh, settled, what), ()
    need_sides(what, stream, table, pairs, suffix)
    spec = LookupSpec(how=how, on=tuple(pairs.items()), by=order, suffix=suffix)
    both = both_sides(settled, stream, table, pairs)
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
    return Source(name=DerivedName(f"{name}{TABLE}"), where=caller(), connector=connector)


def order_in(by: str | Sequence[str], what: str) -> tuple[str, ...]:
    """The columns that tell which row of a table is newer. Raises DataflowError."""
    names = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, Sequence) else (by,)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        msg = f"{what}: by names columns of the table, each once, as in by='changed', not {by!r}"
        raise DataflowError(msg)
    return names
