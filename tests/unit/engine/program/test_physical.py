"""From dataflows to stages: who runs with whom, and how rows get from one to the next."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.graph.schema import resolve
from rechannel.dataflow.streams.stream import Stream, dataflow_of
from rechannel.engine.program.physical import (
    ApplyFrame,
    Frame,
    PhysicalPlan,
    SinkBufferFrame,
    SourceFrame,
    UnionFrame,
    compile_plan,
)
from rechannel.kernels.protocol.program import Branch
from rechannel.testing import script

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])


def source(name: str = "in") -> Stream:
    return rc.read().memory(script(SCHEMA), name=name)


def same(frame: Any) -> Any:
    return frame


def as_is(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def counts(stream: Stream, name: str = "counts") -> Stream:
    return stream.key_by("k").aggregate(v=agg.count(), name=name)


def plan_of(*ends: Any) -> PhysicalPlan:
    dataflow = dataflow_of(*ends)
    schemas = resolve(dataflow, lambda node, inputs: SCHEMA)
    logics = {
        node.name: node.spec.bind(node.keys, schemas[node.upstream.name])
        for node in dataflow.nodes
        if hasattr(node, "spec")
    }
    return compile_plan(dataflow, schemas, logics)


def names(plan: PhysicalPlan) -> list[str]:
    return [stage.name for stage in plan.stages]


def tree(branch: Branch) -> Any:
    """A branch as text: node, then (operator, input) of its consumers, * if kept, branches."""
    line = branch.node + ("*" if branch.sink_buffer else "")
    line += "".join(f" >{c.operator}.{c.input}" for c in branch.consumers)
    return [line, *map(tree, branch.branches)] if branch.branches else line


def frame_of(frame: Frame | None) -> Any:
    if isinstance(frame, SourceFrame):
        return frame.source.name
    if isinstance(frame, SinkBufferFrame):
        return f"{frame.node}*"
    if isinstance(frame, ApplyFrame):
        return (frame.transform.name, frame_of(frame.child))
    if isinstance(frame, UnionFrame):
        return list(map(frame_of, frame.children))
    return None


def sinks(plan: PhysicalPlan) -> dict[str, Any]:
    return {sink.sink.name: frame_of(sink.frame) for sink in plan.sinks}


def test_an_operator_behind_a_source():
    plan = plan_of(counts(source()).write.memory("out", name="out"))
    assert names(plan) == ["in", "counts"]
    front, operator = plan.stages
    assert tree(front.root) == "in >counts.0"
    assert frame_of(front.frame) == "in"
    assert front.needs == ()
    assert operator.frame is None
    assert operator.producers == operator.needs == ("in",)
    assert tree(operator.root) == "counts*"
    assert sinks(plan) == {"out": "counts*"}
    assert not plan.sinks[0].direct
    assert [stage.name for stage in plan.stateful] == ["counts"]
    assert plan.keeper("counts") == "counts"


def test_a_sink_straight_behind_a_source_needs_no_stage():
    plan = plan_of(source().transform(same, name="t").write.memory("out", name="out"))
    assert names(plan) == []
    assert sinks(plan) == {"out": ("t", "in")}
    assert plan.sinks[0].direct


def test_arrow_functions_run_where_their_rows_are_made():
    stream = source().map_batches(as_is, name="clean")
    plan = plan_of(counts(stream.map_batches(as_is, name="more")).write.noop())
    assert tree(plan.stages[0].root) == ["in", ["clean", "more >counts.0"]]


def test_dataframe_functions_join_the_frame_of_what_comes_next():
    stream = source().transform(same, name="one").transform(same, name="two")
    plan = plan_of(counts(stream).write.noop())
    assert names(plan) == ["two", "counts"]
    assert frame_of(plan.stages[0].frame) == ("two", ("one", "in"))


def test_a_dataframe_function_behind_an_operator_reads_its_outbox():
    stream = counts(source()).transform(same, name="t")
    plan = plan_of(counts(stream, "again").write.noop())
    assert names(plan) == ["in", "counts", "t", "again"]
    middle = plan.stage("t")
    assert frame_of(middle.frame) == ("t", "counts*")
    assert middle.after == middle.needs == ("counts",)
    assert plan.stage("counts").kept == ("counts",)
    assert plan.stage("counts").reports_apart is False
    assert plan.stage("in").reports_apart is False


def test_a_dataframe_function_with_several_users_runs_once():
    stream = source().transform(same, name="t")
    plan = plan_of(
        stream.write.memory("a", name="a"),
        stream.transform(same, name="u").write.memory("b", name="b"),
    )
    assert names(plan) == ["t"]
    assert sinks(plan) == {"a": "t*", "b": ("u", "t*")}


def test_what_is_materialised_is_kept_by_one_stage_and_sent_on_by_another():
    stream = source().transform(same, name="t", materialise=True)
    plan = plan_of(counts(stream).write.noop(), stream.write.memory("out", name="out"))
    assert names(plan) == ["t", "t.kept", "counts"]
    assert tree(plan.stage("t").root) == "t*"
    sending = plan.stage("t.kept")
    assert tree(sending.root) == "t >counts.0"
    assert frame_of(sending.frame) == "t*"
    assert sending.after == ("t",)
    assert plan.stage("counts").producers == ("t.kept",)
    assert sinks(plan) == {"out": "t*"}


def test_a_source_with_an_operator_and_a_sink_is_read_once():
    stream = source()
    plan = plan_of(counts(stream).write.noop(), stream.write.memory("raw", name="raw"))
    assert tree(plan.stages[0].root) == "in* >counts.0"
    assert plan.stages[0].reports_apart
    assert sinks(plan) == {"raw": "in*"}


def test_a_stream_may_feed_several_operators():
    stream = source()
    plan = plan_of(counts(stream, "one").write.noop(), counts(stream, "two").write.noop())
    assert plan.stages[0].consumers == (("one", 0), ("two", 0))
    assert tree(plan.stages[0].root) == "in >one.0 >two.0"


def test_rows_that_nobody_wants_are_not_kept():
    plan = plan_of(counts(source()).write.noop())
    assert plan.sinks == ()
    assert tree(plan.stages[1].root) == "counts"


def test_rows_of_frames_are_made_even_for_nobody():
    plan = plan_of(source().transform(same, name="t").write.noop(name="out"))
    assert sinks(plan) == {"out": ("t", "in")}


def test_an_operator_behind_a_union_reads_every_input():
    left, right = source("left"), source("right")
    plan = plan_of(counts(left.union(right, left)).write.noop())
    assert plan.stage("counts").producers == ("left", "right")
    assert tree(plan.stage("left").root) == "left >counts.0 >counts.2"
    assert tree(plan.stage("right").root) == "right >counts.1"


def test_a_function_behind_a_union_sees_every_input_as_often_as_it_is_one():
    left, right = source("left"), source("right")
    stream = left.union(right, left).map_batches(as_is, name="clean")
    plan = plan_of(counts(stream).write.memory("out", name="out"))
    assert tree(plan.stage("left").root) == ["left", "clean >counts.0", "clean >counts.2"]
    assert tree(plan.stage("right").root) == ["right", "clean >counts.1"]


def test_unions_inside_unions_are_one():
    a, b, c = source("a"), source("b"), source("c")
    inner = a.union(b, name="inner").map_batches(as_is, name="clean")
    plan = plan_of(counts(c.union(inner)).write.noop())
    assert tree(plan.stage("c").root) == "c >counts.0"
    assert tree(plan.stage("a").root) == ["a", "clean >counts.1"]
    assert tree(plan.stage("b").root) == ["b", "clean >counts.2"]


def test_a_sink_of_a_union_reads_each_input():
    left, right = source("left"), source("right")
    plan = plan_of(left.union(right).write.memory("out", name="out"))
    assert names(plan) == []
    assert sinks(plan) == {"out": ["left", "right"]}
    assert plan.sinks[0].direct


def test_a_sink_reads_only_frames_or_only_outboxes():
    """What lies in an outbox is there behind the commit, when a source's rows are not any more."""
    stream = source()
    plan = plan_of(stream.union(counts(source("other"))).write.memory("out", name="out"))
    assert names(plan) == ["in", "other", "counts"]
    assert tree(plan.stage("in").root) == "in*"
    assert sinks(plan) == {"out": ["in*", "counts*"]}
    assert not plan.sinks[0].direct


def test_what_becomes_a_front_for_one_sink_may_make_another_one_mixed():
    one, two = source("one"), source("two")
    plan = plan_of(
        one.union(counts(source("other"))).write.memory("a", name="a"),
        one.union(two.transform(same, name="t")).write.memory("b", name="b"),
    )
    assert sinks(plan) == {"a": ["one*", "counts*"], "b": ["one*", "t*"]}
    assert frame_of(plan.stage("t").frame) == ("t", "two")


def test_a_dataframe_function_over_a_mixed_union_becomes_a_front():
    mixed = source().union(counts(source("other"))).transform(same, name="t")
    plan = plan_of(mixed.write.memory("out", name="out"))
    assert sinks(plan) == {"out": "t*"}
    assert frame_of(plan.stage("t").frame) == ("t", ["in", "counts*"])
    assert plan.stage("t").after == ("counts",)


def test_stages_come_behind_those_that_feed_them():
    first = counts(source(), "first")
    second = counts(first.union(source("other")), "second")
    plan = plan_of(counts(second.transform(same, name="t"), "third").write.noop())
    order = names(plan)
    for stage in plan.stages:
        assert all(order.index(need) < order.index(stage.name) for need in stage.needs)


def test_unknown_stages_are_not_there():
    plan = plan_of(counts(source()).write.noop())
    with pytest.raises(StopIteration):
        plan.stage("none")
