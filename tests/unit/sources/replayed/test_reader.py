"""The log of replayed dead letters as a source: each file once, whatever dies when."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.engine.letters.taken import Taken
from rechannel.errors import SourceError
from rechannel.settings import Settings
from rechannel.sources.connector import SourceContext
from rechannel.sources.reader import Bound
from rechannel.sources.replayed.connector import ReplayedConnector
from rechannel.sources.replayed.log import ReplayLog, facts_of, taking_schema
from rechannel.testing import Crash, Fault, FaultKind, Harness, MemoryStore, script

COLUMNS = pa.schema([("k", pa.string()), ("v", pa.int64())])
NAME = "op_replays"
START = {"files": 0, "begun": True}


def file_of(*rows: tuple[str, int, int]) -> pa.RecordBatch:
    """Return what a call takes: key, value and attempts of each row."""
    facts = [
        {"letter": bytes(16), "row_key": bytes(16), "attempts": tries, "row": {"k": k, "v": v}}
        for k, v, tries in rows
    ]
    return pa.RecordBatch.from_pylist(facts, schema=taking_schema(COLUMNS))


def opened(store: Any, schema: pa.Schema = COLUMNS) -> Any:
    return ReplayedConnector(operator="op", schema=schema).open(
        SourceContext(store=store, name=NAME)
    )


def rows_between(reader: Any, start: Any, end: Any) -> list[tuple[int, list[dict[str, Any]]]]:
    layout = reader.layout(start, end)
    splits = reader.split_reader(start, end, layout)
    return [
        (
            split["order"] & 0xFFFFF,
            [row for batch in splits.read(split) for row in batch.to_pylist()],
        )
        for split in layout
    ]


def test_rows_that_were_tried_equally_often_are_a_split():
    log = ReplayLog(MemoryStore(), NAME)
    reader = opened(log.store)
    start = reader.initial()
    begun = reader.latest(start, 0)
    assert begun != start, "its beginning is committed before anything is read"
    assert not reader.layout(start, begun)
    assert reader.latest(begun, 0) == begun
    assert log.create(1, file_of(("a", 1, 1), ("b", 2, 1), ("c", 3, 4)), {"cause": "a test"})
    end = reader.latest(start, 0)
    assert rows_between(reader, start, end) == [
        (1, [{"k": "a", "v": 1}, {"k": "b", "v": 2}]),
        (4, [{"k": "c", "v": 3}]),
    ]
    assert reader.latest(end, 0) == end
    assert facts_of(log.read(1)) == {"cause": "a test"}


def test_a_file_is_created_once_and_a_timestep_takes_as_many_as_fit():
    log = ReplayLog(MemoryStore(), NAME)
    assert log.create(1, file_of(("a", 1, 1)), {})
    assert not log.create(1, file_of(("b", 1, 1)), {})
    log.create(2, file_of(("b", 1, 1)), {})
    reader = opened(log.store)
    assert reader.latest(START, 0, Bound(bytes=1)) == START | {"files": 1}
    assert reader.latest(START, 0) == START | {"files": 2}
    assert reader.initial() == {"files": 2, "begun": False}, (
        "a source that is new begins after what is there"
    )


def test_a_file_of_an_earlier_program_is_read_with_the_columns_of_the_present_one():
    log = ReplayLog(MemoryStore(), NAME)
    log.create(1, file_of(("a", 1, 1)), {})
    reader = opened(log.store, pa.schema([("more", pa.float64()), ("v", pa.int64())]))
    end = reader.latest(START, 0)
    assert rows_between(reader, START, end) == [(1, [{"more": None, "v": 1}])]


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pa.field("v", pa.string()), "its column 'v' is bigint, and the program reads string"),
        (pa.field("n", pa.int64(), nullable=False), "it has no column 'n', which is never null"),
    ],
)
def test_a_file_that_cannot_be_read_so_is_passed_over_and_its_dead_letters_are_not_taken(
    caplog, column, reason
):
    log = ReplayLog(MemoryStore(), NAME)
    for number in (1, 3):
        log.create(number, file_of(("a", 1, 1)), {})
    other = [{"letter": bytes(16), "row_key": bytes(16), "attempts": 1, "row": {column.name: None}}]
    fine = pa.RecordBatch.from_pylist(
        other, schema=taking_schema(pa.schema([column.with_nullable(True)]))
    )
    log.create(2, fine, {})
    reader = opened(log.store, pa.schema([column]))
    end = reader.latest(START, 0)
    assert end == START | {"files": 3, "returned": [1, 3]}
    assert [split["file"] for split in reader.layout(START, end)] == [2]
    assert f"does not read replay 1, which was made for an earlier program: {reason}" in caplog.text
    assert Taken.of(log.files()).counts.sum() == 3
    for _ in range(2):
        reader.committed(end)
    assert [file.num_rows for file in log.files()] == [0, 1, 0]
    assert Taken.of(log.files()).counts.sum() == 1
    assert reader.latest(end, 0) == end
    log.create(4, fine, {})
    assert reader.latest(end, 0) == START | {"files": 4}


def test_a_file_that_is_not_emptied_yet_is_after_the_next_commit():
    log = ReplayLog(MemoryStore(), NAME)
    for number in (1, 2):
        log.create(number, file_of(("a", 1, 1)), {})
    reader = opened(log.store, pa.schema([("v", pa.string())]))
    first = reader.latest(START, 0, Bound(bytes=1))
    assert first == START | {"files": 1, "returned": [1]}
    assert reader.latest(first, 0) == START | {"files": 2, "returned": [1, 2]}


def test_a_timestep_that_was_planned_and_cannot_be_read_says_how_to_go_on():
    log = ReplayLog(MemoryStore(), NAME)
    log.create(1, file_of(("a", 1, 1)), {})
    layout = opened(log.store).layout(START, START | {"files": 1})
    reader = opened(log.store, pa.schema([("v", pa.string())]))
    with pytest.raises(SourceError, match=r"start\(replan=True\)"):
        list(reader.split_reader(START, START, layout).read(layout[0]))


def test_where_the_operator_is_not_the_first_one_of_its_stage_its_attempts_are_not_those_of_others():
    log = ReplayLog(MemoryStore(), NAME)
    source = script("k STRING, v BIGINT")
    rows = rc.read().memory(source, name="in").with_replays("op")
    op = rows.filter(lambda row: True, name="op", on_error="dead_letter")
    after = op.filter(lambda row: row.v / 0, name="after", on_error="dead_letter")
    good = after.write.memory("good", name="good")
    bad = rc.dead_letters(good).write.memory("bad", name="bad")
    harness = Harness([good, bad], store=log.store, settings=Settings(tasks=1, telemetry=False))
    process = harness.start()
    process.run()
    log.create(1, file_of(("a", 1, 3)), {})
    process.run()
    (letter,) = harness.outputs("bad")[2].to_pylist()
    assert (letter["operator"], letter["offset"]) == ("after", None)


@pytest.mark.parametrize("kind", [FaultKind.BEFORE, FaultKind.AFTER])
def test_a_driver_that_dies_at_any_write_reads_each_row_once(kind):
    facts = {"letter": bytes(16), "row_key": bytes(16), "attempts": 1, "row": {"v": "text"}}
    columns = taking_schema(pa.schema([("v", pa.string())]))
    earlier = pa.RecordBatch.from_pylist([facts], schema=columns)
    for writes in count():
        log = ReplayLog(MemoryStore(), NAME)
        source = script("k STRING, v BIGINT")

        def bench(log: ReplayLog = log, source: Any = source) -> Harness:
            rows = rc.read().memory(source, name="in").with_replays("op")
            op = rows.filter(lambda row: True, name="op", on_error="dead_letter")
            sums = op.key_by("k").aggregate(n=rc.aggregates.count(), name="sums")
            good = sums.write.memory("good", name="good")
            bad = rc.dead_letters(good).write.memory("bad", name="bad")
            return Harness(
                [good, bad], store=log.store, settings=Settings(tasks=2, bins=8, telemetry=False)
            )

        bench().start().run()
        log.create(1, file_of(("a", 1, 1), ("a", 2, 2)), {})
        log.create(2, earlier, {})
        armed = [True]

        def faults(writes: int = writes, armed: list[bool] = armed) -> Iterator[Fault | None]:
            yield from [None] * writes
            if armed[0]:
                yield Fault(kind=kind)

        try:
            harness = bench()
            harness.start(faults=faults()).run()
            armed[0] = False
        except Crash:
            harness = bench()
            harness.start().run()
        assert harness.state("sums").to_pylist() == [{"k": "a", "n": 2}]
        source.push([{"k": "a", "v": 1}])
        harness.process.run()
        assert harness.state("sums").to_pylist() == [{"k": "a", "n": 3}]
        assert [file.num_rows for file in log.files()] == [2, 0]
        if not armed[0]:
            break
    assert writes > 3
