"""`ds2-nexmark` and `ds2-flink`: what they judge runs by, and the slots that wait."""

from __future__ import annotations

import pickle
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark import cloudpickle

import rechannel as rc
from benchmarks import ds2_flink, ds2_nexmark, slots, trials
from benchmarks.ds2_flink import COUNT, FLATMAP, phase, phases
from benchmarks.ds2_judge import fits, judged, least_tasks
from benchmarks.ds2_loads import KEYS, LOADS, stream_of
from benchmarks.ds2_side import _quiet
from benchmarks.nexmark.events import PER_EPOCH, Events
from benchmarks.slots import Begun, Slot, SlotJob, slowed
from benchmarks.stepped_rate import stepped
from rechannel import aggregates as agg
from rechannel.kernels.protocol.capabilities import Combining, Timed
from rechannel.operators.aggregate.logic import AggregateLogic
from rechannel.sources.connectors import GeneratorConnector
from rechannel.testing import script
from tests.support.benchmarks import bench, succeeded
from tests.support.scaled_runs import measured, timesteps, word_count

# What runs are judged by -----------------------------------------------------------------------------


def test_a_run_is_judged_by_its_last_plan():
    run = timesteps([{"main": 8, "in": 2}] * 3 + [{"main": 16, "in": 1}] * 5)
    found = judged(run, "main", target=100.0)
    assert (found.path, found.steps, found.changes, found.last) == ((16,), 1, 1, 16)
    assert found.settled_s == 5.0  # begun at 0, timestep 3 ends at 5 s
    assert found.rate == pytest.approx(1.0)
    assert found.kept


def test_changes_of_other_operators_are_no_steps():
    run = timesteps([{"main": 8, "in": 2}] + [{"main": 9, "in": 2}] + [{"main": 9, "in": 1}] * 4)
    found = judged(run, "main", target=101.0)
    assert (found.path, found.changes) == ((9,), 2)
    assert found.rate == pytest.approx(100 / 101)


def test_a_rate_that_is_not_read_is_not_kept():
    found = judged(timesteps([{"main": 8}] * 6), "main", target=102.0)
    assert (found.steps, found.last, found.kept) == (0, 8, False)


def test_the_first_timestep_of_a_stream_that_stays_as_it_is_says_nothing_of_its_rate():
    run = timesteps([{"main": 8}] * 6)
    run[0] |= {"rows": 0, "done_ms": 100}
    found = judged(run, "main", target=100.0)
    assert (found.steps, found.rate) == (0, pytest.approx(1.0))


def test_few_timesteps_are_not_judged():
    with pytest.raises(ValueError, match="2 timesteps"):
        judged(timesteps([{"main": 8}] * 3 + [{"main": 9}] * 2), "main", target=100.0)


@pytest.mark.parametrize(
    ("tasks", "least", "does"),
    [
        (16, 16, True),
        (17, 16, True),
        (18, 16, False),
        (15, 16, False),
        (42, 40, True),
        (43, 40, False),
    ],
)
def test_one_task_or_a_twentieth_more_than_the_least_fits(tasks, least, does):
    assert fits(tasks, least) is does


def test_the_least_tasks_keep_the_target_and_one_fewer_does_not():
    assert least_tasks(1_000.0, 100.0) == 10
    assert least_tasks(1_000.1, 100.0) == 11


def test_the_loads_are_those_of_the_papers_table():
    count = Counter(len(path) for load in LOADS.values() for path in load.steps.values())
    assert count == {1: 19, 2: 14, 3: 3}
    assert {load.published for load in LOADS.values() for path in load.steps.values()} >= {10, 28}
    assert all(
        path[-1] == load.published for load in LOADS.values() for path in load.steps.values()
    )


@pytest.mark.parametrize("name", list(LOADS))
def test_the_least_tasks_of_a_load_are_those_of_the_paper(name):
    load = LOADS[name]
    rate = load.slot_rate(load.scale, 0.4)
    assert least_tasks(load.target(load.scale), rate) == load.published


@pytest.mark.parametrize("kind", ["auction", "person"])
def test_as_many_records_reach_the_join_of_q3_as_its_load_says(kind):
    from benchmarks.nexmark.queries.q3 import in_category, nearby

    events = Events(active_people=KEYS, in_flight=KEYS, hot=False)
    rows = events.source(kind)(KEYS, KEYS + 60_000)
    passes = in_category(rows["category"]) if kind == "auction" else nearby(rows["state"])
    assert passes.true_count / 60_000 == pytest.approx(LOADS["q3"].reaches[kind], rel=0.02)


def test_without_hot_keys_no_key_has_many_rows():
    cool = Events(active_people=KEYS, in_flight=KEYS, hot=False)
    first = KEYS * PER_EPOCH["bid"]
    for column in ("auction", "bidder"):
        values = cool.bids(first, first + 50_000)[column].value_counts().field("counts")
        assert max(values.to_pylist()) < 15
    hot = Events().bids(first, first + 50_000)["auction"].value_counts().field("counts")
    assert max(hot.to_pylist()) > 500


@pytest.mark.parametrize(
    ("outcome", "timestep", "requested", "done"),
    [
        ("enough", 3, None, True),
        ("hysteresis", 5, None, True),
        ("enough", 2, None, False),
        ("warm-up", 5, None, False),
        ("changed", 5, None, False),
        ("enough", 5, (), False),
    ],
)
def test_a_run_ends_when_the_controller_is_content_with_the_last_plan(
    outcome, timestep, requested, done
):
    state = {"requested": requested, "decisions": [{"outcome": outcome, "timestep": timestep}]}
    running = SimpleNamespace(controllers={"scale": SimpleNamespace(state=state)})
    trial = SimpleNamespace(quiet=3)
    seen = {each["number"]: each for each in timesteps([{"main": 8}] * 3 + [{"main": 9}] * 3)}
    assert _quiet(running, seen, trial) is done
    seen[5] = {**seen[5], "tasks": {"main": 10}}
    assert not _quiet(running, seen, trial)


# The commands ----------------------------------------------------------------------------------------


def test_a_query_is_reported_beside_the_paper(tmp_path: Path, monkeypatch):
    made = measured([{"bid": 1, "sessions": 8}] * 2 + [{"bid": 1, "sessions": 28}] * 4)
    monkeypatch.setattr(trials, "run_variant", lambda v, *_, **__: succeeded(v.name, made))
    parameters = ds2_nexmark.BENCHMARK.parameters(quick=False, overrides={"queries": ["q11"]})
    result = ds2_nexmark.run(parameters, bench(tmp_path))
    told = {m.name: m.value for m in result.metrics if m.variant == "q11 from 8"}
    assert told == {
        "settled": 1,
        "steps": 1,
        "tasks": 28,
        "tasks, least": 28,
        "rate kept": pytest.approx(100.0),
        "settled after": 4.0,
        "steps, Flink": 3,
        "tasks, Flink": 28,
    }
    assert result.ratios == {"bound_one_step": 1.0, "bound_least_tasks": 1.0, "bound_rate": 1.0}


def test_a_run_that_was_not_settled_counts_as_one_that_failed(tmp_path: Path, monkeypatch):
    made = measured([{"bid": 1, "sessions": 8}] * 2 + [{"bid": 1, "sessions": 28}] * 4)
    made["runs"]["28"]["timesteps"] = made["runs"]["28"]["timesteps"][:3]
    monkeypatch.setattr(trials, "run_variant", lambda v, *_, **__: succeeded(v.name, made))
    parameters = ds2_nexmark.BENCHMARK.parameters(quick=False, overrides={"queries": ["q11"]})
    result = ds2_nexmark.run(parameters, bench(tmp_path))
    assert set(result.ratios.values()) == {0.5}
    told = {m.name: m.value for m in result.metrics if m.variant == "q11 from 28"}
    assert (told["settled"], "steps" in told, told["steps, Flink"]) == (0, False, 1)


def test_a_run_that_stays_where_too_few_are_has_no_step(tmp_path: Path, monkeypatch):
    made = measured([{"bid": 1, "sessions": 8}] * 4)
    monkeypatch.setattr(trials, "run_variant", lambda v, *_, **__: succeeded(v.name, made))
    parameters = ds2_nexmark.BENCHMARK.parameters(quick=False, overrides={"queries": ["q11"]})
    ratios = ds2_nexmark.run(parameters, bench(tmp_path)).ratios
    assert ratios == {"bound_one_step": 0.5, "bound_least_tasks": 0.0, "bound_rate": 1.0}


def test_both_rates_of_the_word_count_are_judged_apart():
    up, down = phases(word_count(), ds2_flink.BENCHMARK.defaults)
    assert (up.steps, up.tasks, up.settled_s) == (1, {FLATMAP: 19, COUNT: 11}, 5.0)
    assert (down.steps, down.tasks, down.settled_s) == (1, {FLATMAP: 10, COUNT: 6}, 4.0)
    assert (up.rate, down.rate) == (pytest.approx(1.0), pytest.approx(1.0))


def test_a_rate_under_which_too_little_ran_is_not_judged():
    with pytest.raises(ValueError, match="1 timesteps"):
        phase(timesteps([{FLATMAP: 1}, {FLATMAP: 2}]), {FLATMAP: 1}, 100.0)


def test_the_word_count_is_reported_beside_the_paper(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(trials, "run_variant", lambda v, *_, **__: succeeded(v.name, word_count()))
    result = ds2_flink.run(
        ds2_flink.BENCHMARK.parameters(quick=False, overrides={}), bench(tmp_path)
    )
    assert result.ratios == {"bound_one_step": 1.0, "bound_least_tasks": 1.0, "bound_rate": 1.0}
    told = {m.name: m.value for m in result.metrics if m.variant == ds2_flink.NAME}
    assert (told["lines down"], told["count down"], told["steps up"]) == (10, 6, 1)


# Slots -----------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """A clock that only sleeping moves, and how long was slept."""

    class Clock:
        def __init__(self) -> None:
            self.now = 100.0
            self.slept: list[float] = []

        def perf_counter(self) -> float:
            return self.now

        def sleep(self, seconds: float) -> None:
            self.slept.append(seconds)
            self.now += seconds

    made = Clock()
    monkeypatch.setattr(slots, "time", made)
    monkeypatch.setattr(slots, "_task", slots._Task())
    return made


def rows_of(count: int) -> pa.RecordBatch:
    return pa.record_batch({"k": list(range(count))})


def test_a_task_waits_until_its_rows_have_had_their_time(clock):
    slot = Slot(seconds=0.1)

    def call(batches):
        clock.now += 0.3  # something else that the task does
        for batch in batches:
            yield slot(batch)
            clock.now += 0.2

    began = clock.now
    out = list(Begun(call)([rows_of(10), rows_of(20)]))
    assert [batch.num_rows for batch in out] == [10, 20]
    assert clock.slept == [pytest.approx(0.7), pytest.approx(1.8)]
    assert clock.now == pytest.approx(began + 3.0 + 0.2)


def test_a_task_that_computes_for_longer_does_not_wait(clock):
    def call(batches):
        clock.now += 5.0
        yield from map(Slot(seconds=0.1), batches)

    list(Begun(call)([rows_of(10)]))
    assert clock.slept == [0.0]


def test_slow_logic_can_what_the_logic_can_and_travels():
    logic = AggregateLogic.bind(["k"], {"n": agg.count()}, pa.schema({"k": pa.int64()}))
    slow = slowed(logic, 0.5)
    there = pickle.loads(cloudpickle.dumps(slow))
    for each in (slow, there):
        assert isinstance(each, AggregateLogic)
        assert isinstance(each, Combining)
        assert not isinstance(each, Timed)
        assert each.state_schema == logic.state_schema
    assert type(there) is type(slow)


def test_a_slot_job_waits_for_every_row_and_computes_the_same(tmp_path: Path, clock):
    clicks = script("user BIGINT", [[{"user": n % 3} for n in range(30)]])
    users = rc.read().memory(clicks).key_by("user").aggregate(n=agg.count(), name="users")
    job = SlotJob("slots", users, state=tmp_path, settings=rc.Settings(tasks=1, bins=8))
    running = job.with_slots({"users": 0.01}, {"users": 4}).start(in_process=rc.InProcess())
    try:
        running.process_all_available(20)
        assert running.configuration.operators["users"].tasks == 4
        table = running.state("users")
    finally:
        running.stop()
    assert sorted(row["n"] for row in table.to_pylist()) == [10, 10, 10]
    assert sum(clock.slept) == pytest.approx(0.3)


def test_the_queries_run_over_their_loads(tmp_path: Path):
    for name, load in LOADS.items():
        stream = stream_of(
            load, scale=load.scale / 100, interval_ms=100, seconds=0.0, slack=0.1, spark=None
        )
        job = SlotJob(
            name, stream.write.noop(), state=tmp_path / name, settings=rc.Settings(tasks=1, bins=40)
        )
        slow = {} if load.main in load.rates else {load.main: 0.0}
        plan = job.with_slots(slow, {load.main: 2}).explain(in_process=rc.InProcess())
        assert load.main in str(plan)


# The rate that changes -------------------------------------------------------------------------------


def test_a_stepped_generator_has_fewer_rows_due_after_the_step():
    generator = GeneratorConnector(
        function=lambda a, b: pa.record_batch({"n": list(range(a, b))}),
        schema=pa.schema({"n": pa.int64()}),
        rows_per_second=100.0,
    )
    reader = stepped(generator, after_s=10.0, then=0.5).open(None)
    start = reader.latest(reader.initial(), 1_000)
    assert start == reader.initial()
    due = [reader.latest(start, 1_000 + s * 1_000)["rows"] for s in (5, 10, 12, 20)]
    assert due == [500, 1_000, 1_100, 1_500]
    end = {"rows": 1_000, "since_ms": 1_000}
    assert reader.backlog(end, 1_000 + 20_000).rows == 500
    assert all(a < b for a, b in pairwise(due))
