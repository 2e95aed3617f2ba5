"""Finished tables as a source: what a read brings, and what becomes of it when the table changes."""

from __future__ import annotations

import json
import logging
import pickle
import re
from concurrent.futures import wait
from dataclasses import replace
from threading import Event

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from rechannel.errors import DataflowError, MissingFileError, SourceError, UserFunctionError
from rechannel.sources import table as module
from rechannel.sources.connector import SourceContext
from rechannel.sources.table import Held, TableConnector
from rechannel.state.stores.local import LocalStore
from rechannel.state.stores.memory import MemoryStore
from rechannel.testing.process import PromptExecutor

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string()), ("at", pa.int64())])


def rows(*made):
    return pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=False)) for row in made], SCHEMA
    )


class Bench:
    """A table that a test may change, and a reader of it."""

    def __init__(self, table, *, threads=False, **options):
        self.table, self.store, self.asked = table, MemoryStore(), 0
        self.aside = None if threads else PromptExecutor()
        self.connector = TableConnector(held=Held(self.make), keys=("k",), **options)
        self.open()
        self.at = self.reader.initial()

    def make(self):
        self.asked += 1
        return self.table() if callable(self.table) else self.table

    def open(self):
        context = SourceContext(store=self.store, name="t", aside=self.aside)
        self.reader = self.connector.open(context)

    def look(self, stream_ms):
        """What the next timestep reads; None if it is nothing."""
        start, self.at = self.at, json.loads(json.dumps(self.reader.latest(self.at, stream_ms)))
        return None if self.at == start else self.read(start, self.at)

    def read(self, start, end):
        layout = json.loads(json.dumps(self.reader.layout(start, end)))
        splits = self.reader.split_reader(start, end, layout)
        batches = [batch for split in layout for batch in splits.read(split)]
        assert all(batch.schema.equals(self.reader.schema) for batch in batches)
        return sorted((tuple(r.values()) for b in batches for r in b.to_pylist()), key=repr)


def test_a_table_is_read_once_and_for_all():
    bench = Bench(rows((1, "a", 5), (None, "n", 5), (2, "b", 6)))
    assert bench.reader.schema == SCHEMA
    start = bench.reader.initial()
    assert bench.look(1000) == [(1, "a", 5), (2, "b", 6)]
    bench.table = rows((3, "c", 7))
    assert bench.look(10**12) is None
    bench.open()
    assert bench.look(10**12) is None
    # A replay reads what was read.
    assert bench.read(start, bench.at) == [(1, "a", 5), (2, "b", 6)]


def test_tasks_elsewhere_read_the_files(tmp_path):
    made = TableConnector(held=Held(rows((1, "a", 5))), keys=("k",))
    reader = made.open(SourceContext(store=LocalStore(tmp_path), name="t"))
    end = reader.latest(reader.initial(), 0)
    layout = reader.layout(reader.initial(), end)
    splits = pickle.loads(pickle.dumps(reader.split_reader(reader.initial(), end, layout)))
    assert [batch.to_pylist() for batch in splits.read(layout[0])] == [
        [{"k": 1, "v": "a", "at": 5}]
    ]


def test_an_arrow_table_tells_its_columns_and_an_empty_one_has_been_read():
    made = TableConnector(held=Held(rows()), keys=("k",))
    assert made.schema == SCHEMA
    reader = made.open(SourceContext(store=MemoryStore(), name="t"))
    end = reader.latest(reader.initial(), 0)
    assert end != reader.initial()
    assert reader.layout(reader.initial(), end) == []
    assert reader.latest(end, 1) == end


def test_another_read_brings_what_differs_and_marks_keys_that_are_gone():
    bench = Bench(rows((1, "a", 5), (2, "b", 6), (3, None, None)), refresh_ms=100)
    assert bench.reader.schema.names == ["k", "v", "at", ".gone"]
    assert len(bench.look(1000)) == 3
    bench.table = rows((3, None, None), (2, "c", 6), (4, "d", 7))
    assert bench.look(1099) is None
    assert bench.look(1100) == [(1, "a", 5, True), (2, "c", 6, False), (4, "d", 7, False)]
    bench.table = rows((1, "a", 5), (2, "c", 6))
    assert bench.look(1250) == [(1, "a", 5, False), (3, None, None, True), (4, "d", 7, True)]


def test_a_table_that_was_to_be_read_once_may_be_read_again_later():
    bench = Bench(rows((1, "a", 5), (2, "b", 6)))
    start = bench.at
    bench.look(1000)
    bench.connector = replace(bench.connector, refresh_ms=100)
    bench.open()
    # A replay of what was read without.
    assert bench.read(start, bench.at) == [(1, "a", 5, False), (2, "b", 6, False)]
    bench.table = rows((1, "c", 5))
    assert bench.look(1050) is None
    assert bench.look(1100) == [(1, "c", 5, False), (2, "b", 6, True)]


def test_a_table_that_was_read_again_may_be_one_that_is_not():
    bench = Bench(rows((1, "a", 5), (2, "b", 6)), refresh_ms=100)
    start = bench.at
    bench.look(1000)
    first, bench.table = bench.at, rows((1, "a", 5))
    bench.look(1100)
    bench.connector = replace(bench.connector, refresh_ms=None)
    bench.open()
    assert bench.read(start, first) == [(1, "a", 5), (2, "b", 6)]
    with pytest.raises(SourceError, match="marks keys as gone"):
        bench.read(first, bench.at)
    assert bench.look(10**12) is None


def test_a_read_that_finds_nothing_new_is_no_timestep_and_waits_for_its_turn():
    bench = Bench(rows((1, "a", 5)), refresh_ms=100)
    bench.look(1000)
    asked = bench.asked
    assert bench.look(1100) is None
    assert bench.look(1150) is None
    assert bench.asked == asked + 1
    assert bench.look(1200) is None
    assert bench.asked == asked + 2


def test_what_was_read_and_never_journalled_is_read_again():
    bench = Bench(rows((1, "a", 5)), refresh_ms=100)
    bench.look(1000)
    before = bench.at
    bench.table = rows((1, "b", 5))
    assert bench.look(1100) == [(1, "b", 5, False)]
    bench.table, bench.at = rows((1, "c", 5)), before
    assert bench.look(1101) == [(1, "c", 5, False)]
    bench.open()
    assert bench.read(before, bench.at) == [(1, "c", 5, False)]


def test_files_of_reads_before_are_forgotten_when_one_is_committed():
    bench = Bench(rows((1, "a", 5)), refresh_ms=100)
    start = bench.at
    bench.look(1000)
    first = bench.at
    bench.table = rows((1, "b", 5))
    bench.look(1100)
    bench.reader.committed(first)
    assert bench.read(start, first) == [(1, "a", 5, False)]
    bench.reader.committed(bench.at)
    assert bench.read(first, bench.at) == [(1, "b", 5, False)]
    with pytest.raises(MissingFileError):
        bench.read(start, first)
    bench.table = rows()
    assert bench.look(1200) == [(1, "b", 5, True)]


class Frame:
    """What a reader sees of a DataFrame: it takes its time."""

    schema = StructType([StructField("k", LongType()), StructField("v", StringType())])

    def __init__(self, *made):
        self.rows, self.may = [dict(zip(("k", "v"), row, strict=True)) for row in made], Event()
        self.may.set()

    def toArrow(self):  # noqa: N802 - Spark's word
        assert self.may.wait(10)
        return pa.Table.from_pylist(self.rows)


def test_a_dataframe_is_read_again_beside_the_timesteps():
    bench = Bench(Frame((1, "a"), (2, "b")), threads=True, refresh_ms=100)
    assert bench.look(0) == [(1, "a", False), (2, "b", False)]
    bench.table = Frame((1, "c"))
    bench.table.may.clear()
    assert [bench.look(now) for now in (100, 101, 250)] == [None, None, None]
    bench.table.may.set()
    wait([bench.reader._reading], 10)
    assert bench.look(251) == [(1, "c", False), (2, "b", True)]
    assert bench.at["at_ms"] == 251
    assert bench.look(350) is None
    bench.reader.close()


def test_a_function_that_takes_its_time_holds_nobody_up():
    bench = Bench(rows((1, "a", 5)), threads=True, refresh_ms=100)
    assert bench.look(0) == [(1, "a", 5, False)]
    may, asked = Event(), bench.asked

    def slow():
        assert may.wait(10)
        return rows((1, "b", 5))

    bench.table = slow
    assert [bench.look(now) for now in (100, 150, 300)] == [None, None, None]
    may.set()
    wait([bench.reader._reading], 10)
    assert bench.look(301) == [(1, "b", 5, False)]
    assert bench.asked == asked + 1
    bench.reader.close()


def test_another_read_that_fails_is_told_and_tried_again(caplog):
    def broken():
        msg = "no such table"
        raise ValueError(msg)

    bench = Bench(rows((1, "a", 5)), refresh_ms=100)
    bench.look(0)
    asked = bench.asked
    for number, (wrong, words) in enumerate(
        (
            (broken, "function that makes table 't'.*no such table"),
            (lambda: [1], "returned list, not a DataFrame"),
            (pa.table({"k": [1]}), r"\['v', 'at'\] are declared too"),
            (rows((1, "b", 5), (1, "c", 5)), "several rows of k = 1"),
        ),
        start=1,
    ):
        bench.table = wrong
        with caplog.at_level(logging.WARNING, logger="rechannel"):
            assert bench.look(number * 100) is None
            assert bench.look(number * 100 + 99) is None
        assert len(caplog.records) == number
        told = caplog.records[-1].getMessage()
        assert re.search(rf"^table 't' .*could not be read; .*retried in 0.1 s: .*{words}", told)
    assert bench.asked == asked + 4
    bench.table = rows((1, "d", 5))
    assert bench.look(500) == [(1, "d", 5, False)]


def test_a_table_that_is_no_single_batch_is_refused(monkeypatch):
    class Large:
        def combine_chunks(self):
            return pa.concat_tables([rows((1, "a", 5)), rows((2, "b", 5))])

    monkeypatch.setattr(Frame, "toArrow", lambda self: Large())
    with pytest.raises(SourceError, match="more than 2 GB of text"):
        Bench(Frame((1, "a"))).look(0)


def test_large_tables_lie_in_several_files(monkeypatch):
    monkeypatch.setattr(module, "ROWS", 10)
    bench = Bench(rows(*((k, "x", 1) for k in range(25))), refresh_ms=100)
    assert len(bench.look(0)) == 25
    layout = bench.reader.layout(bench.reader.initial(), bench.at)
    assert [(split["order"], split["size"]) for split in layout] == [(0, 10), (1, 10), (2, 5)]
    bench.table = rows(*((k, "x", 1) for k in range(20)))
    assert len(bench.look(100)) == 5


def test_of_several_rows_of_a_key_the_newest_counts_or_nobody_knows():
    bench = Bench(rows((1, "a", 5), (1, "b", 6), (1, "c", None), (2, "d", 1)), by=("at",))
    assert bench.look(0) == [(1, "b", 6), (2, "d", 1)]
    alike = Bench(rows((1, "a", 5), (1, "a", 5)))
    assert alike.look(0) == [(1, "a", 5)]
    for table, by, words in (
        (rows((1, "a", 5), (1, "b", 6)), (), "several rows of k = 1, and rows of a DataFrame"),
        (rows((1, "a", 5), (1, "b", 5)), ("at",), "k = 1 that are equal in at"),
    ):
        with pytest.raises(SourceError, match=words):
            Bench(table, by=by).look(0)


def test_what_cannot_be_read_is_told():
    def broken():
        msg = "no such table"
        raise ValueError(msg)

    store = MemoryStore()
    for held, error, words in (
        (Held(broken), UserFunctionError, "function that makes table 't'.*no such table"),
        (Held(lambda: [1]), SourceError, "returned list, not a DataFrame"),
        (Held(pa.table({"x": [1]})), DataflowError, "no column 'k'"),
    ):
        with pytest.raises(error, match=words):
            TableConnector(held=held, keys=("k",)).open(SourceContext(store=store, name="t"))
    lists = pa.table({"k": [1], "at": [[1]]})
    with pytest.raises(DataflowError, match="cannot be ordered by 'at'"):
        Bench(lists, by=("at",))
