"""The micro-batch engine: the model's formulas where they hold, list scheduling where tasks differ, executors."""

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rechannel.errors import RefusedError
from rechannel.scaling.model.costs import exact_cost
from rechannel.scaling.model.timesteps import Pace, Turn, fit_of, turn_ms
from rechannel.scaling.model.topology import topology
from rechannel.scaling.simulator.dataflow import Dataflow, Source
from rechannel.scaling.simulator.executors import Cluster, Slow
from rechannel.scaling.simulator.loads import Constant, Noise, Steps, Stopped
from rechannel.scaling.simulator.microbatches import MicroBatchEngine
from rechannel.scaling.simulator.timesteps import BatchOperator
from rechannel.scaling.simulator.turns import scheduled

CHAIN = topology([("source", "first"), ("first", "second")])
FIRST = BatchOperator(row_ms=0.1, fixed_ms=10, selectivity={"second": 2})
SECOND = BatchOperator(row_ms=0.05, fixed_ms=20)
PACE = Pace(interval_ms=1000, driver_ms=50, launch_ms=1)


def engine(
    load=None,
    *,
    first=FIRST,
    second=SECOND,
    pace=PACE,
    tasks=4,
    executors=4,
    limit=np.inf,
    **given_,
):
    load = load or Constant(rate=10_000)
    flow = Dataflow(
        topology=CHAIN,
        sources={"source": Source(load=load, limit=limit)},
        operators={"first": first, "second": second},
    )
    tasks = {"first": tasks, "second": tasks}
    return MicroBatchEngine(flow, pace, tasks, executors=executors, **given_)


def processed(windows, name):
    return sum(each.seen.activities[name].reports.records_in.sum() for each in windows)


# 50 of the driver, 4 launches, 10 + 10,000 / 4 x 0.1, 4 launches, 20 + 20,000 / 4 x 0.05
BY_HAND = 50 + 4 + 10 + 250 + 4 + 20 + 250


def test_a_timestep_takes_what_is_computed_by_hand_and_what_the_model_says():
    window = engine().advance(60)
    turns = {
        "first": Turn(rate=10_000, cost=exact_cost(10, 0.1)),
        "second": Turn(rate=20_000, cost=exact_cost(20, 0.05)),
    }
    assert fit_of(turns, PACE, 4, {"first": 4, "second": 4}).timestep_ms == pytest.approx(BY_HAND)
    assert window.seen.cores.durations_ms == pytest.approx([BY_HAND] * 59)
    assert window.latency_s == pytest.approx([1 + BY_HAND / 1e3] * 59)
    first = window.seen.activities["first"]
    assert first.reports.useful_s == pytest.approx([59 * 0.26] * 4)
    assert first.reports.records_in == pytest.approx([59 * 2500] * 4)
    assert first.reports.records_out == pytest.approx({"second": 59 * 20_000})
    assert first.tasks.rows == pytest.approx([2500] * 59 * 4)
    assert first.tasks.ms == pytest.approx([260] * 59 * 4)
    assert window.seen.cores.busy == pytest.approx(59 * (260 + 270) / 60_000)
    assert window.core_seconds == 240
    assert window.seen.arrivals["source"].backlog == pytest.approx(0)


@given(
    st.integers(1, 12),
    st.integers(1, 6),
    st.floats(0, 50),
    st.floats(0, 0.5),
    st.floats(0, 5),
    st.floats(0, 0.6),
)
def test_a_turn_is_never_longer_than_the_model_says_and_as_long_if_tasks_are_equal(
    tasks, cores, fixed_ms, row_ms, launch_ms, hot
):
    pace = Pace(interval_ms=1000, launch_ms=launch_ms)
    of = BatchOperator(row_ms=row_ms + 0.001, fixed_ms=fixed_ms, heavy=(hot,))
    share = np.full(tasks, (1 - hot) / tasks)
    share[0] += hot
    turn = Turn(rate=1000, cost=exact_cost(of.fixed_ms, of.row_ms), heaviest=of.heaviest(tasks))
    ms = of.fixed_ms + 1000 * share * of.row_ms
    ends = scheduled(0.0, ms, launch_ms, np.zeros(cores), np.ones(cores))[1]
    modelled = turn_ms(turn, pace, tasks, cores)
    assert ends.max() <= modelled * (1 + 1e-9)
    if hot == 0 and (tasks <= cores or launch_ms == 0):
        assert ends.max() == pytest.approx(modelled)


@given(
    st.lists(st.floats(1, 100), min_size=1, max_size=12),
    st.lists(st.tuples(st.floats(0, 80), st.floats(0.3, 2)), min_size=1, max_size=5),
    st.floats(0, 5),
)
def test_tasks_go_to_the_core_that_is_free_first(takes, cores, launch_ms):
    free, speeds = (np.array(each) for each in zip(*cores, strict=True))
    starts, ends, places = scheduled(40.0, np.array(takes), launch_ms, free, speeds)
    queue = [(max(at, 40.0), core) for core, at in enumerate(free.tolist())]
    heapq.heapify(queue)
    for task, ms in enumerate(takes):
        at, core = heapq.heappop(queue)
        start = max(40.0 + launch_ms * (task + 1), at)
        assert (places[task], starts[task]) == (core, pytest.approx(start))
        assert ends[task] == pytest.approx(start + ms / speeds[core])
        heapq.heappush(queue, (float(ends[task]), core))


@settings(max_examples=25)
@given(
    st.integers(1, 3),
    st.floats(500, 40_000),
    st.integers(1, 7),
    st.integers(1, 4),
    st.integers(0, 9),
)
def test_no_row_is_lost(in_flight, rate, tasks, executors, seed):
    load = Stopped(load=Noise(load=Constant(rate=rate), seed=seed, deviation=0.5), from_s=40)
    pace = Pace(interval_ms=1000, in_flight=in_flight, driver_ms=20, launch_ms=1)
    run = engine(load, pace=pace, tasks=3, executors=2, noise=0.2, seed=seed)
    windows = [run.advance(20)]
    seen = windows[0].seen.arrivals["source"]
    assert seen.rate == pytest.approx(load.arrivals(np.array([0, 20.0]))[0] / 20)
    run.change({"first": tasks}, executors)
    windows += [run.advance(end) for end in (40, 400)]
    rows = [
        sum(w.seen.activities[n].tasks.rows.sum() for w in windows) for n in ("first", "second")
    ]
    arrived = load.arrivals(np.array([0, 400.0]))[0]
    assert rows == pytest.approx([arrived, 2 * arrived])
    assert windows[-1].seen.arrivals["source"].backlog == 0


def test_what_is_too_much_waits_and_is_reported():
    run = engine(Constant(rate=30_000), limit=20_000)
    window = run.advance(60)
    assert window.seen.arrivals["source"].backlog > 500_000
    assert window.seen.arrivals["source"].rate == pytest.approx(30_000)
    assert window.latency_s[-1] > 15


def test_timesteps_overlap_but_an_operator_takes_them_in_order():
    of = {
        "first": BatchOperator(row_ms=0, fixed_ms=350),
        "second": BatchOperator(row_ms=0, fixed_ms=390),
        "tasks": 2,
    }
    window = engine(pace=Pace(interval_ms=400, in_flight=3), **of).advance(40)
    assert window.seen.cores.durations_ms == pytest.approx([740] * len(window.at_s))
    assert len(window.at_s) == 98  # begun at 0.4, 0.8, ..., done 0.74 s later
    alone = engine(pace=Pace(interval_ms=400), **of).advance(40)
    assert len(alone.at_s) == 53  # each begins when the one before is done
    slower = engine(pace=Pace(interval_ms=300, in_flight=9), **of).advance(40)
    assert np.diff(slower.at_s) == pytest.approx(
        0.39
    )  # one turn of the second operator after another


def test_an_executor_that_is_requested_arrives_later_and_is_paid_from_then_on():
    run = engine(cluster=Cluster(cores_per_executor=2, startup_s=30), executors=2)
    assert run.advance(60).core_seconds == 240
    run.change({"first": 8}, 4)
    assert run.executors == 4
    window = run.advance(120)
    assert window.core_seconds == pytest.approx(60 * 4 + 30 * 4)
    assert run.cores == 8
    few, many = window.seen.cores.durations_ms[1], window.seen.cores.durations_ms[-1]
    # 4 tasks of 260 ms on 4 cores, and 8 of 135 ms on 8, when these are there; 4 more launches; else as before.
    assert (few - many) == pytest.approx(260 - 135 - 4, abs=2)
    run.change({}, 1)
    after = run.advance(180)
    assert after.core_seconds == pytest.approx(120, abs=1)
    assert run.cores == 2


def test_tasks_follow_the_executors_that_they_were_requested_with():
    run = engine(cluster=Cluster(startup_s=30), executors=2, tasks=2)
    run.change({"first": 4}, 4)
    run.advance(10)
    run.change({"first": 9}, 6)
    assert run.parallelism["first"] == 9
    assert run.advance(29).seen.parallelism["first"] == 2
    assert run.advance(35).seen.parallelism["first"] == 4
    assert run.advance(45).seen.parallelism["first"] == 9
    run.change({"first": 12}, 12)
    run.change({"first": 3}, 3)  # the latest decision holds
    assert run.advance(90).seen.parallelism["first"] == 3


def test_more_tasks_than_cores_wait_and_idle_executors_are_known():
    crowded = engine(tasks=12, executors=2, first=BatchOperator(row_ms=0, fixed_ms=150)).advance(
        60.3
    )
    assert crowded.seen.cores.waiting_tasks > 0
    assert crowded.seen.cores.waiting_s > 0
    roomy = engine(tasks=2, executors=4).advance(60).seen.cores
    assert (roomy.waiting_tasks, roomy.waiting_s) == (0, 0)
    assert sorted(roomy.idle_s)[-2:] == pytest.approx([60, 60])  # never had a task


def test_a_slow_executor_makes_timesteps_longer_while_it_is_slow():
    slow = Cluster(slow=(Slow(executor=1, speed=0.25, from_s=20, until_s=40),))
    durations = engine(Constant(rate=1000), cluster=slow).advance(60).seen.cores.durations_ms
    usual = 50 + 4 + 10 + 25 + 4 + 20 + 25
    assert durations[0] == durations[-1] == pytest.approx(usual)
    # One task of each operator takes 3 x 35 and 3 x 45 ms more, and is the second to be launched, not the fourth.
    assert max(durations) == pytest.approx(usual + 3 * 35 - 2 + 3 * 45 - 2)


def test_a_heavy_key_is_in_the_longest_task_whatever_their_number():
    hot = BatchOperator(row_ms=0.1, fixed_ms=10, heavy=(0.3,), selectivity={"second": 2})
    tasks = (
        engine(Constant(rate=5000), first=hot, tasks=8, executors=8)
        .advance(60)
        .seen.activities["first"]
    )
    assert tasks.tasks.ms.max() == pytest.approx(10 + 0.1 * 5000 * (0.3 + 0.7 / 8))
    assert tasks.heaviest_key == 0.3


def test_a_change_costs_what_is_given_once():
    run = engine(change_ms=200)
    run.advance(10)
    run.change({"first": 3})
    longest = run.advance(20).seen.cores.durations_ms
    same = 50 + 3 + 10 + 10_000 / 3 * 0.1 + 4 + 20 + 250
    assert longest == pytest.approx([same + 200] + [same] * (len(longest) - 1), abs=1e-6)


def test_there_is_no_timestep_without_rows():
    run = engine(Steps(rates=((0, 100), (10, 0), (50, 100))))
    run.advance(60)
    assert run.timesteps == 19  # those of the first 10 s, and 9 of the last 10
    assert run.advance(61).latency_s[-1] > 1


def test_the_same_seed_gives_the_same_story():
    first, again, other = (engine(noise=0.3, seed=seed).advance(60) for seed in (1, 1, 2))
    assert (first.latency_s == again.latency_s).all()
    assert not (first.latency_s == other.latency_s).any()


def test_the_oracle_has_the_least_cores_that_keep_the_interval():
    load = Steps(rates=((0, 1000), (60, 10_000), (120, 25_000)))
    oracle = engine(load).oracle(np.array([0.0, 60, 120, 180]))
    for least, rate in zip(oracle.cores.tolist(), (1000, 10_000, 25_000), strict=True):
        assert longest_ms(rate, int(least)) <= 1000
        assert least == 1 or longest_ms(rate, int(least) - 1) > 1000
    assert oracle.cores[0] < oracle.cores[1] < oracle.cores[2]
    slack = engine(load).oracle(np.array([120.0, 180]), utilisation=0.8).cores[0]
    assert longest_ms(25_000, int(slack)) <= 800 < longest_ms(25_000, int(slack) - 1)


def longest_ms(rate, cores):
    window = engine(Constant(rate=rate), tasks=cores, executors=cores).advance(30)
    return max(window.seen.cores.durations_ms)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: BatchOperator(row_ms=0),
        lambda: BatchOperator(row_ms=-1),
        lambda: Cluster(cores_per_executor=0),
        lambda: Slow(executor=0, speed=0),
        lambda: engine(executors=0),
        lambda: engine(noise=-1),
        lambda: engine().change({"third": 1}),
        lambda: engine().change({}, 0),
        lambda: engine().advance(0),
    ],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(RefusedError, match=r"give|advance it"):
        wrong()
