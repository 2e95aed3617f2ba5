"""The physical plan as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.graph.schema import resolve
from rechannel.dataflow.streams.stream import dataflow_of
from rechannel.engine.program.explain import explain
from rechannel.engine.program.physical import PhysicalPlan, compile_plan
from rechannel.engine.program.standing import Standing
from rechannel.engine.program.versions import bound
from rechannel.model.configuration import Configuration, OperatorConfiguration, Resources
from rechannel.model.routing import Routing
from rechannel.model.text import in_bytes
from rechannel.monitoring import SinkStatus
from rechannel.testing import script

PLAN = """\
3 stages, 2 sinks; configuration 1: a timestep starts at once, 1 in flight

Source stage orders (at most 2 tasks)
  reads        orders (memory)
  columns      user, item, price, at (4 of 5)
  runs         few: select user, item, price, at
                 timed: event time at
  exchange         → totals by user; combined (auto): n.count bigint, total.sum bigint
  runs             dear: filter is_valid
  exchange           → last by item; rows: user string, price bigint, at timestamp
  changes      rescale, set_bound, change_logic of dear

Stage totals: aggregate by user (2 tasks, 8 bins)
  receives     rows of orders
  state        user string → n.count bigint, total.sum bigint
  event time   watermarks of timed
  emits        user string, n bigint, total bigint
  sink buffer  → rows of totals
  runs in      this process
  changes      rescale, rebalance, move, split, merge, combine, change_logic of totals, remove

Stage last: top by item (2 tasks, 8 bins)
  receives     rows of orders
  state        item string, _rank bigint → user string, price bigint, at timestamp
  event time   watermarks of timed
  emits        item string, user string, price bigint, at timestamp
  sink buffer  → rows of last
  runs in      this process
  changes      rescale, rebalance, move, split, merge, remove

Sink totals-out: memory totals
  writes       sink buffer of totals, after the commit
  columns      user string, n bigint, total bigint
  guarantee    what was committed since this driver started
  changes      remove

Sink last-out: memory last
  writes       sink buffer of last, after the commit
  columns      item string, user string, price bigint, at timestamp
  guarantee    what was committed since this driver started
  on failure   skip
  changes      remove

One timestep, in order
  1 plan       how far orders can be read; the range is journalled as the intent
  2 run        orders
               totals, last beside each other
  3 commit     offsets, state and sink buffers, in one entry of the journal
  4 publish    totals-out, last-out
  changes      add, change_dataflow, set_interval, set_in_flight"""


def job(folder: Path) -> rc.Job:
    orders = script("user STRING, item STRING, price BIGINT, at TIMESTAMP, note STRING")
    rows = rc.read().memory(orders, name="orders")
    timed = rows.select("user", "item", "price", "at", name="few").event_time("at", name="timed")
    totals = timed.key_by("user").aggregate(n=agg.count(), total=agg.sum("price"), name="totals")
    dear = timed.filter(rc.computed(pc.is_valid, "price"), name="dear")
    last = dear.key_by("item").latest(name="last")
    ends = [
        totals.write.memory("totals", name="totals-out"),
        last.write.on_failure("skip").memory("last", name="last-out"),
        last.write.noop(name="nothing"),
    ]
    settings = rc.Settings(tasks=2, bins=8)
    return rc.Job("orders", ends, state=folder / "state", settings=settings)


def physical(*ends: Any) -> PhysicalPlan:
    dataflow = dataflow_of(*ends)
    schemas = resolve(dataflow, lambda node, inputs: pa.schema([("user", pa.string())]))
    return compile_plan(dataflow, schemas, bound(dataflow, schemas))


def test_stages_exchanges_state_and_sinks_are_shown(tmp_path: Path) -> None:
    text = job(tmp_path).explain(in_process=rc.InProcess())
    assert text == PLAN
    assert repr(text) == PLAN
    assert text._repr_html_().startswith("<pre>3 stages")
    assert not (tmp_path / "state").exists()


def test_a_running_job_shows_what_changes_have_made_of_its_plan(tmp_path: Path) -> None:
    running = job(tmp_path).start(in_process=rc.InProcess())
    try:
        changes = [rc.changes.rescale("totals", tasks=3), rc.changes.combine("totals", "off")]
        running.reconfigure([*changes, rc.changes.set_interval(500)]).wait(60)
        text = running.explain()
    finally:
        running.stop(60)
    assert "starts every 500 ms" in text
    assert "Stage totals: aggregate by user (3 tasks, 8 bins)" in text
    assert "→ totals by user; not combined: price bigint" in text


def test_a_running_job_shows_how_its_parts_stand(tmp_path: Path) -> None:
    orders = script("user STRING")
    counts = (
        rc.read().memory(orders, name="orders").key_by("user").aggregate(n=agg.count(), name="n")
    )
    ends = counts.write.memory("out", name="out")
    running = rc.Job("orders", ends, state=tmp_path / "state").start(in_process=rc.InProcess())
    try:
        assert "  lag          not known\n" in running.explain()
        orders.push([{"user": "ann"}, {"user": "bob"}])
        running.process_all_available(60)
        text = running.explain()
    finally:
        running.stop(60)
    size = running.status.operators["n"].state_bytes
    assert "  lag          0 rows, 0 bytes unread; waited 0.0 s\n" in text
    assert f"  now          2 rows of state, {in_bytes(size)}\n" in text
    assert "  now          every committed timestep is published\n" in text


def test_what_a_sink_owes_is_shown_with_its_error() -> None:
    status = SinkStatus(owed=2, oldest=5, failures=1, error="no answer", quarantine=None)
    standing = Standing(status=None, sinks={"out": status})  # type: ignore[arg-type]
    assert list(standing.sink("out")) == [("now", "2 timesteps from 5 on not published: no answer")]
    assert list(standing.sink("new")) == []


def test_placement_and_resources_are_shown_for_spark() -> None:
    orders = rc.read().memory("user STRING", name="orders")
    flow = orders.key_by("user").aggregate(n=agg.count(), name="n")
    plan = physical(flow)
    resources = Resources(cpus=2, memory_mb=4096, amounts={"gpu": 0.5})
    routing = Routing.even(bins=8, tasks=2)
    there = OperatorConfiguration(tasks=2, routing=routing, placement={1: "7"}, resources=resources)
    lines = explain(plan, Configuration(operators={"n": there}), on_spark=True).splitlines()
    assert "  runs on      task 1 on executor 7, others on any" in lines
    assert "  each task    2 CPUs, 0.5 gpu, executors of 4,096 MiB" in lines
    free = Configuration(operators={"n": OperatorConfiguration(tasks=2, routing=routing)})
    text = explain(plan, free, on_spark=True)
    assert "  runs on      the executor that ran it last, or any\n" in text
    assert "combine, place, assign_resources, change_logic of n, remove\n" in text
    assert text.endswith("set_in_flight, executors")


SAMPLES = {
    "rescale": lambda name: rc.changes.rescale(name, tasks=3),
    "rebalance": rc.changes.rebalance,
    "move": lambda name: rc.changes.move(name, [0], 1),
    "split": lambda name: rc.changes.split(name, 0),
    "merge": lambda name: rc.changes.merge(name, [0, 1]),
    "combine": lambda name: rc.changes.combine(name, "off"),
    "spread": lambda name: rc.changes.spread(name, bin=0),
    "remove": rc.changes.remove,
    "set_bound": lambda name: rc.changes.set_bound(name, 10),
}


def test_every_change_that_a_part_can_take_is_accepted_and_others_are_refused(
    tmp_path: Path,
) -> None:
    running = job(tmp_path).start(in_process=rc.InProcess())
    try:
        blocks = {
            block.split()[1 if block.startswith("Stage") else 2].rstrip(":"): block
            for block in running.explain().split("\n\n")
            if block.startswith(("Stage", "Source stage"))
        }
        assert blocks.keys() == {"orders", "totals", "last"}
        for name, block in blocks.items():
            (line,) = [each for each in block.splitlines() if each.startswith("  changes")]
            able = line.removeprefix("  changes").replace(",", "").split()
            for kind, made in SAMPLES.items():
                if kind in {
                    "rebalance",
                    "remove",
                }:  # one needs a load, the other is of the dataflow
                    continue
                if kind in able:
                    assert running.plan(made(name)), (name, kind)
                else:
                    with pytest.raises(rc.errors.RechannelError):
                        running.plan(made(name))
    finally:
        running.stop(60)


def test_a_sink_straight_after_a_source_needs_no_stage(tmp_path: Path) -> None:
    rows = rc.read().memory("user STRING", name="orders")
    made = rc.Job("copy", rows.write.memory("out", name="out"), state=tmp_path / "state")
    assert made.explain(in_process=rc.InProcess()).splitlines()[2:] == [
        "Sink out: memory out",
        "  writes       orders (memory), before the commit",
        "  columns      user string",
        "  guarantee    what was committed since this driver started",
        "  changes      remove",
        "",
        "One timestep, in order",
        "  1 plan       how far orders can be read; the range is journalled as the intent",
        "  2 run        out: written, and not shown before the commit",
        "  3 commit     offsets, state and sink buffers, in one entry of the journal",
        "  4 publish    out",
        "  changes      add, change_dataflow, set_interval, set_in_flight",
    ]
