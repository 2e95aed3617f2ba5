"""What differs between dataflows, and dataflows made from a running one."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rechannel as rc
from rechannel.dataflow.checks.check import check
from rechannel.dataflow.evolution.difference import Difference, differences
from rechannel.dataflow.evolution.evolution import stream_of, with_branch, with_logic, without
from rechannel.dataflow.graph.nodes import Dataflow, Stateful
from rechannel.dataflow.graph.schema import known
from rechannel.dataflow.identity.logic import function_of
from rechannel.dataflow.streams.aggregates import count, sum
from rechannel.dataflow.streams.reader import read
from rechannel.dataflow.streams.stream import dataflow_of
from rechannel.errors import (
    DataflowError,
    DuplicateNameError,
    RefusedError,
    UnknownColumnError,
    UnknownOperatorError,
)
from rechannel.kernels.functions.row_functions import RowFilter, RowFlatMap, RowMap
from rechannel.model.ddl import schema_of
from rechannel.operators.aggregate.spec import AggregateSpec, ReduceSpec
from rechannel.operators.process.track_spec import TrackBatchesSpec, TrackSpec
from rechannel.testing import script
from tests.support.flights import flights, same


def late(row: Any) -> bool:
    return row.dep_delay > 10


def very_late(row: Any) -> bool:
    return row.dep_delay > 60


def follow(key: Any, state: Any, rows: Any) -> int:
    return (state or 0) + len(rows)


def follow_on(key: Any, state: Any, rows: Any) -> int:
    return (state or 0) + 2 * len(rows)


def running(**more: Any) -> Dataflow:
    """flights -> late -> counts -> out, and seen -> seen.noop beside it."""
    stated = {"condition": late, "keys": ("carrier",), "timeout": None, "aggregates": {}, **more}
    delayed = flights().filter(stated["condition"], name="late")
    keyed = delayed.key_by(*stated["keys"])
    counts = keyed.aggregate({"n": count(), **stated["aggregates"]}, name="counts")
    seen = flights_of(delayed).key_by("origin")
    tracked = seen.track(follow, state="n INT", name="seen", timeout=stated["timeout"])
    return dataflow_of(counts.write.parquet("out", name="out"), tracked.write.noop(name="end"))


def flights_of(stream: Any) -> Any:
    return stream.map_batches(same, name="again")


# Differences ---------------------------------------------------------------------------------------


def test_a_dataflow_written_twice_is_the_same():
    found = differences(running(), running())
    assert not found
    assert found == Difference()
    found.check()


def test_other_logic_and_what_is_behind_it():
    found = differences(running(), running(condition=very_late))
    assert found == Difference(
        logic_changed=("late",), affected=("late", "counts", "out", "again", "seen", "end")
    )


def test_other_aggregates_describe_other_state():
    found = differences(running(), running(aggregates={"d": sum("distance")}))
    assert found.logic_changed == found.restated == ("counts",)
    assert found.affected == ("counts", "out")


def test_with_columns_types_of_state_count():
    def reducing(distance: str) -> Dataflow:
        rows = read().memory(f"k STRING, distance {distance}", name="rows")
        return dataflow_of(rows.key_by("k").running_reduce(lambda a, b: b, name="last"))

    def schemas(dataflow: Dataflow) -> dict[str, pa.Schema]:
        return {node.name: known(node) for node in dataflow.nodes}

    old, new = reducing("INT"), reducing("BIGINT")
    assert differences(old, new).restated == ()
    found = differences(old, new, old_schemas=schemas(old), new_schemas=schemas(new))
    assert found.restated == ("last",)
    assert found


def test_nodes_that_come_go_and_are_wired_otherwise():
    stream = flights().filter(late, name="late")
    counts = stream.key_by("carrier").aggregate(n=count(), name="counts")
    old = dataflow_of(counts.write.parquet("out", name="out"))
    between = stream.map_batches(same, name="between")
    moved = between.key_by("carrier").aggregate(n=count(), name="counts")
    new = dataflow_of(moved.write.parquet("out", name="out"), between.write.noop(name="new"))

    found = differences(old, new)
    assert (found.added, found.removed) == (("between", "new"), ())
    assert found.rewired == ("counts",)
    assert found.affected == ("between", "counts", "out", "new")
    assert differences(new, old).removed == ("between", "new")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"keys": ("origin",)}, "keys cannot change from carrier to origin.*another name"),
        ({"keys": ("carrier", "origin")}, "keys cannot change"),
    ],
)
def test_keys_do_not_change(more, reason):
    found = differences(running(), running(**more))
    (refusal,) = found.refusals
    with pytest.raises(RefusedError, match=reason):
        found.check()
    assert "aggregate 'counts' (" in refusal


def test_a_timeout_is_logic():
    assert differences(running(timeout=3), running(timeout=5)).logic_changed == ("seen",)
    assert differences(running(timeout=3), running(timeout=5)).restated == ()
    assert differences(running(), running(timeout=3)).restated == ("seen",)


def test_what_is_kept_under_a_name_does_not_change():
    def flow(place: str = "out", source: str = "in", kind: str = "sink") -> Dataflow:
        rows = read().files(f"{source}/*.parquet", schema="a INT", name="rows")
        if kind == "sink":
            return dataflow_of(rows.write.parquet(place, name="x"))
        if kind == "console":
            return dataflow_of(rows.write.console(name="x"))
        if kind == "reduce":
            return dataflow_of(rows.key_by("a").aggregate(n=count(), name="x"))
        return dataflow_of(rows.map_batches(same, name="x").write.noop(name="y"))

    assert "sink 'x'" in differences(flow(), flow("other")).refusals[0]
    assert "what was published is kept" in differences(flow(), flow("other")).refusals[0]
    assert "offsets are kept" in differences(flow(), flow(source="else")).refusals[0]
    assert "cannot take the place of" in differences(flow(), flow(kind="reduce")).refusals[0]
    assert "cannot take the place of" in differences(flow(), flow(kind="map")).refusals[0]
    assert "it was parquet out" in differences(flow(), flow(kind="console")).refusals[0]
    assert not differences(flow(kind="console"), flow(kind="console"))


def test_how_a_source_is_read_does_not_change():
    """Its reader stays open: it would go on as before, until a restart."""

    def files(**how):
        schema = how.pop("schema", "a INT")
        rows = read().files("in/*.parquet", schema=schema, name="rows", **how)
        return dataflow_of(rows.write.noop(name="x"))

    def numbers(function):
        rows = read().generator(function, schema="a BIGINT", rows=9, name="rows")
        return dataflow_of(rows.write.noop(name="x"))

    def up(start, stop):
        return pa.record_batch({"a": list(range(start, stop))})

    def same_named(start, stop):
        return pa.record_batch({"a": list(range(start, stop))[::-1]})

    same_named.__name__ = "up"
    for one, two, what in (
        (files(), files(per_timestep=7), "per_timestep"),
        (files(), files(schema="a INT, b INT"), "schema"),
        (numbers(up), numbers(same_named), "function"),
    ):
        (refusal,) = differences(one, two).refusals
        assert f"cannot change while the job runs, and {what} would" in refusal
        assert not differences(one, one)
    assert not differences(files(per_timestep=7), files(per_timestep=7))
    assert not differences(numbers(up), numbers(up))


RATES = {"eur": 1}


def converted(one: Any, other: Any) -> Any:
    return pc.add(one, other) if RATES else other


def test_a_function_of_a_window_whose_digest_is_not_complete_is_the_same():
    def windows(function, emit):
        rows = read().memory(script("k INT, v INT, at TIMESTAMP"), name="rows").event_time("at")
        made = rows.key_by("k").window(rc.windows.tumbling("1 s"), emit=emit)
        return dataflow_of(made.reduce(function, name="x").write.noop(name="y"))

    before = windows(converted, "on_close")
    assert not differences(before, windows(converted, "on_close")).refusals
    other = differences(before, windows(min, "on_close")).refusals
    assert "combined with the present function" in other[0]


def test_what_a_source_holds_while_it_runs_is_no_setting():
    def flow(source):
        return dataflow_of(source.write.noop(name="x"))

    busy = script("k INT")
    busy.push([{"k": 1}])
    assert not differences(
        flow(read().memory(busy, name="rows")), flow(read().memory(script("k INT"), name="rows"))
    )
    handed = read().handover("k INT", name="rows")
    handed.node.connector.handover.put(1, "a batch")
    assert not differences(flow(handed), flow(read().handover("k INT", name="rows")))


def test_kinds_of_operators_do_not_change():
    keyed = flights().key_by("carrier")
    old = dataflow_of(keyed.aggregate(n=count(), name="x"))
    new = dataflow_of(keyed.track(follow, state="n INT", name="x"))
    assert "aggregate cannot become track" in differences(old, new).refusals[0]


def test_what_a_digest_cannot_read_is_told_by_identity():
    lock = threading.Lock()

    def make() -> Any:
        return lambda batch: (lock, batch)[1]

    one, two = make(), make()
    stream = flights()
    old = dataflow_of(stream.map_batches(one, name="m").write.noop(name="end"))
    same_one = dataflow_of(stream.map_batches(one, name="m").write.noop(name="end"))
    other = dataflow_of(stream.map_batches(two, name="m").write.noop(name="end"))
    assert not differences(old, same_one)
    assert differences(old, other).logic_changed == ("m",)


# Other logic ---------------------------------------------------------------------------------------


def test_a_changed_node_and_all_behind_it_are_new_and_the_others_are_not():
    old = running()
    new = with_logic(old, "late", very_late)

    assert list(new.by_name) == list(old.by_name)
    assert new.by_name["flights"] is old.by_name["flights"]
    assert new.by_name["late"].function.function is very_late
    assert new.by_name["out"] is not old.by_name["out"]
    assert new.by_name["out"].where == old.by_name["out"].where
    assert new.by_name["late"].where != old.by_name["late"].where
    assert new.by_name["counts"].upstream is new.by_name["late"]
    assert differences(old, new).logic_changed == ("late",)
    check(new)


def test_names_that_were_derived_stay():
    stream = flights().map_batches(same).map_batches(same)
    old = dataflow_of(stream.write.console(), stream.write.console())
    new = with_logic(old, "flights.map_batches-1", lambda batch: batch)
    assert list(new.by_name) == list(old.by_name)


def test_every_kind_of_function_can_be_replaced():
    rows = flights()
    mapped = rows.map(lambda row: row.carrier, "c STRING", name="map")
    flat = rows.flat_map(lambda row: [row.carrier], "c STRING", name="flat_map")
    batches = rows.map_batches(same, name="batches")
    frames = rows.transform(lambda df: df, name="frames")
    sql = rows.filter("distance > 1", name="sql")
    reduced = rows.key_by("carrier").running_reduce(lambda a, b: b, name="reduce")
    tracked = rows.key_by("carrier").track(follow, state="n INT", name="track")
    ends = [mapped, flat, batches, frames, sql, reduced, tracked]
    flow = dataflow_of(*(end.write.noop() for end in ends))

    function = lambda *given: given  # noqa: E731
    assert with_logic(flow, "batches", function).by_name["batches"].function is function
    assert with_logic(flow, "frames", function).by_name["frames"].function is function
    assert with_logic(flow, "sql", function).by_name["sql"].function is function
    assert with_logic(flow, "sql", "a > 2").by_name["sql"].function.condition == "a > 2"
    node = with_logic(flow, "map", function).by_name["map"]
    assert isinstance(node.function, RowMap)
    assert node.function.schema == node.schema == schema_of("c STRING")
    node = with_logic(flow, "map", function, schema="d INT").by_name["map"]
    assert node.function.schema == node.schema == schema_of("d INT")
    assert isinstance(
        with_logic(flow, "flat_map", function).by_name["flat_map"].function, RowFlatMap
    )
    assert with_logic(flow, "reduce", function).by_name["reduce"].spec.function is function
    spec = with_logic(flow, "track", follow_on).by_name["track"].spec
    assert (spec.update, spec.state) == (follow_on, schema_of("n INT"))
    spec = TrackBatchesSpec(update=function, state=schema_of("n INT"))
    flow = with_logic(flow, "track", spec)
    assert flow.by_name["track"].spec is spec
    assert with_logic(flow, "track", follow).by_name["track"].spec.update is follow


def test_aggregates_are_replaced_as_a_set():
    new = with_logic(running(), "counts", {"n": count(), "far": sum("distance")})
    spec = new.by_name["counts"].spec
    assert isinstance(spec, AggregateSpec)
    assert list(spec.aggregates) == ["n", "far"]
    assert known(new.by_name["counts"]).names == ["carrier", "n", "far"]
    assert isinstance(new.by_name["late"].function, RowFilter)


@pytest.mark.parametrize(
    ("name", "logic", "error", "reason"),
    [
        ("nothing", late, UnknownOperatorError, "no node 'nothing'"),
        ("lat", late, UnknownOperatorError, "did you mean 'late'"),
        ("flights", late, RefusedError, "source 'flights' .* runs no logic"),
        ("out", late, RefusedError, "sink 'out' .* runs no logic"),
        ("late", "distance > 1", RefusedError, "runs a function of a row; str cannot"),
        ("again", "distance > 1", RefusedError, "runs a function of a RecordBatch"),
        ("counts", late, RefusedError, "runs aggregates by name; function cannot"),
        ("seen", {"n": count()}, RefusedError, "runs a function; dict cannot"),
        ("seen", ReduceSpec(function=late), RefusedError, "track cannot become reduce"),
        ("counts", {"n": sum("nothing")}, UnknownColumnError, "no column 'nothing'"),
    ],
)
def test_logic_that_does_not_fit(name, logic, error, reason):
    with pytest.raises(error, match=reason):
        with_logic(running(), name, logic)


def test_a_whole_spec_may_change_the_timeout():
    spec = TrackSpec(update=follow, state=schema_of("n INT"), timeout_ms=9)
    assert with_logic(running(timeout=5), "seen", spec).by_name["seen"].spec is spec


def test_columns_belong_to_maps():
    with pytest.raises(DataflowError, match="a filter keeps its columns"):
        with_logic(running(), "late", late, schema="a INT")
    with pytest.raises(DataflowError, match="only maps take output columns"):
        with_logic(running(), "counts", {"n": count()}, schema="a INT")
    with pytest.raises(UnknownColumnError, match="there is no column 'origin'"):
        with_logic(running(), "again", same, schema="a INT")


# Fewer branches ------------------------------------------------------------------------------------


def test_a_sink_goes_and_its_operator_stays():
    new = without(running(), "end")
    assert list(new.by_name) == ["flights", "late", "counts", "out", "again", "seen"]


def test_a_whole_branch_goes_with_what_led_there():
    old = running()
    new = without(old, ["end", "seen"])
    assert list(new.by_name) == ["flights", "late", "counts", "out"]
    assert all(new.by_name[name] is old.by_name[name] for name in new.by_name)


@pytest.mark.parametrize(
    ("names", "error", "reason"),
    [
        (["seen"], RefusedError, "sink 'end' .* reads the rows of 'seen': remove it too"),
        (["out", "counts", "end", "seen"], RefusedError, "no node would read the rows of source"),
        ("ends", UnknownOperatorError, "did you mean 'end'"),
    ],
)
def test_what_has_to_go_together(names, error, reason):
    with pytest.raises(error, match=reason):
        without(running(), names)


def test_something_has_to_stay():
    flow = dataflow_of(flights().write.noop(name="end"))
    with pytest.raises(DataflowError, match="the dataflow is empty"):
        without(flow, ["flights", "end"])


# More branches -------------------------------------------------------------------------------------


def test_a_branch_grows_on_a_running_node():
    old = running()
    flow = stream_of(old, "late").filter("distance > 100").write.parquet("far", name="far")
    new = with_branch(old, flow)

    assert list(new.by_name) == [*old.by_name, "late.filter-1", "far"]
    assert all(new.by_name[name] is old.by_name[name] for name in old.by_name)
    assert new.by_name["late.filter-1"].upstream is old.by_name["late"]
    assert differences(old, new).added == ("late.filter-1", "far")
    assert differences(old, new).affected == ("late.filter-1", "far")


def test_branches_may_bring_operators_and_sources():
    old = running()
    other = read().memory("carrier STRING", name="more")
    merged = stream_of(old, "late").map(lambda r: r.carrier, "carrier STRING").union(other)
    counts = merged.key_by("carrier").aggregate(n=count(), name="both")
    new = with_branch(old, counts)
    assert isinstance(new.by_name["both"], Stateful)
    assert differences(old, new).added == ("late.map-1", "more", "late.union-1", "both")


def test_names_that_are_taken():
    old = grown = running()
    for _ in range(3):
        grown = with_branch(grown, stream_of(grown, "late").write.console())
    assert [name for name in grown.by_name if "console" in name] == [
        "late.console",
        "late.console~2",
        "late.console~3",
    ]
    with pytest.raises(DuplicateNameError, match="there is a node 'out' already"):
        with_branch(old, stream_of(old, "late").write.noop(name="out"))


def test_a_branch_of_an_earlier_version_is_refused():
    old = running()
    stale = stream_of(old, "late").write.noop(name="new")
    new = with_logic(old, "late", very_late)
    with pytest.raises(DuplicateNameError, match="of the dataflow as it is now"):
        with_branch(new, stale)


def test_what_is_no_stream_and_what_is_no_branch():
    old = running()
    with pytest.raises(
        DataflowError, match=r"sink 'out' .* is a sink, which has no rows: use .*'counts'"
    ):
        stream_of(old, "out")
    with pytest.raises(UnknownOperatorError, match="no node 'x'"):
        stream_of(old, "x")
    with pytest.raises(DataflowError, match="a branch ends in stream"):
        with_branch(old, stream_of(old, "late").key_by("carrier"))
    with pytest.raises(DataflowError, match="no sink reads its rows"):
        with_branch(old, stream_of(old, "late").filter("distance > 1"))
    with pytest.raises(DuplicateNameError, match="both write to out"):
        with_branch(old, stream_of(old, "late").write.parquet("out", name="again-out"))


def test_a_filter_by_columns_is_given_another_function_or_another_condition():
    rows = rc.read().memory(script("a INT, b INT"), name="rows")
    chosen = rows.filter(rc.computed(pc.greater, "a", "b"), name="chosen").select("a", name="cut")
    flow = dataflow_of(chosen.write.noop())
    made = with_logic(flow, "chosen", pc.less).by_name["chosen"].function
    assert (made.condition.function, made.condition.columns) == (pc.less, ("a", "b"))
    other = rc.computed(pc.is_valid, "b")
    assert with_logic(flow, "chosen", other).by_name["chosen"].function.condition is other
    assert function_of(flow.by_name["chosen"]) is pc.greater
    with pytest.raises(DataflowError, match="keeps its columns"):
        with_logic(flow, "chosen", pc.less, schema="a INT")
    with pytest.raises(RefusedError, match="runs no function of yours"):
        with_logic(flow, "cut", pc.less)
