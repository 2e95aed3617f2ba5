"""Rows that were committed by another version of the program, in the columns of the one that shows them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rechannel.engine.stages.sink_buffers import SinkBufferRows
from rechannel.model.named import by_names
from rechannel.sinks.writer import typed
from rechannel.state.segments.rows_file import write_rows
from rechannel.testing import MemoryStore

NOW = pa.schema([("k", pa.string()), ("n", pa.int64())])


def test_columns_go_by_their_names():
    rows = pa.record_batch({"k": ["a"], "total": [70], "n": pa.array([1], pa.int32())})
    shown = by_names(rows, NOW)
    assert shown.schema.names == ["k", "n"]
    assert shown.to_pylist() == [{"k": "a", "n": 1}]
    assert by_names(shown, NOW) is shown


def test_names_that_differ_in_case_are_the_same():
    rows = pa.record_batch({"K": ["a"], "N": [1]})
    assert by_names(rows, NOW) is rows
    assert typed(rows, NOW).to_pylist() == [{"k": "a", "n": 1}]


def test_a_sink_gets_them_so():
    rows = pa.record_batch({"n": pa.array([1], pa.int32()), "total": [70], "k": ["a"]})
    assert typed(rows, NOW).equals(pa.record_batch({"k": ["a"], "n": [1]}, schema=NOW))


def test_a_column_that_was_not_there_is_null():
    assert by_names(pa.record_batch({"k": ["a"]}), NOW).to_pylist() == [{"k": "a", "n": None}]


def test_what_does_not_fit_is_an_error():
    with pytest.raises(pa.ArrowInvalid):
        by_names(pa.record_batch({"n": ["many"], "k": ["a"]}), NOW)


def test_files_are_read_so():
    store = MemoryStore()
    write_rows(store, "outbox/op/1.arrow", [pa.record_batch({"n": [1], "total": [7], "k": ["a"]})])
    numbers = [pa.record_batch({"id": [0]})]
    keys = ("outbox/op/1.arrow",)
    (shown,) = SinkBufferRows(store, keys, NOW)(numbers)
    assert shown.to_pylist() == [{"k": "a", "n": 1}]
    (plain,) = SinkBufferRows(store, keys)(numbers)
    assert plain.schema.names == ["n", "total", "k"]
