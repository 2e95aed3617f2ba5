"""Migrations as plain JSON, for the journal: a restart reads old runs as the process before it did.

Schemas and values are Arrow's own bytes; functions are import paths, never pickles. A migration whose function has
no import path cannot be written down.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from rechannel.dataflow.identity.digests import digest_of, path_of
from rechannel.dataflow.identity.logic import find_loaded
from rechannel.dataflow.identity.provided import PYTHON, Provided
from rechannel.errors import RefusedError
from rechannel.kernels.protocol.migrate import Answer, Carry, ColumnStep, Compute, Fill, Migration
from rechannel.model.schema_text import schema_from_text, schema_text


def migration_to_json(migration: Migration, argument: str = "using") -> dict[str, Any]:
    """Plain JSON values. argument: what gave the function. Raises RefusedError for one that cannot be imported."""
    function, using = migration.function, None
    if function is not None:
        path = path_of(function)
        if path is None or find_loaded(path) is not function:
            msg = (
                f"migrate({argument}=...): {path or function!r} cannot be imported by another process, "
                "and every restart needs it as long as old state is stored; define it at the top "
                "of a module, not in the program that is run itself"
            )
            raise RefusedError(msg)
        using = _using(path, function)
    return {
        "keys": schema_text(migration.key_schema),
        "from": schema_text(migration.from_schema),
        "to": schema_text(migration.to_schema),
        "steps": [_step_to_json(step) for step in migration.steps],
        "using": using,
        "expired_before_ms": migration.expired_before_ms,
    }


def _using(path: str, function: Callable[..., Any]) -> dict[str, Any]:
    return {"path": path, "digest": digest_of(function).text, "python": PYTHON}


def mended_json(data: Mapping[str, Any], provided: Provided) -> dict[str, Any]:
    """A migration as JSON with the digest of the function that the program provides for it."""
    using = data["using"]
    if using is None:
        return dict(data)
    return {**data, "using": _using(using["path"], provided.function(using))}


def migration_from_json(data: Mapping[str, Any], provided: Provided) -> Migration:
    """Invert `migration_to_json`. Raises OtherDataflowError for a function that the program does not provide."""
    using = data["using"]
    return Migration(
        key_schema=schema_from_text(data["keys"]),
        from_schema=schema_from_text(data["from"]),
        to_schema=schema_from_text(data["to"]),
        steps=tuple(map(_step_from_json, data["steps"])),
        function=None if using is None else provided.function(using),
        expired_before_ms=data["expired_before_ms"],
    )


def _step_to_json(step: ColumnStep) -> dict[str, Any]:
    if isinstance(step, Carry):
        return {"carry": step.column}
    if isinstance(step, Fill):
        return {"fill": _batch_text(step.value)}
    if isinstance(step, Compute):
        return {"sql": step.sql, "columns": list(step.columns)}
    return {"answer": True}


def _step_from_json(data: Mapping[str, Any]) -> ColumnStep:
    if "carry" in data:
        return Carry(column=data["carry"])
    if "fill" in data:
        return Fill(value=_value(data["fill"]))
    if "sql" in data:
        return Compute(sql=data["sql"], columns=tuple(data["columns"]))
    return Answer()


def _batch_text(value: pa.Array) -> str:
    batch = pa.RecordBatch.from_arrays([value], names=["value"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return base64.b64encode(sink.getvalue().to_pybytes()).decode()


def _value(text: str) -> pa.Array:
    with pa.ipc.open_stream(pa.py_buffer(base64.b64decode(text))) as reader:
        return reader.read_next_batch().column(0)
