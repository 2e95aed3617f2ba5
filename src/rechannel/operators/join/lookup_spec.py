"""`lookup` as a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.kernels.columnar.ranking import orderable
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.kernels.protocol.two_sides import LEFT, PREFIXES, RIGHT, Side, slots_of
from rechannel.model.ddl import type_name
from rechannel.operators.checks import need_columns
from rechannel.operators.join.columns import plain_name
from rechannel.operators.join.lookup import LookupLogic
from rechannel.operators.spec import OperatorSpec
from rechannel.sources.table import GONE


@dataclass(frozen=True, eq=False, kw_only=True)
class LookupSpec(OperatorSpec):
    """Rows of a stream with the newest row of a table. See `lookup`."""

    how: str
    """inner or left."""
    on: tuple[tuple[str, str], ...]
    """Names of the join keys, (stream, table)."""
    by: tuple[str, ...] = ()
    """Columns of the table that say which of two rows is newer; none = the one that came last."""
    suffix: str = "_right"
    """Appended to columns of the table whose name the stream has too."""

    @property
    def has_table(self) -> bool:
        """Rows leave when they come, and a table has no part in their event time."""
        return True

    @property
    def kind(self) -> str:
        """Return the kind in one word."""
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
        """Return what the meaning of stored rows depends on."""
        return f"lookup({self.fixed})"

    @property
    def fixed(self) -> str:
        """Which row of a key is kept: others are gone."""
        return f"{self.on} by {self.by}"


def _side(
    fields: list[pa.Field], sources: list[str], names: list[str], slots: tuple[int, ...]
) -> Side:
    return Side(fields=pa.schema(_called(fields, names)), sources=tuple(sources), slots=slots)


def _called(fields: list[pa.Field], names: list[str]) -> list[pa.Field]:
    return [field.with_name(name) for field, name in zip(fields, names, strict=True)]
