"""Columns of more than 2 GiB, at their real size."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from rechannel import aggregates as agg
from rechannel.engine.stages.sink_buffers import sink_buffer_tables
from rechannel.kernels.lsm.merge import Rows, everything, merge_rows
from rechannel.kernels.protocol.program import Branch, StageProgram, StageStep, TaskState
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.kernels.shuffle.receive import Inbox
from rechannel.kernels.shuffle.send import wire_schema
from rechannel.kernels.shuffle.wire import DATA, SCHEMA, Blob, from_batches, pack
from rechannel.kernels.tasks.report import TaskReport
from rechannel.kernels.tasks.stateful_task import StatefulTask
from rechannel.model.hashing import hash_columns
from rechannel.model.hashspace import Intervals
from rechannel.operators.aggregate.spec import AggregateSpec
from rechannel.state.stores.local import LocalStore

ROWS = 550
TEXT = "x" * (1 << 20)


@pytest.mark.slow
def test_a_task_takes_more_than_two_gibibytes_of_texts(tmp_path):
    schema = pa.schema([("k", pa.int64()), ("s", pa.string())])
    logic = AggregateSpec(aggregates={"f": agg.last("s")}).bind(("k",), schema)
    wire = wire_schema(Capabilities(logic), combined=False)
    keys = np.arange(ROWS)
    keys = keys[np.argsort(hash_columns([pa.array(keys)]))]
    columns = {
        "k": pa.array(keys),
        "s": pa.array([TEXT] * ROWS),
        "_rc_order": pa.array(keys, pa.uint64()),
    }
    message = pa.RecordBatch.from_arrays(
        [columns[name] for name in wire.names], schema=wire
    ).serialize()

    def arriving():
        for producer in range(4):
            blob = Blob(
                kind=DATA,
                input=0,
                producer=producer,
                sequence=0,
                combined=False,
                rows=ROWS,
                message=message,
            )
            yield pa.RecordBatch.from_arrays(
                [pa.array([0], pa.int32()), pa.array([pack(blob)])], schema=SCHEMA
            )

    store = LocalStore(tmp_path / "state")
    program = StageProgram(
        operator="op",
        root=Branch(node="op", schema=logic.output_schema, sink_buffer=True),
        store=store,
        logic=logic,
    )
    step = StageStep(
        timestep=1, stream_ms=0, tasks=(TaskState(own=Intervals.everything()),), memory=1 << 29
    )
    task = StatefulTask(program=program, step=step, task=0, attempt="a")
    (report,) = map(TaskReport.from_bytes, Inbox.of(from_batches(task.run(arriving()))).reports)
    assert report.costs.counts["rows_in"] == 4 * ROWS
    assert report.costs.counts["bytes_spilled"] > 1 << 31
    batches = list(sink_buffer_tables(store, [report.emitted.buffered["op"].key]))
    assert sum(batch.num_rows for batch in batches) == ROWS
    assert len(batches) > 1


@pytest.mark.slow
def test_a_merge_takes_more_than_two_gibibytes_of_texts():
    texts = pa.array([TEXT] * ROWS)
    parts = [
        Rows(
            np.arange(ROWS, dtype=np.uint64) * 4 + i,
            [pa.array(np.arange(ROWS) * 4 + i), texts],
            None,
        )
        for i in range(4)
    ]
    assert len(merge_rows(parts, 1, everything, bottom=True)) == 4 * ROWS
