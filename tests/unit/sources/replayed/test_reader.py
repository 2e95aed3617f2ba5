"""The log of replayed dead letters as a source: each file once, whatever dies when."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
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


def test_a_file_with_other_columns_waits_for_a_program_with_them():
    log = ReplayLog(MemoryStore(), NAME)
    log.create(1, file_of(("a", 1, 1)), {})
    reader = opened(log.store, pa.schema([("k", pa.string())]))
    assert reader.latest(START, 0) == START
    assert "rows with the columns k string, v bigint, for an earlier program" in str(
        reader.complaint
    )
    reader = opened(log.store)
    assert reader.latest(START, 0) == START | {"files": 1}
    assert reader.complaint is None


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
        if not armed[0]:
            break
    assert writes > 3
