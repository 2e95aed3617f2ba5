"""Keys that somebody chose to have one hash: answers stay right, and cost what those of other keys cost."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.streams.stream import Stream
from rechannel.kernels.columnar import sorting
from rechannel.kernels.lsm import collect, lookup
from rechannel.model import keyorder
from rechannel.model.hashing import hash_columns
from rechannel.settings import Settings
from rechannel.state.merging import MergePolicy
from rechannel.testing import Harness, script
from tests.support.collisions import colliding

KEYS = 500


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Rows of columns that were gathered, and rows that were ranked."""
    done: Counter[str] = Counter()
    gather, rank = sorting.fast_take, keyorder._ranks

    def gathered(column: pa.Array, order: np.ndarray) -> pa.Array:
        done["gathered"] += len(order)
        return gather(column, order)

    def ranked(column: pa.Array) -> np.ndarray:
        done["ranked"] += len(column)
        return rank(column)

    for module in (sorting, lookup):
        monkeypatch.setattr(module, "fast_take", gathered)
    monkeypatch.setattr(keyorder, "_ranks", ranked)
    return done


def totals(stream: Stream) -> Stream:
    return stream.key_by("a", "b").aggregate(
        n=agg.count(), t=agg.sum("v"), l=agg.last("v"), name="op"
    )


def pairs(stream: Stream) -> Stream:
    other = stream.filter(lambda row: row.v % 3 == 0).select("a", "b", w="v")
    return stream.join(other, ["a", "b"], how="inner", name="op")


def windows(stream: Stream) -> Stream:
    timed = stream.event_time("at", delay="10 seconds").key_by("a", "b")
    return timed.window(rc.windows.tumbling("20 seconds")).aggregate(
        n=agg.count(), t=agg.sum("v"), name="op"
    )


PROGRAMS = [totals, pairs, windows]


def seen(program, crafted: bool, count: int, timesteps: int = 4) -> Iterator[list[tuple]]:
    """What comes out, with the number of the key in place of the key."""
    first, second = colliding(count)
    second = second if crafted else [0] * count
    if crafted:
        columns = [pa.array(first, pa.int64()), pa.array(second, pa.int64())]
        assert len(set(hash_columns(columns).tolist())) == 1
    draw = random.Random(7)
    source = script("a bigint, b bigint, v bigint, at timestamp", [])
    stream = program(rc.read().memory(source, name="in"))
    settings = Settings(tasks=2, bins=8, merging=MergePolicy(fan=2, slice_rows=1))
    harness = Harness(stream.write.memory("out"), settings=settings)
    harness.start()
    for timestep in range(timesteps):
        keys = [*range(count), *draw.choices(range(count), k=count // 4)]
        draw.shuffle(keys)
        rows = {"a": [first[i] for i in keys], "b": [second[i] for i in keys]}
        rows["v"] = [draw.randrange(50) for _ in keys]
        columns = {name: pa.array(values, pa.int64()) for name, values in rows.items()}
        at = [(15 * timestep + v) * 1_000_000 for v in rows["v"]]
        source.push(pa.record_batch({**columns, "at": pa.array(at, pa.timestamp("us", "UTC"))}))
        harness.process.run()
    assert harness.output().num_rows
    for table in harness.outputs().values():
        yield sorted(
            tuple(sorted((name, repr(value)) for name, value in row.items() if name != "b"))
            for row in table.to_pylist()
        )


@pytest.mark.parametrize("program", PROGRAMS)
def test_answers_are_those_of_other_keys(program):
    assert list(seen(program, True, 40)) == list(seen(program, False, 40))


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_cost_is_linear(program, work: Counter[str]):
    list(seen(program, False, KEYS))
    plain = work["gathered"]
    work.clear()
    list(seen(program, True, KEYS))
    assert work["ranked"], "no key was told apart from another one of its hash"
    assert work["gathered"] <= 3 * plain
    assert work["ranked"] <= 3 * plain


def test_a_few_keys_asked_among_many_read_each_stored_row_once(work: Counter[str]):
    assert collect.partners is lookup.partners is keyorder.partners
    owners = np.zeros(3, dtype=np.int64)
    first, second = colliding(100)
    stored = [pa.array(first, pa.int64()), pa.array(second, pa.int64())]
    some = [column.take(pa.array([90, 5, 41])) for column in stored]
    found = keyorder.partners(owners, some, np.zeros(100, dtype=np.int64), stored)
    assert {int(row): int(found[row]) for row in np.flatnonzero(found >= 0)} == {90: 0, 5: 1, 41: 2}
    assert work["ranked"] == 2 * 103
