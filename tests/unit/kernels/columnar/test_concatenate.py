"""Columns of more bytes than 32-bit offsets reach, with a reach that is less than Arrow's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.errors import KeyTooLargeError
from rechannel.kernels.columnar import concatenate
from rechannel.kernels.columnar.concatenate import narrowed, wide_columns, wide_type
from rechannel.kernels.lsm.merge import Rows, everything, merge_rows
from rechannel.kernels.lsm.runs import RunWriter, open_run
from rechannel.kernels.protocol.program import Branch, StageProgram, StageStep
from rechannel.model.hashspace import Intervals
from rechannel.settings import Settings
from rechannel.state.stores.memory import MemoryStore
from rechannel.testing import Harness, script
from tests.support.tasks import ROWS, counting

KINDS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["a", None, "bc"]),
    (pa.binary(), [b"a", b"", None]),
    (pa.list_(pa.int32()), [[1, 2], None, []]),
    (pa.list_(pa.string()), [["a", None], [], ["b"]]),
    (
        pa.struct([("x", pa.string()), ("y", pa.list_(pa.binary()))]),
        [{"x": "a", "y": [b"b"]}, None],
    ),
    (pa.int64(), [1, None, 3]),
]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concatenate, "LIMIT", 4000)


@pytest.mark.parametrize(("kind", "values"), KINDS, ids=str)
def test_what_is_too_large_gets_wide_offsets_and_loses_them_when_it_is_small(
    kind: pa.DataType, values: list[Any], monkeypatch: pytest.MonkeyPatch
):
    column, schema = pa.array(values, kind), pa.schema([("c", kind)])
    assert concatenate.joined([column, column]).type == kind
    monkeypatch.setattr(concatenate, "LIMIT", 1)
    wide = concatenate.joined([column, column])
    assert wide.type == wide_type(kind)
    assert wide.to_pylist() == values * 2
    assert bool(wide_columns([wide], schema)) == (kind != pa.int64())
    monkeypatch.setattr(concatenate, "LIMIT", 1 << 31)
    (again,) = narrowed([wide], schema)
    assert again.type == kind
    assert again.to_pylist() == values * 2


def test_pieces_of_both_widths_are_joined():
    both = concatenate.joined([pa.array(["a"], pa.large_string()), pa.array(["b"])])
    assert both.type == pa.large_string()
    assert both.to_pylist() == ["a", "b"]


@pytest.mark.usefixtures("small")
def test_a_merge_of_more_than_a_file_can_take_is_several_runs():
    logic = counting()
    store = MemoryStore()
    schema = pa.schema([*logic.key_schema, *logic.state_schema])
    program = StageProgram(
        operator="op", root=Branch(node="op", schema=ROWS), store=store, logic=logic
    )
    writer = RunWriter(program, StageStep(timestep=3, stream_ms=0), 0, "a")
    hashes = np.full(60, 7, dtype=np.uint64)
    parts = []
    for number in range(2):
        keys = pa.array([f"{number}-{i:03}" + "x" * 100 for i in range(60)])
        state = [pa.array([i] * 60, f.type) for i, f in enumerate(logic.state_schema)]
        parts.append(Rows(hashes, [keys, *state], None))
    whole = merge_rows(parts, 1, everything, bottom=True)
    assert wide_columns(whole.columns, schema) == ["k"]
    runs = writer.write(whole, Intervals.everything(), 3, 1)
    assert len(runs) >= 4
    assert {(run.seq, run.level) for run in runs} == {(3, 1)}
    assert sum(run.rows for run in runs) == 120
    read = [open_run(program, run).segment for run in runs]
    assert all(segment.column(0).type == pa.string() for segment in read)
    found = {key for segment in read for key in segment.column(0).to_pylist()}
    assert found == {key for part in parts for key in part.columns[0].to_pylist()}


def collected(key: Any, state: Any, rows: Any) -> int:
    return (state or 0) + len(rows["s"])


@pytest.mark.usefixtures("small")
def test_a_key_that_is_too_large_for_a_task_is_named_and_nothing_is_committed():
    rows = [{"k": 7, "s": "x" * 100} for _ in range(90)]
    rows += [{"k": i, "s": "y"} for i in range(20, 40)]
    source = script("k bigint, s string", [rows[20:40] + rows[90:], rows], partitions=3)
    stream = rc.read().memory(source, name="in").key_by("k")
    totals = stream.track(collected, state="n bigint", name="per k")
    harness = Harness(totals.write.memory("out"), settings=Settings(tasks=1, task_bytes=1 << 12))
    with pytest.raises(KeyTooLargeError, match=r"'per k', timestep 2: .*'k': 7.* 90 rows .* s,"):
        harness.start().run()
    assert harness.journal_state().last_committed == 1
