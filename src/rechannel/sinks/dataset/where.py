"""Which partitions have rows with some values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

import pyarrow as pa

from rechannel.errors import RefusedError
from rechannel.sinks.partitioned import NOTHING


def texts_of(where: Mapping[str, object], schema: pa.Schema) -> dict[str, str]:
    """Return values of partition columns as paths have them. Raises RefusedError for a value of another type."""
    return {name: _text(name, value, schema.field(name).type) for name, value in where.items()}


def chosen(part: str, texts: Mapping[str, str]) -> bool:
    """Return whether rows of a partition have these values. texts: of `texts_of`."""
    values = dict(pair.partition("=")[::2] for pair in part.split("/"))
    has = {unquote(name): unquote(value) for name, value in values.items()}
    return all(has.get(name) == text for name, text in texts.items())


def _text(name: str, value: object, kind: pa.DataType) -> str:
    try:
        text = pa.scalar(value, kind).cast(pa.string()).as_py()
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        msg = f"where: {value!r} is no value of {name!r}, which is {kind} in this dataset: {error}"
        raise RefusedError(msg) from error
    return text or NOTHING
