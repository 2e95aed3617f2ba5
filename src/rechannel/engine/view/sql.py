"""SQL over tables of state: which tables a query needs, and its answer by polars if there is no Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rechannel.errors import RechannelError, RefusedError, UnknownOperatorError

if TYPE_CHECKING:
    import polars as pl

_BEGIN = re.compile(r"(?:\s|\(|--[^\n]*(?:\n|$)|/\*.*?\*/)*([a-z]*)", re.DOTALL | re.IGNORECASE)
_TOLD = ("show", "describe", "desc", "explain")
"""First words of statements that describe tables or queries and are not queries themselves."""
_QUERIES = ("select", "with", "values", "from", "table", *_TOLD)
_SHOW = "show"
_FROM_FILES = re.compile(r"\b(?:read|scan)_\w+\s*\(", re.IGNORECASE)
"""Functions by which SQL of polars reads files."""
_MISSING = re.compile(r"relation '(.*?)' was not found")


def named(query: str, operators: Sequence[str]) -> list[str]:
    """Return the operators whose names occur in a query; only these are read. Raises RefusedError for other statements.

    If a column or a string has the name of an operator, that operator is read unnecessarily.
    """
    if not isinstance(query, str) or not query.strip():
        msg = f"a query must be a string such as 'SELECT * FROM counts', not {query!r}"
        raise RefusedError(msg)
    if _begin(query) not in _QUERIES:
        msg = f"state is read-only: a query must begin with SELECT, WITH or VALUES, not {query.strip()[:40]!r}"
        raise RefusedError(msg)
    if read := _FROM_FILES.search(query):
        msg = f"a query reads the state of operators, and no files: {read[0]}...) is refused"
        raise RefusedError(msg)
    if _begin(query) == _SHOW:
        return [*operators]
    asked = query.casefold()
    return [name for name in operators if _word(name).search(asked)]


def is_told(query: str) -> bool:
    """Return whether a statement only describes tables or another query."""
    return _begin(query) in _TOLD


def _begin(query: str) -> str:
    """Return the first word of a statement."""
    begin = _BEGIN.match(query)
    return begin[1].casefold() if begin else ""


def _word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(name.casefold())}(?!\w)")


def answer(query: str, tables: Mapping[str, pa.Table], operators: Sequence[str]) -> pa.Table:
    """Answer a query in the dialect of polars.

    tables: those that it names. operators: all names, for messages. Raises UnknownOperatorError, RefusedError.
    """
    import polars as pl

    try:
        frames: dict[str, Any] = {name: pl.from_arrow(table) for name, table in tables.items()}
        found = pl.SQLContext(frames).execute(query, eager=True)
    except pl.exceptions.PolarsError as error:
        words = str(error).partition("\n\nResolved plan")[0]
        missing = _MISSING.search(words)
        raise failed(words, missing and missing[1], operators) from error
    except pl.exceptions.PanicException as error:
        raise failed(f"polars does not support a type in it ({error})", None, operators) from error
    return _arrow(found)


def failed(words: str, missing: str | None, operators: Sequence[str]) -> RechannelError:
    """Return the error of a query that cannot be answered. missing: a table that does not exist."""
    tables = ", ".join(f"`{name}`" for name in operators) or "none"
    if missing is not None:
        msg = (
            f"no table {missing}; the tables are the operators with state: {tables}."
            " Put backticks around a name with characters other than letters, digits and '_'"
        )
        return UnknownOperatorError(msg)
    return RefusedError(f"the query cannot be answered: {words.strip()}. The tables are {tables}")


def _arrow(frame: pl.DataFrame) -> pa.Table:
    """Return the frame with the types that Spark and Arrow give such columns."""
    import polars as pl

    table: pa.Table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    return table.cast(pa.schema([field.with_type(_usual(field.type)) for field in table.schema]))


def _usual(kind: pa.DataType) -> pa.DataType:
    """Return a type without 64-bit offsets; row counts, which polars returns as uint32, become int64."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_unsigned_integer(kind) and not pa.types.is_uint64(kind):
        return pa.int64()
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return pa.list_(_usual(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_usual(field.type)) for field in kind])
    return kind
