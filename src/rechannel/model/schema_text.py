"""Schemas as text, in records of the journal: Arrow's own bytes, in base64."""

from __future__ import annotations

import base64

import pyarrow as pa


def schema_text(schema: pa.Schema) -> str:
    """Return a schema as text, without its metadata."""
    return base64.b64encode(schema.remove_metadata().serialize().to_pybytes()).decode()


def schema_from_text(text: str) -> pa.Schema:
    """Invert `schema_text`."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
