"""Bulk load: write rows of finished state as segments, one per slice of the hash space, without an operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.kernels.columnar.sorting import group_rows, sort_index, take
from rechannel.kernels.lsm.merge import Rows
from rechannel.kernels.lsm.runs import RunWriter
from rechannel.kernels.protocol.program import StageProgram, StageStep
from rechannel.kernels.shuffle.send import plain_key
from rechannel.kernels.shuffle.wire import DATA, Blob, encode, from_batches, pack, to_batches
from rechannel.kernels.tasks.measure import Measures
from rechannel.kernels.tasks.report import StateReport, TaskReport
from rechannel.model.hashing import hash_columns
from rechannel.model.routing import Routing
from rechannel.state.manifest import Edit
from rechannel.state.merging import BASE_LEVEL


def conform_state(program: StageProgram, given: pa.Schema) -> list[str]:
    """Return the names of the given columns in the order of the stored ones.

    State columns are given by their own names or, if each aggregate keeps just its result, by the output's names.
    Raises DataflowError that names what is missing.
    """
    can = program.can
    wanted: list[str] = program.can.stored_schema.names
    if all(name in given.names for name in wanted):
        return wanted
    keys: list[str] = can.logic.key_schema.names
    shown: list[str] = can.view_schema.names
    same = [f.type for f in can.view_schema][len(keys) :] == [
        f.type for f in can.logic.state_schema
    ]
    if same and all(name in given.names for name in shown):
        return shown
    also = f" (or {shown})" if same else ""
    msg = (
        f"initial state of {program.operator!r} needs columns {wanted}{also}; it has {given.names}"
    )
    raise DataflowError(msg)


@dataclass(frozen=True)
class Scatter:
    """Sends state rows to the slice that their hash falls in."""

    program: StageProgram
    names: tuple[str, ...]
    """Columns in stored order."""
    slices: Routing

    def run(self, batches: Iterable[pa.RecordBatch], producer: int) -> Iterator[pa.RecordBatch]:
        """Rows in, (slice, blob) rows out."""
        yield from to_batches(self._parcels(batches, producer))

    def _parcels(
        self, batches: Iterable[pa.RecordBatch], producer: int
    ) -> Iterator[tuple[int, bytes]]:
        schema = self.program.can.stored_schema
        width = len(self.program.can.logic.key_schema)
        for sequence, batch in enumerate(batches):
            columns = [
                batch.column(batch.schema.get_field_index(name)).cast(field.type)
                for name, field in zip(self.names, schema, strict=True)
            ]
            columns[:width] = map(plain_key, columns[:width])
            hashes = hash_columns(columns[: self.program.can.hashed])
            row_order = self.program.can.row_order(columns[:width])
            rows = sort_index(hashes, row_order)
            ordered = pa.RecordBatch.from_arrays(take(columns, rows), schema=schema)
            offsets, owners = self.slices.cuts(hashes[rows])
            for index in np.flatnonzero(np.diff(offsets)):
                start, stop = int(offsets[index]), int(offsets[index + 1])
                for piece in encode(ordered.slice(start, stop - start)):
                    blob = Blob(
                        kind=DATA,
                        input=0,
                        producer=producer,
                        sequence=sequence,
                        combined=False,
                        rows=piece.num_rows,
                        message=piece.serialize(),
                    )
                    yield int(owners[index]), pack(blob)


@dataclass(frozen=True)
class Load:
    """Writes one slice of the hash space as one run."""

    program: StageProgram
    step: StageStep
    slices: Routing

    def run(
        self, batches: Iterable[pa.RecordBatch], number: int, attempt: str
    ) -> Iterator[pa.RecordBatch]:
        """(slice, blob) rows in, one report out."""
        measures = Measures()
        schema = self.program.can.stored_schema
        width = len(self.program.can.logic.key_schema)
        blobs = sorted(from_batches(batches), key=lambda blob: (blob.producer, blob.sequence))
        parts = [pa.ipc.read_record_batch(blob.message, schema) for blob in blobs]
        edit = Edit()
        if parts:
            columns = [pa.concat_arrays([p.column(i) for p in parts]) for i in range(len(schema))]
            hashes = hash_columns(columns[: self.program.can.hashed])
            can = self.program.can
            row_order = can.row_order(columns[:width])
            rows = sort_index(hashes, row_order)
            hashes, columns = hashes[rows], take(columns, rows)
            groups, _ = group_rows(
                hashes, columns[:width], None if row_order is None else row_order[rows]
            )
            if groups.count != groups.rows:
                msg = f"initial state of {self.program.operator!r} has a key more than once; give one row per key"
                raise DataflowError(msg)
            writer = RunWriter(self.program, self.step, number, attempt)
            own = self.slices.intervals_of(number)
            edit = Edit(add=writer.write(Rows(hashes, columns, None), own, 0, BASE_LEVEL))
        report = TaskReport(
            operator=self.program.operator,
            timestep=self.step.timestep,
            task=number,
            attempt=attempt,
            state=StateReport(edit=edit),
            costs=measures.costs(),
        )
        yield from to_batches([(-1, report.blob())])
