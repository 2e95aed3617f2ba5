"""Rows that functions cannot handle leave as dead letters, exactly once; all others go on."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rechannel as rc
from rechannel.dataflow.stream import dataflow_of
from rechannel.errors import DataflowError, UserFunctionError
from rechannel.settings import Settings
from rechannel.testing import Harness, script


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
    by_name["parse"] = rc.dataflow.stream.Stream(node=node)
    ends = [
        parsed.key_by("k")
        .aggregate(total=rc.sum("n"), name="totals")
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
        .aggregate(n=rc.count(), name="told")
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
    with pytest.raises(UserFunctionError, match=r"number for Row\(k='b', v='bx'\)"):
        harness.run()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda s: [s.map(number, PARSED, on_error="dead_letter").write.memory("o")],
            "nobody reads the dead letters of map 'rows.map-1'",
        ),
        (
            lambda s: [s.map(number, PARSED).dead_letters.write.memory("o")],
            "has no dead letters: give it on_error",
        ),
        (lambda s: [s.dead_letters.write.memory("o")], "source 'rows' .* has no dead letters"),
        (
            lambda s: [s.map(number, PARSED, on_error="drop").write.memory("o")],
            "on_error is 'fail' or 'dead_letter', not 'drop'",
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
    from rechannel.dataflow.picture import draw_text

    picture = draw_text(dataflow_of(*ends))
    assert "map_batches numbers" in picture
    assert "dead letters" in picture
