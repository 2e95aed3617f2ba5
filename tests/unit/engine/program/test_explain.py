"""The physical plan as text."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.testing import script

PLAN = """\
3 stages, 2 sinks; configuration 1: a timestep starts at once, 1 in flight

Source stage orders (one task per split)
  reads        orders (memory)
  columns      user, item, price, at (4 of 5)
  runs         few: select user, item, price, at
                 timed: event time at
  exchange         → totals by user; combined (auto): n.count bigint, total.sum bigint
  runs             dear: filter is_valid
  exchange           → last by item; rows: user string, price bigint, at timestamp

Stage totals: aggregate by user (2 tasks, 8 bins)
  receives     rows of orders
  state        user string → n.count bigint, total.sum bigint
  event time   watermarks of timed
  emits        user string, n bigint, total bigint
  sink buffer  → rows of totals

Stage last: top by item (2 tasks, 8 bins)
  receives     rows of orders
  state        item string, _rank bigint → user string, price bigint, at timestamp
  event time   watermarks of timed
  emits        item string, user string, price bigint, at timestamp
  sink buffer  → rows of last

Sink totals-out: memory totals
  writes       sink buffer of totals, after the commit
  columns      user string, n bigint, total bigint

Sink last-out: memory last
  writes       sink buffer of last, after the commit
  columns      item string, user string, price bigint, at timestamp
  on failure   skip"""


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


def test_a_sink_straight_after_a_source_needs_no_stage(tmp_path: Path) -> None:
    rows = rc.read().memory("user STRING", name="orders")
    made = rc.Job("copy", rows.write.memory("out", name="out"), state=tmp_path / "state")
    assert made.explain(in_process=rc.InProcess()).splitlines()[2:] == [
        "Sink out: memory out",
        "  writes       orders (memory), before the commit",
        "  columns      user string",
    ]
