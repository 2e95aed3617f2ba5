"""Rows that a test hands over."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rechannel.errors import DataflowError, SourceError
from rechannel.sources.connectors import MemoryConnector
from rechannel.sources.memory import MemoryReader
from rechannel.sources.reader import Bound


def connector(**arguments) -> MemoryConnector:
    return MemoryConnector(schema="n bigint, s string", **arguments)


def rows(made: MemoryConnector) -> list[dict]:
    reader = MemoryReader(made)
    start = reader.initial()
    end = reader.latest(start, 0)
    layout = reader.layout(start, end)
    splits = reader.split_reader(start, end, layout)
    return [row for split in layout for batch in splits.read(split) for row in batch.to_pylist()]


def test_takes_arrow_and_mappings():
    made = connector()
    made.push([{"n": 1, "s": "a"}, {"n": 2}])
    made.push(pa.RecordBatch.from_pydict({"s": ["c"], "n": pa.array([3], pa.int32())}))
    made.push(pa.table({"n": pa.chunked_array([[4], [5]]), "s": pa.chunked_array([["d", "e"]])}))
    made.push([])
    made.push(pa.table({"n": pa.array([], pa.int64()), "s": pa.array([], pa.string())}))
    assert rows(made) == [
        {"n": 1, "s": "a"},
        {"n": 2, "s": None},
        {"n": 3, "s": "c"},
        {"n": 4, "s": "d"},
        {"n": 5, "s": "e"},
    ]
    assert all(batch.schema.equals(made.schema) for batch in made.batches)


def test_an_empty_batch_is_a_timestep_without_splits():
    made = connector()
    made.push([])
    reader = MemoryReader(made)
    end = reader.latest(reader.initial(), 0)
    assert end == {"batches": 1}
    assert reader.layout(reader.initial(), end) == []


@pytest.mark.parametrize(
    "wrong", [[{"n": "text"}], [1], pa.table({"n": [1]}), pa.table({"n": ["x"], "s": ["y"]})]
)
def test_rows_that_do_not_fit_are_refused_when_pushed(wrong):
    made = connector()
    with pytest.raises(SourceError, match="push"):
        made.push(wrong)
    assert made.batches == []


def test_batches_that_the_journal_names_must_be_there_again():
    reader = MemoryReader(connector())
    with pytest.raises(SourceError, match="push the same batches again"):
        reader.layout({"batches": 0}, {"batches": 1})


@pytest.mark.parametrize("wrong", [{"partitions": 0}, {"per_timestep": 0}])
def test_bounds_are_checked(wrong):
    with pytest.raises(DataflowError, match="at least 1"):
        connector(**wrong)


def test_batches_are_cut_by_their_bytes():
    made = connector()
    for n in range(5):
        made.push([{"n": n, "s": "x"}])
    (size,) = {batch.nbytes for batch in made.batches}
    reader = MemoryReader(made)
    ends = [reader.latest({"batches": 1}, 0, Bound(bytes=b)) for b in (1, 2 * size, 99 * size)]
    assert ends == [{"batches": 2}, {"batches": 3}, {"batches": 5}]
