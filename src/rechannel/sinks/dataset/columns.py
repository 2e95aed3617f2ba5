"""Columns of a dataset: those of rows, those that a user asks for besides, and what a manifest keeps of them. Pure."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa

from rechannel.errors import DataflowError, RefusedError
from rechannel.sinks.dataset.keyed import GONE, TIMESTEP
from rechannel.sinks.marks import Mark

METADATA = {
    "timestep": pa.int64(),
    "digest": pa.string(),
    "published_at": pa.timestamp("us", "UTC"),
}
"""What rows may say about their timestep: its number, what it was made of, when it was published."""


def check_metadata(names: Sequence[str], schema: pa.Schema | None = None, sink: str = "") -> None:
    """Raise DataflowError for an unknown name, and for one that rows have themselves."""
    for name in names:
        if name not in METADATA:
            msg = f"write.dataset: metadata has {name!r}; it can have {', '.join(METADATA)}"
            raise DataflowError(msg)
        if schema is not None and name.casefold() in map(str.casefold, schema.names):
            msg = f"sink {sink!r}: rows have a column {name!r} themselves: rename it, or leave it out of metadata"
            raise DataflowError(msg)
    if schema is not None and {TIMESTEP, GONE} & set(schema.names):
        msg = f"sink {sink!r}: {TIMESTEP!r} and {GONE!r} are columns of datasets with keys: rename those of the rows"
        raise DataflowError(msg)


def with_metadata(
    rows: pa.RecordBatch, names: Sequence[str], mark: Mark, at_ms: int
) -> pa.RecordBatch:
    """Return rows with what they say about their timestep."""
    values = {
        "timestep": mark.timestep,
        "digest": mark.digest,
        "published_at": datetime.fromtimestamp(at_ms / 1e3, UTC),
    }
    for name in names:
        column = pa.repeat(pa.scalar(values[name], METADATA[name]), rows.num_rows)
        rows = rows.append_column(pa.field(name, METADATA[name]), column)
    return rows


def shown(schema: pa.Schema, metadata: Sequence[str], changes: str = "") -> pa.Schema:
    """Return the columns that readers see of rows with these columns."""
    own = [pa.field(each.name, each.type) for each in schema if each.name != changes]
    return pa.schema([*own, *(pa.field(name, METADATA[name]) for name in metadata)])


def united(there: pa.Schema, given: pa.Schema, where: str) -> pa.Schema:
    """Return the columns of a dataset to which rows with these columns come.

    Raises RefusedError if a column has another type there.
    """
    for each in given:
        if each.name in there.names and not there.field(each.name).type.equals(each.type):
            its = there.field(each.name).type
            msg = f"column {each.name!r} is {its} in {where}, and {each.type} in the rows: convert it with select(...)"
            raise RefusedError(msg)
    return pa.schema([*there, *(each for each in given if each.name not in there.names)])


def encoded(schema: pa.Schema) -> str:
    """Return columns as a manifest keeps them."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode("ascii")


def decoded(text: str) -> pa.Schema:
    """Invert `encoded`. "" has no columns."""
    return pa.ipc.read_schema(pa.BufferReader(base64.b64decode(text))) if text else pa.schema([])
