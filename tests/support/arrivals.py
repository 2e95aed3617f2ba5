"""What a task receives, from plain Python rows: stands in for hashing, sorting and look-up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.protocol.logic import OperatorInput, OperatorOutput, StatefulLogic
from rechannel.model.eventtime import Clock

Key = tuple[Any, ...]


def columns(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> Columns:
    """Rows as columns."""
    return [pa.array([row[i] for row in rows], type=field.type) for i, field in enumerate(schema)]


def arrivals(
    logic: StatefulLogic,
    rows: Sequence[tuple[Key, tuple[Any, ...]]],
    old: Mapping[Key, tuple[Any, ...]] | None = None,
    stream_ms: int = 0,
) -> OperatorInput:
    """(key, values) in stream order, grouped by key.

    Where a key has no state its old columns hold another key's, as undefined memory may.
    """
    old = old or {}
    keys = list(dict.fromkeys(key for key, _ in rows))
    by_key = [[values for other, values in rows if other == key] for key in keys]
    sizes = np.array([len(group) for group in by_key], dtype=np.int64)
    junk = next(iter(old.values()), (None,) * len(logic.state_schema))
    return OperatorInput(
        keys=columns(keys, logic.key_schema),
        hashes=np.arange(len(keys), dtype=np.uint64) * np.uint64(7),
        values=columns([row for group in by_key for row in group], logic.value_schema),
        groups=Groups(np.cumsum(sizes) - sizes, int(sizes.sum())),
        combined=False,
        old=columns([old.get(key, junk) for key in keys], logic.state_schema),
        found=np.array([key in old for key in keys], dtype=np.bool_),
        clock=Clock(stream_ms=stream_ms),
        timestep=1,
    )


def state_of(
    logic: StatefulLogic, given: OperatorInput, applied: OperatorOutput
) -> dict[Key, tuple[Any, ...]]:
    """New state by key, without the keys that were dropped."""
    keys = list(zip(*(column.to_pylist() for column in given.keys), strict=True))
    states = list(zip(*(column.to_pylist() for column in applied.state), strict=True))
    gone = np.zeros(len(keys), dtype=bool) if applied.dropped is None else applied.dropped
    assert [column.type for column in applied.state] == logic.state_schema.types
    return {k: s for k, s, dropped in zip(keys, states, gone, strict=True) if not dropped}


def output_of(applied: OperatorOutput) -> list[tuple[Any, ...]]:
    """Emitted rows."""
    return list(zip(*(column.to_pylist() for column in applied.output.columns), strict=True))
