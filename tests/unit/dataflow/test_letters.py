"""`rc.dead_letters`: those of a whole dataflow, or of some operators, as one stream."""

from __future__ import annotations

import json

import pytest

import rechannel as rc
from rechannel.errors import DataflowError, UnknownOperatorError
from rechannel.settings import Settings
from rechannel.testing import Harness, script

TEXTS = "k STRING, v STRING"
PLACED = f"{TEXTS}, topic STRING, partition INT, offset BIGINT"


def parsed(rows, name):
    return rows.map(
        lambda row: (row.k, int(row.v)), "k STRING, n BIGINT", on_error="dead_letter", name=name
    )


def quiet(key, state, rows):
    if max(rows["n"]) > 100:
        msg = f"{key} is loud"
        raise ValueError(msg)
    return (state or 0) + sum(rows["n"])


def summed(numbers):
    keyed = numbers.key_by("k")
    return keyed.track(quiet, state="n BIGINT", name="sums", on_error="dead_letter")


def placed(*values):
    return [
        {"k": value[0], "v": value[1:], "topic": "t", "partition": 0, "offset": offset}
        for offset, value in enumerate(values)
    ]


def letters(harness, sink, timestep):
    table = harness.outputs(sink).get(timestep)
    rows = [] if table is None else table.to_pylist()
    return sorted(rows, key=lambda row: (row["operator"], row["row"]))


def test_all_dead_letters_of_a_dataflow_go_to_one_sink_with_where_they_are_from():
    rows = script(PLACED)
    out = summed(parsed(rc.read().memory(rows, name="in"), "parse")).write.memory("out")
    dead = rc.dead_letters(out).write.memory("dead", name="dead")
    harness = Harness([out, dead], settings=Settings(tasks=2))
    process = harness.start()
    rows.push(placed("a1", "bx", "c101"))
    process.run()
    rows.push(placed("d1", "by"))
    process.run()
    parse, sums = letters(harness, "dead", 1)
    assert json.loads(parse["row"])["v"] == "x"
    assert json.loads(parse["offset"]) == {"topic": "t", "partition": 0, "offset": 1}
    assert (parse["operator"], parse["at_timestep"], parse["source"]) == ("parse", 1, "in")
    assert (sums["operator"], sums["at_timestep"], sums["source"]) == ("sums", 1, "in")
    assert (sums["error"], sums["offset"]) == ("ValueError: c is loud", None)
    (later,) = letters(harness, "dead", 2)
    assert (later["operator"], later["at_timestep"]) == ("parse", 2)


def test_those_of_one_operator_beside_those_that_are_read_already():
    rows = script(PLACED, [placed("a1", "bx", "c101")])
    numbers = parsed(rc.read().memory(rows, name="in"), "parse")
    out = summed(numbers).write.memory("out")
    ends = [
        out,
        numbers.dead_letters.write.memory("short", name="short"),
        rc.dead_letters(out, of="sums").write.memory("dead", name="dead"),
        rc.dead_letters(out, of=["sums", "parse", "sums"]).write.memory("both", name="both"),
    ]
    harness = Harness(ends)
    harness.start().run()
    assert [row["operator"] for row in letters(harness, "dead", 1)] == ["sums"]
    assert [row["operator"] for row in letters(harness, "both", 1)] == ["parse", "sums"]
    (short,) = letters(harness, "short", 1)
    assert list(short) == ["operator", "error", "row"]


def test_the_source_is_named_where_only_one_can_be_meant():
    left, right = (script(TEXTS, [[{"k": k, "v": "x"}]]) for k in "lr")
    both = rc.read().memory(left, name="l").union(rc.read().memory(right, name="r"))
    numbers = parsed(both, "parse")
    again = parsed(both.key_by("k").latest(name="latest"), "again")
    ends = [numbers.write.memory("one"), again.write.memory("two")]
    harness = Harness([*ends, rc.dead_letters(*ends).write.memory("dead", name="dead")])
    harness.start().run()
    got = letters(harness, "dead", 1)
    assert [(row["operator"], row["source"]) for row in got] == [
        ("again", None),
        ("again", None),
        ("parse", "l"),
        ("parse", "r"),
    ]


def test_a_file_sink_takes_them():
    out = parsed(rc.read().memory(script(TEXTS), name="in"), "parse").write.memory("out")
    Harness([out, rc.dead_letters(out).write.parquet("dead")])


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (rc.dead_letters, DataflowError, "no operator of this dataflow has"),
        (lambda rows: rc.dead_letters(rows.write), DataflowError, "not in Writer"),
        (
            lambda rows: rc.dead_letters(parsed(rows, "parse"), of=()),
            DataflowError,
            "of= names no operator",
        ),
        (
            lambda rows: rc.dead_letters(parsed(rows, "parse"), of="parsed"),
            UnknownOperatorError,
            "no operator 'parsed'.*'parse'",
        ),
        (
            lambda rows: rc.dead_letters(parsed(rows, "parse"), of="in"),
            DataflowError,
            "has no dead letters: give it on_error",
        ),
    ],
)
def test_what_is_refused(make, error, said):
    rows = rc.read().memory(script(TEXTS), name="in")
    with pytest.raises(error, match=said):
        make(rows)
