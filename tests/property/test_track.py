"""`track` and `running_reduce` over random timesteps, against a dict that takes rows one by one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from rechannel.kernels.functions.python_rows import Rows
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.model.ddl import schema_of
from rechannel.operators.aggregate.reduce import ReduceLogic
from rechannel.operators.process.track import TrackBatchesLogic, TrackLogic
from rechannel.operators.process.track_frame import KeyedFrame
from tests.support.arrivals import arrivals, output_of, state_of

Key = tuple[str | None]
Row = tuple[Key, tuple[int | None]]

KEYS = schema_of("k STRING")
VALUES = schema_of("v BIGINT")
STATE = schema_of("n BIGINT, total BIGINT")
TIMEOUT = 3

rows = st.lists(
    st.tuples(
        st.tuples(st.sampled_from(["a", "b", "c", "d", None])),
        st.tuples(st.integers(-4, 4) | st.none()),
    ),
    max_size=12,
)
timesteps = st.lists(rows, max_size=8)


def run(
    logic: StatefulLogic, batches: list[list[Row]], *, timeout: bool = False
) -> tuple[dict[Key, tuple[Any, ...]], list[list[tuple[Any, ...]]]]:
    """Final state of every live key (hidden columns cut off) and the output of every timestep."""
    state: dict[Key, tuple[Any, ...]] = {}
    outputs = []
    for now, batch in enumerate(batches):
        received = arrivals(logic, batch, state, stream_ms=now)
        applied = logic.apply(received)
        for key, _ in batch:
            state.pop(key, None)
        state.update(state_of(logic, received, applied))
        outputs.append(sorted(output_of(applied), key=str))
    width = len(STATE)
    last = len(batches) - 1
    live = {k: s for k, s in state.items() if not timeout or last - s[width] <= TIMEOUT}
    return {k: s[:width] for k, s in live.items()}, outputs


class Twin:
    """One row at a time; a key is dropped when its total is exactly 5."""

    def __init__(self, timeout: int | None) -> None:
        self.timeout = timeout
        self.state: dict[Key, tuple[int, int]] = {}
        self.seen: dict[Key, int] = {}

    def step(self, now: int, batch: list[Row]) -> list[tuple[Any, ...]]:
        self.expire(now)
        for key, (value,) in batch:
            n, total = self.state.get(key, (0, 0))
            self.state[key] = (n + 1, total + (value or 0))
            self.seen[key] = now
        changed = dict.fromkeys(key for key, _ in batch)
        for key in changed:
            if self.state[key][1] == 5:
                del self.state[key]
        return sorted(((*k, *self.state[k]) for k in changed if k in self.state), key=str)

    def expire(self, now: int) -> None:
        for key, seen in self.seen.items():
            if self.timeout is not None and now - seen > self.timeout:
                self.state.pop(key, None)


def twin(
    batches: list[list[Row]], timeout: int | None
) -> tuple[dict[Key, tuple[int, int]], list[list[tuple[Any, ...]]]]:
    naive = Twin(timeout)
    outputs = [naive.step(now, batch) for now, batch in enumerate(batches)]
    naive.expire(len(batches) - 1)
    return naive.state, outputs


def update(key: Any, state: Any, mine: Rows) -> tuple[int, int] | None:
    n, total = state or (0, 0)
    total += sum(v or 0 for v in mine["v"])
    return None if total == 5 else (n + len(mine), total)


def begin(key: Any, row: Any) -> tuple[int, int]:
    return 1, row.v or 0


def update_batches(frame: KeyedFrame) -> dict[str, Any]:
    total = frame.previous("total", 0) + frame.sum("v")
    return {
        "n": frame.previous("n", 0) + frame.count(),
        "total": total,
        "_drop": total == 5,
    }


@given(timesteps, st.sampled_from([None, TIMEOUT]))
def test_one_function_per_key(batches: list[list[Row]], timeout: int | None) -> None:
    logic = TrackLogic(
        key_schema=KEYS, value_schema=VALUES, fields=STATE, timeout_ms=timeout, update=update
    )

    assert run(logic, batches, timeout=timeout is not None) == twin(batches, timeout)


@given(timesteps, st.sampled_from([None, TIMEOUT]))
def test_one_function_for_all_keys(batches: list[list[Row]], timeout: int | None) -> None:
    logic = TrackBatchesLogic(
        key_schema=KEYS,
        value_schema=VALUES,
        fields=STATE,
        timeout_ms=timeout,
        update=update_batches,
    )

    assert run(logic, batches, timeout=timeout is not None) == twin(batches, timeout)


@given(timesteps)
def test_initialise_and_update_do_what_update_alone_does(batches: list[list[Row]]) -> None:
    one = TrackLogic(
        key_schema=KEYS,
        value_schema=VALUES,
        fields=STATE,
        update=lambda key, state, mine: count(state, mine),
    )
    other = TrackLogic(
        key_schema=KEYS,
        value_schema=VALUES,
        fields=STATE,
        update=lambda key, state, mine: count(state, mine),
        initialise=begin,
    )

    assert run(one, batches) == run(other, batches)


def count(state: Any, mine: Rows) -> tuple[int, int]:
    n, total = state or (0, 0)
    return n + len(mine), total + sum(v or 0 for v in mine["v"])


def concatenate(a: pa.RecordBatch, b: pa.RecordBatch) -> pa.RecordBatch:
    text = pc.binary_join_element_wise(a["t"], b["t"], ",")
    return pa.RecordBatch.from_arrays([text, pc.add(a["n"], b["n"])], names=["t", "n"])


def concatenate_rows(a: Any, b: Any) -> tuple[str, int]:
    return f"{a.t},{b.t}", a.n + b.n


texts = st.lists(
    st.tuples(st.tuples(st.sampled_from(["a", "b", "c"])), st.integers(0, 99)), max_size=40
)


@given(st.lists(texts, max_size=4), st.booleans(), st.booleans(), st.randoms())
def test_reduction_keeps_order_however_it_is_split(
    batches: list[list[tuple[tuple[str], int]]], rowwise: bool, combine: bool, random: Any
) -> None:
    logic = ReduceLogic(
        key_schema=KEYS,
        value_schema=schema_of("t STRING, n BIGINT"),
        function=concatenate_rows if rowwise else concatenate,
        rowwise=rowwise,
    )
    expected: dict[tuple[str], list[int]] = {}
    state: dict[Any, tuple[Any, ...]] = {}
    for batch in batches:
        for key, value in batch:
            expected.setdefault(key, []).append(value)
        sent = [(key, (str(value), 1)) for key, value in batch]
        if combine:
            cut = random.randint(0, len(sent))
            sent = [row for part in (sent[:cut], sent[cut:]) for row in partials(logic, part)]
        received = arrivals(logic, sent, state)
        state.update(state_of(logic, received, logic.apply(received)))

    assert state == {k: (",".join(map(str, v)), len(v)) for k, v in expected.items()}


def partials(logic: ReduceLogic, part: list[Any]) -> list[Any]:
    """What one producer sends of its rows."""
    received = arrivals(logic, part)
    columns = logic.combine(received.values, received.groups)
    keys = zip(*(column.to_pylist() for column in received.keys), strict=True)
    return list(zip(keys, zip(*(c.to_pylist() for c in columns), strict=True), strict=True))


@given(timesteps)
def test_a_key_s_answer_does_not_depend_on_the_keys_of_its_frame(batches: list[list[Row]]) -> None:
    logic = TrackBatchesLogic(
        key_schema=KEYS, value_schema=VALUES, fields=STATE, update=update_batches
    )
    together, _ = run(logic, batches)
    apart: dict[Key, tuple[Any, ...]] = {}
    for key in {key for batch in batches for key, _ in batch}:
        mine, _ = run(logic, [[row for row in batch if row[0] == key] for batch in batches])
        apart.update(mine)

    assert together == apart


def test_the_twin_drops_and_expires() -> None:
    """The naive twin itself, on a case worked out by hand."""
    a: Key = ("a",)

    state, outputs = twin([[(a, (2,)), (a, (3,))], [(a, (1,))], [], [], [], []], TIMEOUT)

    assert outputs[:2] == [[], [("a", 1, 1)]]
    assert state == {}
    assert outputs[2:] == [[]] * 4
