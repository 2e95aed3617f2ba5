"""Expectations on a stream: rows that do not meet them stay, leave or fail the job, and are counted."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest

import rechannel as rc
from rechannel.dataflow.pictures.text import draw_text
from rechannel.dataflow.streams.stream import dataflow_of
from rechannel.errors import (
    DataflowError,
    RefusedError,
    TooManyBadRowsError,
    UnknownColumnError,
    UserFunctionError,
)
from rechannel.settings import Settings
from rechannel.telemetry.facts import BadRows
from rechannel.testing import Harness, script

SMALL = rc.expectations.between("n", 0, 9)
KNOWN = rc.expectations.not_null("k")


def read(rows):
    return rc.read().memory(rows, name="in")


def push(source, *pairs):
    source.push([{"k": k, "n": n} for k, n in pairs])


def numbers(harness, sink, timestep):
    table = harness.outputs(sink).get(timestep)
    return [] if table is None else sorted(table.column("n").to_pylist())


def test_expect_counts_and_keeps_and_expect_or_drop_lets_rows_leave(tmp_path):
    source = script("k STRING, n INT")
    counted = read(source).expect(small=SMALL, known=KNOWN, name="watch")
    kept = counted.expect_or_drop(
        small=SMALL, even=lambda b: pc.equal(pc.bit_wise_and(b["n"], 1), 0), name="check"
    )
    out = kept.write.memory("out", name="out")
    flows = [out, rc.dead_letters(out).write.memory("dead", name="dead")]
    job = rc.Job("expect", flows, state=tmp_path).start(in_process=rc.InProcess())
    push(source, ("a", 2), (None, 4), ("b", 30), ("c", 3))
    job.process_all_available()
    push(source, ("a", 6))
    job.process_all_available()
    job.stop()
    assert sorted(job.memory("out").column("n").to_pylist()) == [2, 4, 6]
    letters = sorted(job.memory("dead").to_pylist(), key=lambda row: row["row"])
    assert [row["operator"] for row in letters] == ["check", "check"]
    assert [row["error"].partition(" is not met")[0] for row in letters] == [
        "expectation 'small'",
        "expectation 'even'",
    ]
    assert job.status.bad_rows == {
        "watch": BadRows(rows=5, bad=2, failed={"small": 1, "known": 1}),
        "check": BadRows(rows=5, bad=2, failed={"small": 1, "even": 1}),
    }
    assert job.last_progress.bad_rows["watch"] == BadRows(
        rows=1, bad=0, failed={"small": 0, "known": 0}
    )


def test_expect_or_fail_fails_the_timestep():
    source = script("k STRING, n INT")
    out = read(source).expect_or_fail(small=SMALL, name="check").write.memory("out", name="out")
    harness = Harness(out)
    process = harness.start()
    push(source, ("a", 1))
    process.run()
    push(source, ("a", 1), ("b", 10))
    said = r"operator 'check', timestep 2: 1 of 2 rows do not meet the expectations \(small: 1\)"
    with pytest.raises(UserFunctionError, match=said):
        process.run()
    assert list(harness.outputs("out")) == [1]


@pytest.mark.parametrize("drops", [False, True])
def test_a_bound_on_rows_that_do_not_meet_them(drops):
    source = script("k STRING, n INT")
    bound = rc.at_most(rows=2, timesteps=2)
    stream = read(source)
    expect = stream.expect_or_drop if drops else stream.expect
    checked = expect(small=SMALL, name="check", bound=bound)
    out = checked.write.memory("out", name="out")
    dead = [rc.dead_letters(out).write.memory("dead", name="dead")] if drops else []
    harness = Harness([out, *dead], settings=Settings(tasks=2))
    process = harness.start()
    for bad in (2, 0, 1):
        push(source, ("a", 1), *(("b", 20 + n) for n in range(bad)))
        process.run()
    assert numbers(harness, "out", 1) == ([1] if drops else [1, 20, 21])
    push(source, ("a", 1), ("b", 30), ("c", 31))
    said = r"'check', timestep 4: 3 of 5 rows \(60 %\).*One of them: \{\"k\": \"b\", \"n\": 30\}: expectation 'small'"
    with pytest.raises(TooManyBadRowsError, match=said):
        harness.start().run()


def test_what_is_refused():
    stream = read(script("k STRING, n INT"))
    with pytest.raises(DataflowError, match=r"expect \(.*name at least one expectation"):
        stream.expect()
    with pytest.raises(DataflowError, match=r"small must be one of rc.expectations, or a function"):
        stream.expect(small="n < 10")
    with pytest.raises(DataflowError, match=r"bound must be rc.at_most\(...\), not 3"):
        stream.expect(small=SMALL, bound=3)
    with pytest.raises(UnknownColumnError, match="price"):
        Harness(stream.expect(p=rc.expectations.not_null("price")).write.memory("out"))
    with pytest.raises(DataflowError, match="no sink reads the dead letters of map 'check'"):
        Harness(stream.expect_or_drop(small=SMALL, name="check").write.memory("out"))
    with pytest.raises(DataflowError, match="has no dead letters"):
        _ = stream.expect(small=SMALL).dead_letters


def test_pictures_show_them_and_a_live_change_does_not_replace_them():
    source = script("k STRING, n INT")
    out = read(source).expect_or_fail(small=SMALL, known=KNOWN, name="check").write.memory("out")
    assert "expect small, known or fail" in draw_text(dataflow_of(out))
    process = Harness(out).start()
    with pytest.raises(RefusedError, match="runs no function of yours"):
        process.reconfigure(rc.changes.change_logic("check", lambda batch: batch))
