"""What operators check of columns and functions before they are bound."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

import pyarrow as pa

from rechannel.errors import DataflowError, UnknownColumnError


def need_columns(what: str, wanted: Iterable[str], schema: pa.Schema) -> None:
    """Raise UnknownColumnError for the first wanted column that is not there."""
    for name in wanted:
        if name not in schema.names:
            msg = f"{what}: there is no column {name!r}{suggest(name, schema.names)}"
            raise UnknownColumnError(msg)


def suggest(name: str, known: Sequence[str]) -> str:
    """Return the end of a message: '; did you mean ...?' and the known names."""
    lower = {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.lower(), lower, n=1)
    hint = f"; did you mean {lower[close[0]]!r}?" if close else ""
    return f"{hint} (known: {', '.join(known) or 'none'})"


def split_keys(keys: tuple[str, ...], schema: pa.Schema) -> tuple[pa.Schema, pa.Schema]:
    """Return the key columns, in the order of the keys, and all others."""
    others = [field for field in schema if field.name not in keys]
    return pa.schema([schema.field(key) for key in keys]), pa.schema(others)


def need_callable(function: object, operator: str, shape: str) -> None:
    """Raise DataflowError with the expected signature if `function` is not callable."""
    if not callable(function):
        msg = f"{operator} needs a function {shape}, not {type(function).__name__}"
        raise DataflowError(msg)
