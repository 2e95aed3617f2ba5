"""Rows that functions cannot handle leave as dead letters, exactly once; all others go on."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.evolution.evolution import stream_of
from rechannel.dataflow.pictures.text import draw_text
from rechannel.dataflow.streams.stream import Stream, dataflow_of
from rechannel.errors import DataflowError, UserFunctionError
from rechannel.settings import Settings
from rechannel.testing import Harness, script

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def text(*values):
    return [{"k": value[0], "v": value} for value in values]


def number(row):
    return row.k, int(row.v[1:])


def numbers(batch):
    values = pc.cast(pc.utf8_slice_codeunits(batch.column("v"), 1), pa.int64())
    return pa.record_batch({"k": batch.column("k"), "n": values})


def rows_of(harness, sink, timestep):
    table = harness.outputs(sink).get(timestep)
    return [] if table is None else sorted(tuple(row.values()) for row in table.to_pylist())


PARSED = "k STRING, n BIGINT"


@pytest.mark.parametrize(
    "make",
    [
        lambda rows: rows.map(number, PARSED, name="parse", on_error="dead_letter"),
        lambda rows: rows.flat_map(
            lambda row: [number(row)], PARSED, name="parse", on_error="dead_letter"
        ),
        lambda rows: rows.map_batches(numbers, PARSED, name="parse", on_error="dead_letter"),
        lambda rows: rows.filter(number, name="parse", on_error="dead_letter").map(number, PARSED),
    ],
    ids=["map", "flat_map", "map_batches", "filter"],
)
def test_rows_that_fail_leave_and_the_others_are_counted(make):
    rows = script("k STRING, v STRING")
    source = rc.read().memory(rows, name="rows")
    parsed = make(source)
    by_name = {"parse": parsed}
    node = parsed.node
    while node.name != "parse":
        node = node.upstream
    by_name["parse"] = Stream(node=node)
    ends = [
        parsed.key_by("k")
        .aggregate(total=agg.sum("n"), name="totals")
        .write.memory("out", name="out"),
        by_name["parse"].dead_letters.write.memory("dead", name="dead"),
    ]
    harness = Harness(ends, settings=Settings(tasks=2))
    harness.start()
    rows.push(text("a1", "b2", "ax", "a3"))
    harness.process.run()
    rows.push(text("b4", "a5"))
    harness.process.run()
    assert rows_of(harness, "out", 1) == [("a", 4), ("b", 2)]
    assert rows_of(harness, "out", 2) == [("a", 9), ("b", 6)]
    (letter,) = rows_of(harness, "dead", 1)
    assert (letter[0], json.loads(letter[2])) == ("parse", {"k": "a", "v": "ax"})
    assert "x" in letter[1]
    assert "\n" not in letter[1]
    assert rows_of(harness, "dead", 2) == []


def test_a_failing_row_of_flat_map_leaves_no_rows_and_answers_that_do_not_fit_are_dead_letters():
    def several(row):
        yield row.v, 1
        yield row.v, "two" if row.k == "b" else 2
        if row.k == "c":
            msg = "half way"
            raise LookupError(msg)

    rows = script("k STRING, v STRING", [text("a1", "b1", "c1", "a2")])
    parsed = rc.read().memory(rows, name="rows")
    parsed = parsed.flat_map(several, "v STRING, n INT", name="two", on_error="dead_letter")
    ends = [
        parsed.write.memory("out", name="out"),
        parsed.dead_letters.write.memory("dead", name="dead"),
    ]
    harness = Harness(ends)
    harness.start().run()
    assert rows_of(harness, "out", 1) == [("a1", 1), ("a1", 2), ("a2", 1), ("a2", 2)]
    unfit, raised = sorted(harness.outputs("dead")[1].to_pylist(), key=lambda row: row["row"])
    assert "field 'n' is declared int and got 'two'" in unfit["error"]
    assert raised["error"] == "LookupError: half way"


def test_dead_letters_are_a_stream_like_any_other_and_meet_in_one_sink():
    rows = script("k STRING, v STRING", [text("a1", "bx", "cy")])
    source = rc.read().memory(rows, name="rows")
    one = source.map(number, PARSED, name="one", on_error="dead_letter")
    two = one.filter(lambda row: 1 // (row.n - 1), name="two", on_error="dead_letter")
    dead = one.dead_letters.union(two.dead_letters)
    ends = [
        two.write.noop(),
        dead.write.memory("dead", name="dead"),
        dead.key_by("operator")
        .aggregate(n=agg.count(), name="told")
        .write.memory("counts", name="counts"),
    ]
    harness = Harness(ends)
    harness.start().run()
    assert [row[0] for row in rows_of(harness, "dead", 1)] == ["one", "one", "two"]
    assert rows_of(harness, "counts", 1) == [("one", 2), ("two", 1)]


def test_without_on_error_the_timestep_fails_and_names_the_row():
    rows = script("k STRING, v STRING", [text("a1", "bx")])
    parsed = rc.read().memory(rows, name="rows").map(number, PARSED, name="parse")
    harness = Harness(parsed.write.memory("out", name="out")).start()
    said = r"operator 'parse', timestep 1: number for Row\(k='b', v='bx'\) raised ValueError"
    with pytest.raises(UserFunctionError, match=said):
        harness.run()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda s: [s.map(number, PARSED, on_error="dead_letter").write.memory("o")],
            "no sink reads the dead letters of map 'rows.map-1'",
        ),
        (
            lambda s: [s.map(number, PARSED).dead_letters.write.memory("o")],
            "has no dead letters: give it on_error",
        ),
        (lambda s: [s.dead_letters.write.memory("o")], "source 'rows' .* has no dead letters"),
        (
            lambda s: [s.map(number, PARSED, on_error="drop").write.memory("o")],
            "on_error must be 'fail' or 'dead_letter', not 'drop'",
        ),
        (
            lambda s: [s.filter("k > 'a'", on_error="dead_letter").write.memory("o")],
            "only a function of a row has dead letters",
        ),
    ],
)
def test_what_is_refused(make, said):
    source = rc.read().memory(script("k STRING, v STRING"), name="rows")
    with pytest.raises(DataflowError, match=said):
        Harness(make(source))


def test_pictures_tell_of_dead_letters():
    source = rc.read().memory(script("k STRING, v STRING"), name="rows")
    parsed = source.map_batches(numbers, PARSED, name="parse", on_error="dead_letter")
    ends = (
        parsed.write.memory("out", name="out"),
        parsed.dead_letters.write.memory("dead", name="dead"),
    )
    picture = draw_text(dataflow_of(*ends))
    assert "map_batches numbers" in picture
    assert "dead letters" in picture


# State ------------------------------------------------------------------------------------------------------


def summed(key, state, rows):
    values = [int(v[1:]) for v in rows["v"]]
    total = sum(values) + (0 if state is None else state)
    return None if total == 0 else total


def summed_batches(frame):
    values = [int(v[1:]) for v in frame.rows["v"].to_pylist()]
    totals = frame.previous("n", 0).copy()
    for key, value in zip(frame.ids, values, strict=True):
        totals[key] += value
    return {"n": totals, "_drop": totals == 0}


def begun(key, row):
    if row.v == "c?":
        msg = "no beginning"
        raise LookupError(msg)
    return int(row.v[1:])


HOW = {
    "update": lambda keyed, **more: keyed.track(
        summed, state="n BIGINT", name="sums", on_error="dead_letter", **more
    ),
    "init_state": lambda keyed, **more: keyed.track(
        summed, init_state=begun, state="n BIGINT", name="sums", on_error="dead_letter", **more
    ),
    "batches": lambda keyed, **more: keyed.track_batches(
        summed_batches, state="n BIGINT", name="sums", on_error="dead_letter", **more
    ),
}


class Sums:
    """Sums by key that text spoils."""

    def __init__(self, how, *, store=None, **more):
        self.rows = script("k STRING, v STRING")
        sums = HOW[how](rc.read().memory(self.rows, name="rows").key_by("k"), **more)
        ends = [
            sums.write.memory("out", name="out"),
            sums.dead_letters.write.memory("dead", name="dead"),
        ]
        self.harness = Harness(ends, store=store, settings=Settings(tasks=3, bins=6))

    def feed(self, *values):
        self.rows.push(text(*values))
        self.harness.process.run()

    def dead(self, timestep):
        table = self.harness.outputs("dead")[timestep].to_pylist()
        return sorted(json.loads(row["row"])["v"] for row in table)


@pytest.mark.parametrize("how", HOW)
def test_a_key_that_fails_stays_as_it_was_and_others_go_on(how):
    bench = Sums(how)
    bench.harness.start()
    bench.feed("a1", "b2", "c3")
    bench.feed("a10", "bx", "b5", "dx", "c-3")
    assert rows_of(bench.harness, "out", 2) == [("a", 11)]
    assert bench.dead(2) == ["b5", "bx", "dx"]
    (first, *_) = bench.harness.outputs("dead")[2].to_pylist()
    assert first["operator"] == "sums"
    assert first["error"].startswith("ValueError: invalid literal")
    bench.feed("b7", "d1")
    assert rows_of(bench.harness, "out", 3) == [("b", 9), ("d", 1)]
    assert bench.dead(3) == []
    assert sorted(map(tuple, (r.values() for r in bench.harness.state("sums").to_pylist()))) == [
        ("a", 11),
        ("b", 9),
        ("d", 1),
    ]


def test_a_state_that_does_not_fit_is_a_failure_and_so_is_a_failing_beginning():
    rows = script("k STRING, v STRING", [text("a1", "b2", "c?", "d4")])
    keyed = rc.read().memory(rows, name="rows").key_by("k")
    sums = keyed.track(
        lambda key, state, rows: "two" if key == "b" else 1,
        init_state=lambda key, row: (row.v,) if key == "d" else begun(key, row),
        state="n BIGINT",
        name="sums",
        on_error="dead_letter",
    )
    plain = keyed.track(
        lambda key, state, rows: "two" if key == "b" else 1,
        state="n BIGINT",
        name="plain",
        on_error="dead_letter",
    )
    ends = [
        sums.write.memory("out", name="out"),
        plain.write.memory("plain-out", name="plain-out"),
        sums.dead_letters.union(plain.dead_letters).write.memory("dead", name="dead"),
    ]
    harness = Harness(ends, settings=Settings(tasks=2))
    harness.start().run()
    assert rows_of(harness, "out", 1) == [("a", 1), ("b", 2)]
    assert rows_of(harness, "plain-out", 1) == [("a", 1), ("c", 1), ("d", 1)]
    told = {(row[0], json.loads(row[2])["v"]): row[1] for row in rows_of(harness, "dead", 1)}
    assert told["sums", "c?"] == "LookupError: no beginning"
    assert "field 'n' is declared bigint and got ('d4',)" in told["sums", "d4"]
    assert "key 'b': field 'n' is declared bigint and got 'two'" in told["plain", "b2"]
    assert len(told) == 3


@pytest.mark.parametrize("fault", ["crash", "duplicate", "late"])
def test_what_runs_again_has_the_same_dead_letters_once(fault):
    faults = {}

    def once(operator, timestep, task, attempt):
        if timestep == 2 and attempt == 0 and faults.setdefault((operator, task), 0) == 0:
            faults[operator, task] = 1
            return fault
        return None

    bench = Sums("update")
    bench.harness.start(task_faults=once)
    bench.feed("a1", "b2")
    bench.feed("a10", "bx", "cx")
    assert bench.harness.injected[fault] > 0
    assert bench.dead(2) == ["bx", "cx"]
    assert rows_of(bench.harness, "out", 2) == [("a", 11)]


@pytest.mark.parametrize("time", ["processing", "event"])
def test_a_key_that_fails_keeps_its_timer(time):
    rows = script("k STRING, v STRING, at TIMESTAMP")
    stream = rc.read().memory(rows, name="rows").event_time("at")
    clock = {"now": 0}
    sums = stream.key_by("k").track(
        summed,
        state="n BIGINT",
        timeout="10 seconds",
        time=time,
        expired=lambda key, state: -state,
        name="sums",
        on_error="dead_letter",
    )
    ends = [
        sums.write.memory("out", name="out"),
        sums.dead_letters.write.memory("dead", name="dead"),
    ]
    harness = Harness(ends, settings=Settings(tasks=2), clock=lambda: clock["now"])
    harness.start()

    def step(second, *values):
        clock["now"] = second * 1_000
        at = EPOCH + timedelta(seconds=second)
        rows.push([{"k": value[0], "v": value, "at": at} for value in values])
        harness.process.run()
        last = max(harness.outputs("out"))
        return rows_of(harness, "out", last), len(rows_of(harness, "dead", last))

    assert step(1, "a1", "b2") == ([("a", 1), ("b", 2)], 0)
    assert step(8, "ax", "b3", "nx") == ([("b", 5)], 2)
    # The failing row at 8 s would have set the timer of `a` to 18 s: it goes off at 11 s.
    assert step(12, "c1") == ([("a", -1), ("c", 1)], 0)
    assert step(13, "ax") == ([], 1)


def test_readers_of_dead_letters_come_and_the_last_one_stays():
    bench = Sums("update")
    process = bench.harness.start()
    bench.feed("a1", "ax")
    node = stream_of(process.switch.current.program.dataflow, "sums")
    process.reconfigure(rc.changes.add(node.dead_letters.write.memory("more", name="more")))
    process.run()
    bench.feed("bx")
    assert [row[2] for row in rows_of(bench.harness, "more", 2)] == ['{"k": "b", "v": "bx"}']
    process.reconfigure(rc.changes.remove("dead"))
    process.run()
    bench.feed("cx")
    assert [row[2] for row in rows_of(bench.harness, "more", 3)] == ['{"k": "c", "v": "cx"}']
    assert 3 not in bench.harness.outputs("dead")
    with pytest.raises(DataflowError, match="no sink reads the dead letters of track 'sums'"):
        process.reconfigure(rc.changes.remove("more"))


def test_a_function_that_is_exchanged_still_has_dead_letters():
    rows = script("k STRING, v STRING")
    source = rc.read().memory(rows, name="rows")
    one = source.map(number, PARSED, name="one", on_error="dead_letter")
    two = source.map_batches(numbers, PARSED, name="two", on_error="dead_letter")
    ends = [
        one.union(two).write.memory("out", name="out"),
        one.dead_letters.union(two.dead_letters).write.memory("dead", name="dead"),
    ]
    harness = Harness(ends)
    process = harness.start()
    rows.push(text("a1"))
    process.run()
    other = [
        rc.changes.change_logic("one", lambda row: (row.k, -number(row)[1])),
        rc.changes.change_logic("two", lambda batch: numbers(batch)),  # noqa: PLW0108
    ]
    process.reconfigure(other)
    process.run()
    rows.push(text("a1", "ax"))
    process.run()
    assert rows_of(harness, "out", 2) == [("a", -1), ("a", 1)]
    assert [row[0] for row in rows_of(harness, "dead", 2)] == ["one", "two"]
