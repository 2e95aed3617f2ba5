"""States of `process` as users name them: `rc.states.value_state("n BIGINT")`, ..."""

from __future__ import annotations

import pyarrow as pa

from rechannel.dataflow.graph.durations import Duration, milliseconds
from rechannel.model.ddl import schema_of
from rechannel.operators.process.states import ListState, MapState, ValueState


def value_state(columns: pa.Schema | str, *, ttl: Duration | None = None) -> ValueState:
    """One value per key.

    Args:
        columns: such as "n BIGINT, total DOUBLE". The value is a scalar if there is one column, else a NamedTuple.
        ttl: time to live: the value is gone once it was written that long ago, by the time of timesteps; None = never.
    """
    return ValueState(columns=schema_of(columns), ttl_ms=milliseconds(ttl, "ttl"))


def list_state(columns: pa.Schema | str, *, ttl: Duration | None = None) -> ListState:
    """A list per key. To append an element writes that element and no other.

    Args:
        columns: of an element, as in `value_state`.
        ttl: of every element, from when it was appended.
    """
    return ListState(columns=schema_of(columns), ttl_ms=milliseconds(ttl, "ttl"))


def map_state(
    key: pa.Schema | str, columns: pa.Schema | str, *, ttl: Duration | None = None
) -> MapState:
    """A map per key: `map_state("merchant STRING", "n BIGINT")`. To set an entry writes that entry and no other.

    Args:
        key: of an entry: one column of a string, a whole number, a boolean, a date or a timestamp.
        columns: of what an entry holds, as in `value_state`.
        ttl: of every entry, from when it was set last.
    """
    return MapState(key=schema_of(key), columns=schema_of(columns), ttl_ms=milliseconds(ttl, "ttl"))
