"""Event time and windows as users write them: what is accepted, what is refused, where time comes from."""

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.evolution.difference import refusal
from rechannel.dataflow.evolution.evolution import with_logic
from rechannel.dataflow.graph.nodes import MapBatches, Stateful
from rechannel.dataflow.graph.timing import time_inputs, time_names
from rechannel.dataflow.pictures.text import draw_text
from rechannel.dataflow.streams.stream import dataflow_of
from rechannel.errors import DataflowError, RefusedError, UnknownColumnError
from rechannel.model.eventtime import TimeInput
from rechannel.testing import script

BIDS = "auction BIGINT, price BIGINT, at TIMESTAMP"


def bids(name="bids", columns=BIDS):
    return rc.read().memory(script(columns), name=name)


def counted(stream, **options):
    windows = stream.key_by("auction").window(rc.windows.tumbling("10 seconds"), **options)
    return windows.aggregate(n=agg.count(), name="counts")


def test_columns_are_keys_window_and_aggregates():
    counts = counted(bids().event_time("at"))
    assert counts.schema.names == ["auction", "window_start", "window_end", "n"]
    assert counts.late.schema.names == ["auction", "price", "at"]


def test_time_comes_from_where_it_was_declared_last():
    stream = (
        bids().event_time("at", "1 minute", name="first").event_time("at", 5, idle=7, name="second")
    )
    counts = counted(stream)
    assert time_inputs(counts.node) == (TimeInput(name="second", delay_us=5_000, idle_ms=7),)
    again = counts.key_by("n").window(rc.windows.tumbling("1 hour"), time_column="window_start")
    top = again.aggregate(most=agg.max("auction"), name="top")
    assert time_inputs(top.node) == (TimeInput(name="counts"),)
    assert time_names(top.node) == ("top",)
    assert time_names(counts.late.node) == ()


def test_every_input_counts_once():
    one, two = (bids(n).event_time("at", name=f"time-{n}") for n in ("x", "y"))
    both = one.union(two, one)
    assert time_names(both.node) == ("time-x", "time-y")
    node = counted(both).node
    assert isinstance(node, Stateful)
    assert [each.name for each in time_inputs(node)] == ["time-x", "time-y"]


def test_operators_without_windows_hand_event_time_on():
    totals = (
        bids().event_time("at", name="t").key_by("auction").aggregate(n=agg.count(), name="totals")
    )
    assert time_names(totals.node) == ("totals",)
    plain = bids().key_by("auction").aggregate(n=agg.count(), name="plain")
    assert time_names(plain.node) == ()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bids().event_time("when"), "no event-time column 'when'; the columns are auction"),
        (lambda: bids().event_time("price"), "must be timestamps, but column 'price' is bigint"),
        (lambda: bids().event_time("at", "soon"), "delay must be a timedelta, a string"),
        (lambda: bids().event_time("at", -1), "delay must be a timedelta"),
        (lambda: bids().event_time("at", idle=0), "idle must be a timedelta"),
        (lambda: rc.windows.tumbling(0), "size of a window must be a timedelta"),
        (lambda: counted(bids()), "needs a column of event times"),
        (lambda: counted(bids(), time_column="at"), "'bids' get there without one: call stream.event_time"),
        (lambda: counted(bids().event_time("at").union(bids("others")), time_column="at"), "'others' get there"),
        (lambda: counted(bids().event_time("at"), time_column="price"), "must be timestamps"),
        (lambda: counted(bids().event_time("at"), emit="never"), "emit must be 'on_close', 'on_update' or rc.every"),
        (lambda: counted(bids().event_time("at"), lateness="a bit"), "lateness must be a timedelta"),
        (
            lambda: bids(columns=BIDS + ", window_end INT").event_time("at").key_by("window_end").window(
                rc.windows.tumbling(5)
            ).aggregate(n=agg.count()),
            "key 'window_end' has the name of a window's column",
        ),
        (
            lambda: bids().event_time("at").key_by("auction").window(rc.windows.tumbling(5)).aggregate(
                window_end=agg.count()
            ),
            "the name of the window's end",
        ),
        (lambda: bids().late, "source 'bids' .* has no late rows"),
        (lambda: bids().key_by("auction").aggregate(n=agg.count()).late, "has no late rows"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(DataflowError, match=message):
        dataflow_of(make())


def test_a_missing_column_is_an_unknown_column():
    with pytest.raises(UnknownColumnError):
        dataflow_of(bids().event_time("when"))


@pytest.mark.parametrize(
    ("size", "options"),
    [
        ("5 seconds", {}),
        (rc.windows.tumbling("10 seconds", "1 second"), {}),
        ("10 seconds", {"lateness": 5}),
    ],
)
def test_windows_of_a_running_operator_stay(size, options):
    window = rc.windows.tumbling(size) if isinstance(size, str) else size
    keyed = bids().event_time("at").key_by("auction")
    other = keyed.window(window, **options).aggregate(n=agg.count(), name="counts")
    text = refusal(counted(bids().event_time("at")).node, other.node)
    assert text is not None
    assert "its windows cannot change" in text
    assert (
        refusal(counted(bids().event_time("at")).node, counted(bids().event_time("at")).node)
        is None
    )


def test_nodes_without_a_function_of_the_user_have_none_to_replace():
    counts = counted(bids().event_time("at", name="time"))
    dataflow = dataflow_of(counts.write.memory("out"), counts.late.write.memory("late"))
    names = [n.name for n in dataflow.nodes if isinstance(n, MapBatches)]
    assert len(names) == 3
    for name in names:
        with pytest.raises(RefusedError, match="runs no function of yours"):
            with_logic(dataflow, name, lambda batch: batch)


def test_aggregates_of_windows_can_be_replaced_by_name():
    dataflow = dataflow_of(counted(bids().event_time("at")).write.memory("out"))
    changed = with_logic(dataflow, "counts", {"n": agg.count(), "most": agg.max("price")})
    (node,) = (n for n in changed.nodes if isinstance(n, Stateful))
    assert list(node.spec.aggregates.aggregates) == ["n", "most"]
    with pytest.raises(RefusedError, match="runs aggregates by name"):
        with_logic(dataflow, "counts", len)


def test_pictures_say_what_windows_there_are():
    counts = counted(bids().event_time("at"))
    text = draw_text(dataflow_of(counts.write.memory("out"), counts.late.write.memory("late")))
    for part in ("event time at", "windows of 10 s", "window by auction", "late rows"):
        assert part in text
