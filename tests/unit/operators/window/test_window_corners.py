"""Corners of windows: what a user may well write, and what a column may well hold."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import DataflowError
from rechannel.testing import Harness, script
from tests.support.reports import reports_in

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TEN = rc.windows.tumbling("10 seconds")


def row(k, seconds, v):
    return {"k": k, "t": EPOCH + timedelta(seconds=seconds), "v": v}


LATE = ([row("a", 1, 1)], [row("b", 25, 4)], [row("a", 2, 2)])
"""The third timestep's row is late for windows of 10 s."""


def keyed(*timesteps, partitions=1):
    rows = script("k STRING, t TIMESTAMP, v BIGINT", timesteps, partitions=partitions)
    stream = rc.read().memory(rows, name="rows")
    return stream.event_time("t").key_by("k")


def shown(stream, *, late=False):
    ends = [stream.write.memory("out", name="out")]
    if late:
        ends.append(stream.late.write.memory("late", name="late"))
    harness = Harness(ends)
    harness.start().run()
    out = harness.output("out").to_pylist()
    return (out, harness.output("late").to_pylist()) if late else out


def add(one, other):
    return pa.RecordBatch.from_arrays([pc.add(one["v"], other["v"])], names=["v"])


def subtract(one, other):
    return pa.RecordBatch.from_arrays([pc.subtract(one["v"], other["v"])], names=["v"])


def test_reduce_of_windows_that_are_shown_early():
    rows = keyed([row("a", 1, 1)], [row("a", 2, 2)], [row("a", 25, 4)])
    windows = rows.window(TEN, emit=rc.every(1)).reduce(add, name="w")
    assert [each["v"] for each in shown(windows) if each["window_start"] == EPOCH][-1] == 3


@pytest.mark.parametrize(
    "window", [TEN, rc.windows.sliding("10 seconds", "5 seconds"), rc.windows.sessions(9_000)]
)
def test_an_aggregate_of_a_key_with_somebody_who_wants_late_rows(window):
    made = keyed(*LATE).window(window).aggregate(most=agg.max("k"), n=agg.count("k"), name="w")
    out, late = shown(made, late=True)
    assert {(each["k"], each["most"]) for each in out} == {("a", "a")}
    assert [each["v"] for each in late] == [2]


@pytest.mark.parametrize("how", ["aggregate", "apply_batches"])
def test_rows_late_for_the_window_that_they_came_with_still_have_it(how):
    starts = keyed(*LATE).window(TEN).aggregate(n=agg.count(), name="counts").key_by("k")
    windows = starts.window(rc.windows.same_window())
    made = (
        windows.aggregate(total=agg.sum("n"), name="w")
        if how == "aggregate"
        else windows.apply_batches(lambda frame: {"rows": frame.sizes}, "rows BIGINT", name="w")
    )
    _, late = shown(made, late=True)
    assert not late
    assert "window_start" in made.late.schema.names


@pytest.mark.parametrize("emit", ["on_update", rc.every("1 second")])
@pytest.mark.parametrize(
    ("window", "on"),
    [
        (rc.windows.same_window(), None),
        (rc.windows.tumbling("20 seconds"), "window_end"),
        (rc.windows.sessions("1 minute"), "window_end"),
    ],
)
def test_windows_of_windows_that_are_shown_again_are_refused(emit, window, on):
    counts = keyed(*LATE).window(TEN, emit=emit).aggregate(n=agg.count(), name="counts")
    windows = counts.key_by("k").window(window, time_column=on)
    with pytest.raises(DataflowError, match="would count them twice"):
        windows.aggregate(total=agg.sum("n"), name="w")


@pytest.mark.parametrize(
    "make",
    [
        lambda: keyed().window(TEN, lateness=timedelta.max),
        lambda: rc.windows.sliding("10000000 weeks", "1 week"),
        lambda: rc.windows.tumbling("20000000000 weeks"),
        lambda: rc.windows.sessions(timedelta(weeks=15_250_200)),
    ],
)
def test_lengths_of_time_have_an_end(make):
    with pytest.raises(DataflowError, match="at most 10,000 years"):
        make()


def test_sessions_need_a_key():
    stream = rc.read().memory(script("k STRING, t TIMESTAMP, v BIGINT")).event_time("t")
    with pytest.raises(DataflowError, match="sessions need a key"):
        stream.window(rc.windows.sessions("1 minute")).reduce(add)


def test_nanoseconds_are_whole_microseconds_rounded_down():
    schema = pa.schema([("k", pa.string()), ("t", pa.timestamp("ns", "UTC")), ("v", pa.int64())])
    source = script(schema)
    for times in ([-1, 999, 1_000_000_001], [None, 10_000_000_001]):
        columns = [pa.array(["a"] * len(times)), pa.array(times, schema.field("t").type)]
        numbers = pa.array(np.arange(len(times)))
        source.push(pa.RecordBatch.from_arrays([*columns, numbers], schema=schema))
    rows = rc.read().memory(source, name="rows").event_time("t").key_by("k")
    out = shown(rows.window(TEN).aggregate(n=agg.count(), name="w"))
    assert [(each["window_start"], each["n"]) for each in out] == [
        (EPOCH - timedelta(seconds=10), 1),
        (EPOCH, 2),
    ]


def test_rows_that_wait_for_a_function_are_not_read_when_others_come():
    rows = keyed(*([row("a", number, number)] for number in range(9)), [row("a", 60, 0)])
    made = rows.window(TEN).apply_batches(lambda f: {"rows": f.sizes}, "rows BIGINT", name="w")
    harness = Harness([made.write.memory("out", name="out")])
    harness.start()
    told, run = [], harness.process.runner.run
    harness.process.runner.run = lambda *a: told.extend(reports_in(found := run(*a))) or found
    harness.process.run()
    counts = [report.costs.counts for report in told if report.operator == "w"]
    assert sum(each["keys_found"] for each in counts) == 0
    assert harness.output("out").column("rows").to_pylist() == [9]


def test_a_default_of_another_type_is_refused():
    with pytest.raises(DataflowError, match=r"default=1\.5 is not a value"):
        Harness([keyed().running(before=agg.lag("v", default=1.5)).write.memory("out")])


@pytest.mark.parametrize("inverse", [None, subtract])
def test_reduce_of_rows_that_come_to_one_pane_and_another_in_turn(inverse):
    turns = [row("a", second, 1 << place) for place, second in enumerate((1, 6, 2, 7, 3))]
    rows = keyed(turns, [row("a", 99, 0)], partitions=3)
    sliding = rows.window(rc.windows.sliding("10 seconds", "5 seconds"))
    out = shown(sliding.reduce(add, inverse=inverse, name="w"))
    assert [each["v"] for each in out if each["window_end"].second < 30] == [21, 31, 10]
