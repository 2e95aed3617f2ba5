"""What both flavours of `track` share: schemas, the timeout, and how an answer becomes `Applied`.

State of a key: the user's columns and, when there is a timeout, `_seen`: the time (Unix
milliseconds) of the last timestep that brought rows for the key. A key whose `_seen` is longer ago
than the timeout counts as absent. Nothing
happens at that moment: whoever looks at the state skips it (`live`), and merging drops it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.kernels.logic import Applied, Arrivals, Columns
from rechannel.kernels.plain import EveryRow
from rechannel.model.eventtime import Clock

SEEN = "_seen"

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True)
class Tracking(EveryRow):
    """Schemas and timeout of one `track`.

    fields: the user's state columns.
    timeout_ms: how long a key may stay without rows, in milliseconds of timestep time; None = for
    ever.
    """

    key_schema: pa.Schema
    value_schema: pa.Schema
    fields: pa.Schema
    timeout_ms: int | None = None

    def __post_init__(self) -> None:
        """Check that the state can be told from the keys and from what Rechannel adds."""
        if len(self.fields) == 0:
            msg = "the state of track needs at least one column"
            raise DataflowError(msg)
        for name in self.fields.names:
            if name == SEEN:
                msg = f"{SEEN!r} is where track keeps time; give the state's column another name"
                raise DataflowError(msg)
            if name in self.key_schema.names:
                msg = f"state column {name!r} is also a key column; the output would have it twice"
                raise DataflowError(msg)
        if self.timeout_ms is not None and self.timeout_ms <= 0:
            msg = f"a timeout must be positive, not {self.timeout_ms} ms"
            raise DataflowError(msg)

    @property
    def state_schema(self) -> pa.Schema:
        """The user's columns and the time of the last rows where there is a timeout."""
        if self.timeout_ms is None:
            return self.fields
        return self.fields.append(pa.field(SEEN, pa.int64(), False))

    @property
    def output_schema(self) -> pa.Schema:
        """Keys and the user's state columns."""
        return pa.schema([*self.key_schema, *self.fields])

    def live(self, keys: Columns, state: Columns, clock: Clock) -> Mask | None:
        """State rows whose timeout has not passed; None when there is no timeout."""
        if self.timeout_ms is None:
            return None
        seen = state[-1].fill_null(0).to_numpy(zero_copy_only=False)
        alive: Mask = clock.now_ms - seen <= self.timeout_ms
        return alive

    def finish(self, keys: Columns, state: Columns) -> pa.RecordBatch:
        """Keys and the user's columns, without the time of the last rows."""
        columns = [*keys, *state[: len(self.fields)]]
        return pa.RecordBatch.from_arrays(columns, schema=self.output_schema)

    def present(self, arrivals: Arrivals) -> Mask:
        """Which keys have a state that still counts. Shape (keys,)."""
        alive = self.live(arrivals.keys, arrivals.old, arrivals.clock)
        return arrivals.found if alive is None else arrivals.found & alive

    def answer(self, arrivals: Arrivals, kept: Columns, dropped: Mask) -> Applied:
        """New state and output, from the state columns of the keys that were not dropped."""
        keys, hashes, state = arrivals.keys, arrivals.hashes, kept
        if dropped.any():
            stay = np.flatnonzero(~dropped)
            keys, hashes = [key.take(pa.array(stay)) for key in keys], hashes[stay]
            state = [spread(column, stay, len(dropped)) for column in kept]
        output = pa.RecordBatch.from_arrays([*keys, *kept], schema=self.output_schema)
        if self.timeout_ms is not None:
            now = np.full(len(dropped), arrivals.clock.now_ms, dtype=np.int64)
            state = [*state, pa.array(now)]
        return Applied(
            state=state,
            dropped=dropped if dropped.any() else None,
            output=output,
            output_hashes=hashes,
        )


def spread(column: pa.Array, rows: npt.NDArray[np.int64], count: int) -> pa.Array:
    """A column of `count` rows with the given values at the given rows and null elsewhere."""
    place = np.zeros(count, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    absent = np.ones(count, dtype=np.bool_)
    absent[rows] = False
    return column.take(pa.array(place, mask=absent))
