"""Tasks of a running join share a key: what its rows show, what a change of the program may not do, what is planned."""

from __future__ import annotations

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel import changes
from rechannel.dataflow.streams.stream import Stream
from rechannel.errors import RefusedError
from rechannel.job import InProcess, Job
from rechannel.running import RunningJob
from rechannel.settings import Settings
from rechannel.testing import Harness, script

HOT = [{"k": 1, "v": n} for n in range(12)]


def pairs() -> tuple[tuple[script, script], Stream]:
    """Two streams without rows, and their join."""
    sources = script("k BIGINT, v BIGINT", []), script("k BIGINT, w BIGINT", [])
    left, right = (
        rc.read().memory(s, name=n) for s, n in zip(sources, ("left", "right"), strict=True)
    )
    return sources, left.join(right, "k", name="pairs")


@pytest.fixture
def running(tmp_path):
    (left, right), joined = pairs()
    job = Job(
        "spread",
        joined.write.memory("out", name="out"),
        state=tmp_path,
        settings=Settings(tasks=4, bins=4),
    )
    started = job.start(in_process=InProcess())
    yield started, left, right, joined
    started.stop()


def step(job: RunningJob, left: script, right: script, number: int) -> int:
    """A timestep; how many rows are shown in all."""
    left.push(HOT)
    right.push([{"k": 1, "w": number}])
    job.process_all_available()
    return job.memory("out").num_rows


def test_a_program_that_goes_by_the_order_of_rows_waits_until_they_are_gathered(running):
    job, left, right, joined = running
    assert step(job, left, right, 1) == 12
    job.reconfigure(changes.spread("pairs", 1, over=3, side="left")).wait(60)
    assert step(job, left, right, 2) == 48
    last = joined.key_by("k").aggregate(last=agg.last("v"), name="last")
    edit = changes.add(last.write.memory("lasts", name="lasts"))
    with pytest.raises(RefusedError, match=r"'last' goes by the order.*gather\('pairs'\)"):
        job.reconfigure(edit)
    count = joined.key_by("k").aggregate(n=agg.count(), name="count")
    job.reconfigure(changes.add(count.write.memory("counts", name="counts"))).wait(60)
    job.reconfigure(changes.gather("pairs")).wait(60)
    job.reconfigure(edit).wait(60)
    with pytest.raises(RefusedError, match="operator 'last' goes by the order"):
        job.reconfigure(changes.spread("pairs", 1))
    assert step(job, left, right, 3) == 108


def test_a_plan_names_the_tasks_and_moves_no_state(running):
    job, left, right, _ = running
    step(job, left, right, 1)
    plan = job.plan(changes.spread("pairs", 1, over=2))
    assert (plan.bins, len(plan.steps)) == (0, 1)
    assert "pairs: no state moves" in str(plan)
    assert plan.topology is not None
    (edge,) = plan.topology.of("pairs").state
    assert (edge.bins, edge.source != edge.target) == (1, True)
    assert "svg" in plan.svg()
    job.reconfigure(plan).wait(60)
    assert "Stage pairs: " in job.explain()
    assert "(4 tasks, 6 bins, one over 2 tasks)" in job.explain()
    (spread,) = job.configuration.operators["pairs"].routing.spreads
    assert spread.tasks == (edge.source, edge.target)
    # The left side had twelve rows to one.
    assert spread.side == 0
    assert step(job, left, right, 2) == 48


def test_the_next_driver_goes_on_with_it(tmp_path):
    (left, right), joined = pairs()
    harness = Harness(joined.write.memory("out", name="out"), settings=Settings(tasks=4, bins=4))
    process = harness.start()
    left.push(HOT)
    process.run()
    process.reconfigure(changes.spread("pairs", 1, over=3, side="left"))
    left.push(HOT)
    process.run()
    process.stop()
    process = harness.start()
    routing = process.position.configuration.operators["pairs"].routing
    assert [len(spread.tasks) for spread in routing.spreads] == [3]
    right.push([{"k": 1, "w": 0}])
    process.run()
    assert harness.output("out").num_rows == 24
    process.reconfigure(changes.gather("pairs"))
    right.push([{"k": 1, "w": 1}])
    process.run()
    assert harness.output("out").num_rows == 48
    state = harness.state("pairs").to_pylist()
    assert len(state) == 26


def test_a_start_with_a_text_that_cannot_share_the_rows_is_refused(tmp_path):
    """The last value goes by the order of rows: of the source in the first text, of the join in the other."""

    def job(rewired: bool) -> Job:
        left = rc.read().memory(script("k BIGINT, v BIGINT", []), name="left")
        right = rc.read().memory(script("k BIGINT, w BIGINT", []), name="right")
        joined = left.join(right, "k", name="pairs")
        last = (joined if rewired else left).key_by("k").aggregate(last=agg.last("v"), name="last")
        sinks = [joined.write.memory("out", name="out"), last.write.memory("lasts", name="lasts")]
        return Job("spread", sinks, state=tmp_path, settings=Settings(tasks=4, bins=4))

    started = job(rewired=False).start(in_process=InProcess())
    started.reconfigure(changes.spread("pairs", 1, over=3)).wait(60)
    started.stop()
    with pytest.raises(
        RefusedError, match=r"'pairs' share the rows.*'last' goes by.*gather\('pairs'\)"
    ):
        job(rewired=True).start(in_process=InProcess())
    started = job(rewired=False).start(in_process=InProcess())
    started.reconfigure(changes.gather("pairs")).wait(60)
    started.stop()
    job(rewired=True).start(in_process=InProcess()).stop()
