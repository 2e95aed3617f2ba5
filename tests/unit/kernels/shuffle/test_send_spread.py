"""Rows of a spread bin: one side is dealt out over its tasks, the other goes to all of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.kernels.protocol.two_sides import LEFT, RIGHT, Sided
from rechannel.kernels.shuffle.send import Channel, Sender, wire_schema
from rechannel.kernels.shuffle.wire import unpack
from rechannel.model.hashing import hash_columns
from rechannel.model.routing import Routing
from rechannel.model.spread import SpreadBin
from rechannel.testing import Harness, script

HOT = int(hash_columns([pa.array([0])])[0])
TASKS = (2, 0, 3)


@pytest.fixture(scope="module")
def can() -> Capabilities:
    left, right = (rc.read().memory(script("k BIGINT, v BIGINT", []), name=n) for n in "lr")
    joined = left.join(right, "k", name="joined")
    logic = Harness(joined.write.memory("out")).plan.stage("joined").logic
    assert logic is not None
    return Capabilities(logic)


def routing(side: int) -> Routing:
    even = Routing(starts=(0, HOT, HOT + 1), owners=(1, 2, 1), tasks=4)
    return even.with_spreads([SpreadBin(lo=HOT, hi=HOT + 1, tasks=TASKS, side=side)])


def rows(side: int, keys: list[int], first: int = 0) -> pa.RecordBatch:
    values = np.arange(first, first + len(keys))
    return Sided(side=side, keys=(("k", "k"),))(pa.record_batch({"k": keys, "v": values}))


Sent = dict[int, list[tuple[int, int]]]


def sent(
    can: Capabilities,
    divided: int,
    batches: list[pa.RecordBatch],
    *,
    producer: int = 0,
    **options: Any,
) -> Sent:
    """Rows (key, value) by task, in the order in which they were sent."""
    channel = Channel(
        operator="joined", input=7, first=10, routing=routing(divided), can=can, combined=False
    )
    sender = Sender(channel, producer, **options)
    out: Sent = {}
    schema = wire_schema(can, combined=False)
    for number, batch in enumerate(batches):
        for target, data in sender.send(batch, number):
            message = unpack(pa.py_buffer(data)).message
            columns = pa.ipc.read_record_batch(message, schema).columns
            value = columns[2 if columns[2].null_count == 0 else 3]
            found = zip(columns[0].to_pylist(), value.to_pylist(), strict=True)
            out.setdefault(target - 10, []).extend(found)
    return out


KEYS = [0] * 20 + [5, 6, 7]


@pytest.mark.parametrize("repeats", [True, False])
@pytest.mark.parametrize("side", [LEFT, RIGHT])
def test_the_divided_side_is_dealt_out(can, side, repeats):
    got = sent(can, side, [rows(side, KEYS), rows(side, KEYS, 100)], repeats=repeats)
    assert sorted(got) == [0, 1, 2, 3]
    assert {key for key, _ in got[1]} == {5, 6, 7}
    hot = [row for task in TASKS for row in got[task]]
    assert sorted(hot) == sorted((0, first + n) for first in (0, 100) for n in range(20))
    if repeats:
        assert {len(got[task]) for task in TASKS} <= {13, 14}


@pytest.mark.parametrize("side", [LEFT, RIGHT])
def test_the_other_side_goes_to_all(can, side):
    got = sent(can, 1 - side, [rows(side, KEYS)])
    for task in TASKS:
        assert sorted(got[task]) == [(0, n) for n in range(20)]
    assert sorted(got[1]) == [(5, 20), (6, 21), (7, 22)]


def test_single_rows_go_to_each_task_in_turn(can):
    got = sent(can, LEFT, [rows(LEFT, [0], n) for n in range(9)])
    assert {task: len(found) for task, found in got.items()} == dict.fromkeys(TASKS, 3)
    first = {next(iter(sent(can, LEFT, [rows(LEFT, [0])], producer=n))) for n in range(3)}
    assert first == set(TASKS)


def test_an_attempt_that_has_rows_in_another_order_sends_each_to_the_same_task(can):
    batch = rows(LEFT, KEYS * 5)
    shuffled = batch.take(pa.array(np.random.default_rng(0).permutation(batch.num_rows)))
    other = [shuffled.slice(0, 30), shuffled.slice(30)]
    one, two = (sent(can, LEFT, batches, repeats=False) for batches in ([batch], other))
    assert {t: Counter(found) for t, found in one.items()} == {
        t: Counter(f) for t, f in two.items()
    }
    assert min(len(one[task]) for task in TASKS) > 15
