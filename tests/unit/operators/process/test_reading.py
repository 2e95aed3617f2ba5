"""What a `process` function reads, writes and emits does not depend on how its rows are cut into timesteps.

A value that was written is read in the same call as it will be in the next timestep, and what the function does to a
list, a dict or a row after it has read, written or emitted it changes nothing that is kept or emitted.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from random import Random

import numpy as np
import pandas as pd
import pytest

import rechannel as rc
from rechannel.operators.process.context import FIRST, LAST, moment_of
from rechannel.testing import Harness, script


def emitted(function, timesteps, *, state, schema="said STRING", more=(), **options):
    """What is emitted for the one key "k", in order. timesteps: the numbers that come in each, a second apart."""
    rows, now = script("key STRING, n BIGINT"), [1_000]
    made = (
        rc.read()
        .memory(rows, name="rows")
        .key_by("key")
        .process(function, schema=schema, states={"s": state}, name="process", **options)
    )
    flows = [made.write.memory("out", name="out")]
    flows += [read(made).write.memory(name, name=name) for name, read in dict(more).items()]
    harness = Harness(flows, settings=rc.Settings(tasks=1, bins=2), clock=lambda: now[0])
    harness.start()
    for numbers in timesteps:
        now[0] += 1_000
        rows.push([{"key": "k", "n": n} for n in numbers])
        harness.process.run()

    def shown(sink):
        return [
            {name: value for name, value in row.items() if name != "key"}
            for table in harness.outputs(sink).values()
            for row in table.to_pylist()
        ]

    return shown("out"), {name: shown(name) for name in dict(more)}


def each_row(function):
    """A function of one row at a time."""

    def called(key, rows, context):
        for row in rows:
            yield from function(row.n, context)

    return called


TOGETHER, APART = [[0, 1]], [[0], [1]]

NOON = datetime(2026, 1, 1, 12)  # noqa: DTZ001 - a time without a zone is in UTC
WRITTEN = [
    ("FLOAT", 0.1),
    ("FLOAT", np.float32(0.1)),
    ("DOUBLE", 1),
    ("DOUBLE", np.float64(0.5)),
    ("BIGINT", np.int64(3)),
    ("INT", 7),
    ("DECIMAL(10, 2)", Decimal("1.5")),
    ("DECIMAL(10, 2)", 3),
    ("TIMESTAMP", NOON),
    ("TIMESTAMP", datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))),
    ("TIMESTAMP", pd.Timestamp("2026-01-01", tz="UTC")),
    ("TIMESTAMP_NTZ", NOON),
    ("DATE", NOON),
    ("STRING", np.str_("x")),
    ("BINARY", bytearray(b"x")),
    ("ARRAY<INT>", (1, 2)),
    ("ARRAY<DOUBLE>", np.array([1.0, 2.0])),
    ("ARRAY<FLOAT>", [0.1]),
    ("STRUCT<a: INT, b: FLOAT>", (1, 0.1)),
    ("STRUCT<a: INT, b: FLOAT>", {"b": 0.1, "a": 1}),
    ("MAP<STRING, INT>", {"a": 1}),
]


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize(("kind", "value"), WRITTEN)
def test_a_value_is_read_in_the_same_call_as_in_the_next_timestep(kind, value, columns):
    @each_row
    def write_then_read(n, context):
        one = context.value("s")
        if n == 0:
            one.set(value if columns == 1 else [value, None])
        else:
            yield repr(one.get())

    state = rc.states.value_state(f"v {kind}" + f", none {kind}" * (columns - 1))
    together, _ = emitted(write_then_read, TOGETHER, state=state)
    apart, _ = emitted(write_then_read, APART, state=state)
    assert together == apart
    assert len(apart) == 1


@pytest.mark.parametrize(("kind", "value"), WRITTEN)
def test_so_are_elements_and_entries(kind, value):
    @each_row
    def append_then_read(n, context):
        some = context.list("s")
        if n == 0:
            some.append(value)
        else:
            yield repr([some[0], list(some), some.popleft()])

    @each_row
    def put_then_read(n, context):
        some = context.map("s")
        if n == 0:
            some["a"] = value
        else:
            yield repr([some["a"], list(some.items())])

    for function, state in (
        (append_then_read, rc.states.list_state(f"v {kind}")),
        (put_then_read, rc.states.map_state("entry STRING", f"v {kind}")),
    ):
        together, _ = emitted(function, TOGETHER, state=state)
        apart, _ = emitted(function, APART, state=state)
        assert together == apart
        assert len(apart) == 1


def test_what_does_not_fit_is_read_as_it_is_and_refused_when_it_is_stored():
    @each_row
    def write(n, context):
        context.value("s").set("many")
        yield repr(context.value("s").get())

    with pytest.raises(rc.errors.UserFunctionError, match="declared bigint and got 'many'"):
        emitted(write, [[0]], state=rc.states.value_state("v BIGINT"))


# In place -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [TOGETHER, APART])
@pytest.mark.parametrize("kind", ["value", "list", "map"])
def test_a_list_that_was_read_and_changed_is_kept_once_it_is_set(kind, cut):
    def handle(context):
        some = getattr(context, kind)("s")
        if kind == "value":
            return some.get, some.set
        if kind == "list":
            return lambda: some[0], some.append
        return lambda: some["a"], lambda value: some.__setitem__("a", value)

    @each_row
    def change(n, context):
        read, write = handle(context)
        if n == 0:
            mine = [1]
            write(mine)
            mine.append(2)
        read().append(3)
        yield repr(read())

    columns = "v ARRAY<INT>"
    state = {
        "value": lambda: rc.states.value_state(columns),
        "list": lambda: rc.states.list_state(columns),
        "map": lambda: rc.states.map_state("entry STRING", columns),
    }[kind]()
    out, _ = emitted(change, cut, state=state)
    assert out == [{"said": "[1]"}, {"said": "[1]"}]


def test_elements_of_an_iteration_can_be_changed_without_effect():
    @each_row
    def change(n, context):
        some = context.list("s")
        if n == 0:
            some.extend([[1], [2]])
        for each in (*some, *some[:], *reversed(some)):
            each.append(n)
        yield repr(list(some))

    for cut in (TOGETHER, APART):
        out, _ = emitted(change, cut, state=rc.states.list_state("v ARRAY<INT>"))
        assert out == [{"said": "[[1], [2]]"}] * 2


@pytest.mark.parametrize("kind", ["value", "list", "map"])
def test_the_timers_of_a_key_that_failed_see_what_was_nested_as_it_was(kind):
    def held(context):
        some = getattr(context, kind)("s")
        return some.get() if kind == "value" else some[0 if kind == "list" else "a"]

    def write(context):
        some = getattr(context, kind)("s")
        if kind == "map":
            some["a"] = [1]
        else:
            (some.set if kind == "value" else some.append)([1])

    def fail(key, rows, context):
        for row in rows:
            if row.n == 0:
                write(context)
                context.set_timer("soon", context.processing_time + timedelta(seconds=1))
            else:
                held(context).append(2)
                raise ValueError("no")
        yield "set"

    def tell(key, timer, context):
        yield repr(held(context))

    columns = "v ARRAY<INT>"
    state = {
        "value": lambda: rc.states.value_state(columns),
        "list": lambda: rc.states.list_state(columns),
        "map": lambda: rc.states.map_state("entry STRING", columns),
    }[kind]()
    out, more = emitted(
        fail,
        [[0], [1]],
        state=state,
        timers={"soon": "processing"},
        on_timer=tell,
        on_error="dead_letter",
        more={"dead": lambda made: made.dead_letters},
    )
    assert out == [{"said": "set"}, {"said": "[1]"}]
    assert len(more["dead"]) == 1


@pytest.mark.parametrize("cut", [[[1, 2, 3]], [[1], [2], [3]]])
def test_a_row_is_as_it_was_when_it_was_yielded(cut):
    def gather(key, rows, context):
        items = context.value("s").get([])
        for row in rows:
            items.append(row.n)
            context.side_output("aside", items)
            yield (items,)
        context.value("s").set(items)

    out, more = emitted(
        gather,
        cut,
        state=rc.states.value_state("v ARRAY<INT>"),
        schema="items ARRAY<INT>",
        side_outputs={"aside": "items ARRAY<INT>"},
        more={"aside": lambda made: made.side_output("aside")},
    )
    assert out == [{"items": [1]}, {"items": [1, 2]}, {"items": [1, 2, 3]}]
    assert more["aside"] == out


@pytest.mark.parametrize("cut", [[[1, 2]], [[1], [2]]])
def test_one_dict_can_be_filled_and_yielded_again_and_again(cut):
    def fill(key, rows, context):
        made, aside = {}, {}
        for row in rows:
            made["n"] = aside["n"] = row.n
            context.side_output("aside", aside)
            yield made

    out, more = emitted(
        fill,
        cut,
        state=rc.states.value_state("v INT"),
        schema="n BIGINT",
        side_outputs={"aside": "n BIGINT"},
        more={"aside": lambda made: made.side_output("aside")},
    )
    assert out == [{"n": 1}, {"n": 2}]
    assert more["aside"] == out


# Maps -----------------------------------------------------------------------------------------------------------


def test_a_map_counts_its_entries_as_a_dict_does():
    """Random writes of one key, also looked at in between, cut into timesteps at random."""
    random = Random(3)
    known: dict[str, int] = {}

    def work(key, rows, context):
        some = context.map("s")
        for row in rows:
            name = f"e{random.randrange(6)}"
            what = random.randrange(10)
            if what < 5:
                some[name] = known[name] = row.n
            elif what < 8:
                assert (some.pop(name, None) is None) == (known.pop(name, None) is None)
            elif what == 8 and random.random() < 0.1:
                some.clear()
                known.clear()
            if random.random() < 0.6:
                assert len(some) == len(known)
                assert (name in some) == (name in known)
        assert dict(some) == known
        yield str(len(some))

    cuts, n = [], 0
    while n < 600:
        size = random.randrange(1, 12)
        cuts.append(list(range(n, n + size)))
        n += size
    state = rc.states.map_state("entry STRING", "v BIGINT")
    out, _ = emitted(work, cuts, state=state)
    assert len(out) == len(cuts)
    assert len({row["said"] for row in out}) > 3


def test_to_count_after_each_entry_looks_through_them_once():
    looks = []

    class Watched(dict):
        def items(self):
            looks.append(len(self))
            return super().items()

    def count(key, rows, context):
        some = context.map("s")
        some._written[0] = Watched()
        for row in rows:
            some[f"e{row.n}"] = row.n
            assert len(some) == row.n + 1
        assert len(looks) == 1
        yield str(len(some))

    out, _ = emitted(count, [range(50)], state=rc.states.map_state("entry STRING", "v BIGINT"))
    assert out == [{"said": "50"}]


# Times ----------------------------------------------------------------------------------------------------------


def test_times_that_no_datetime_can_be_are_the_first_or_the_last_one():
    assert moment_of(-(2**62)) == FIRST
    assert moment_of(2**62) == LAST
    assert moment_of(0) == datetime(1970, 1, 1, tzinfo=UTC)
    assert FIRST.date() == date(1, 1, 1)


@pytest.mark.parametrize("ttl", ["9999999 days", 10**17, timedelta.max])
def test_a_time_to_live_longer_than_times_are_is_refused(ttl):
    with pytest.raises(rc.errors.DataflowError, match="ttl must be at most 10,000 years"):
        rc.states.value_state("v BIGINT", ttl=ttl)


@pytest.mark.parametrize("ttl", [0, -1, timedelta(microseconds=500), True, 1.5])
def test_a_time_to_live_is_a_length_of_time(ttl):
    with pytest.raises(rc.errors.DataflowError, match=r"ttl must be a timedelta, .* of at least 1"):
        rc.states.value_state("v BIGINT", ttl=ttl)
