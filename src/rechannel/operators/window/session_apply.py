"""Any function per session: all its rows are handed to it when the session is shown."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.sorting import take
from rechannel.kernels.protocol.capabilities import Emitted
from rechannel.kernels.shuffle.watermarks import MICROS
from rechannel.model.hashspace import HashArray
from rechannel.operators.window.group_frame import ApplyBatches, GroupFrame, call
from rechannel.operators.window.logic import END, START
from rechannel.operators.window.session_rows import KeptRows
from rechannel.operators.window.sessions import SessionLogic


@dataclass(frozen=True, eq=False, kw_only=True)
class ApplySessionLogic(SessionLogic):
    """What a function makes of the rows of a session: a `StatefulLogic`.

    function, fields: what is called, and the columns of what it answers.
    """

    inner: KeptRows
    function: ApplyBatches
    fields: pa.Schema

    @cached_property
    def output_schema(self) -> pa.Schema:
        """Keys, start and end of the session, what the function answers."""
        times = [pa.field(name, MICROS, False) for name in (START, END)]
        return pa.schema([*self.keys, *times, *self.fields])

    def made(self, keys: Columns, state: Columns, hashes: HashArray) -> Emitted:
        """What the function makes of sessions. Raises UserFunctionError."""
        rows, sizes = self.inner.rows(state[: len(self.inner.state_schema)])
        width = len(self.keys)
        frame = GroupFrame(
            keys=pa.RecordBatch.from_arrays(
                [*keys[:width], *self.times(keys)], schema=self.frame_keys
            ),
            rows=pa.RecordBatch.from_arrays(rows, schema=self.inner.value_schema),
            sizes=sizes,
        )
        owners, columns = call(self.function, (frame,), self.fields)
        named = take(frame.keys.columns, owners)
        batch = pa.RecordBatch.from_arrays([*named, *columns], schema=self.output_schema)
        return batch, hashes[owners]

    @property
    def state_kind(self) -> str:
        """Rows of sessions."""
        return "ApplySessionLogic"

    @property
    def frame_keys(self) -> pa.Schema:
        """Keys, start and end of the session."""
        return pa.schema(list(self.output_schema)[: len(self.keys) + 2])
