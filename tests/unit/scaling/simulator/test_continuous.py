"""The continuous engine: nothing is lost, bounds hold, and steady states are those computed by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rechannel.errors import RefusedError
from rechannel.scaling.model.topology import topology
from rechannel.scaling.policies.ds2 import Ds2
from rechannel.scaling.simulator.continuous import ContinuousEngine
from rechannel.scaling.simulator.dataflow import Dataflow, Source
from rechannel.scaling.simulator.loads import Bursts, Constant, Steps, Wave
from rechannel.scaling.simulator.operators import Operator

CHAIN = topology([("source", "first"), ("first", "second")])
JOIN = topology([("a", "join"), ("b", "join"), ("join", "left"), ("join", "right"), ("a", "left")])


def chain(source, first, second, **given_):
    flow = Dataflow(
        topology=CHAIN, sources={"source": source}, operators={"first": first, "second": second}
    )
    return ContinuousEngine(flow, **given_)


def rows(window, name):
    """Records per second that an operator processed."""
    return float(window.seen.activities[name].reports.records_in.sum()) / window.seen.window_s


operators = st.builds(
    Operator,
    rate=st.floats(5, 200),
    contention=st.floats(0, 0.3),
    coherency=st.floats(0, 0.02),
    unobserved=st.floats(0, 0.5),
    heavy=st.lists(st.floats(0, 0.3), max_size=3).map(tuple),
    speeds=st.lists(st.floats(0.2, 2), max_size=2).map(tuple),
    queue_s=st.floats(1, 5),
)
numbers = st.integers(1, 6)


@settings(max_examples=40)
@given(
    st.tuples(operators, operators, operators),
    st.tuples(numbers, numbers, numbers),
    st.floats(0, 2),
    st.floats(0, 20),
    st.integers(0, 5),
)
def test_no_record_is_lost_and_no_queue_holds_more_than_its_bound(
    of, parallelism, emits, pause_s, seed
):
    names = ("join", "left", "right")
    flow = Dataflow(
        topology=JOIN,
        sources={
            "a": Source(load=Bursts(load=Constant(rate=60), seed=seed, every_s=20, lasts_s=5)),
            "b": Source(load=Wave(mean=40, swing=40, period_s=30), limit=100),
        },
        operators=dict(zip(names, of, strict=True))
        | {"join": Operator(rate=of[0].rate, heavy=of[0].heavy, selectivity={"right": emits})},
    )
    engine = ContinuousEngine(flow, dict.fromkeys(names, 2), pause_s=pause_s, tick_s=0.5)
    windows = [engine.advance(30)]
    assert all(
        queued <= flow.operators[name].queue * (1 + 1e-9)
        for name in names
        for queued in windows[0].seen.activities[name].queued
    )
    engine.change(dict(zip(names, parallelism, strict=True)))
    windows += [engine.advance(70), engine.advance(100)]

    def total(name):
        return sum(each.seen.activities[name].reports.records_in.sum() for each in windows)

    held = engine.held()
    arrived = {n: float(flow.sources[n].load.arrivals(np.array([0.0, 100]))[0]) for n in "ab"}
    for name in "ab":
        assert arrived[name] == pytest.approx(total(name) + held[name])
    assert total("a") + total("b") == pytest.approx(total("join") + held["join"])
    assert total("join") + total("a") == pytest.approx(total("left") + held["left"])
    assert total("join") * emits == pytest.approx(total("right") + held["right"], abs=1e-6)


def test_the_slowest_operator_sets_the_pace_of_all():
    # The second processes 2 x 50 records, so the first may do 25 of the 100 that it could, and the source sends 25.
    engine = chain(
        Source(load=Constant(rate=200)),
        Operator(rate=100, selectivity={"second": 4}),
        Operator(rate=50),
        parallelism={"second": 2},
    )
    before = engine.advance(60)
    window = engine.advance(120)
    assert rows(window, "source") == rows(window, "first") == pytest.approx(25)
    assert rows(window, "second") == pytest.approx(100)
    first, second = (window.seen.activities[name] for name in ("first", "second"))
    assert first.blocked == pytest.approx(0.75)
    assert first.reports.useful_s == pytest.approx([15])
    assert second.reports.useful_s == pytest.approx([60, 60])
    assert second.queued == second.queued_before == pytest.approx((50, 50))  # full
    read = 60 * (rows(before, "source") + rows(window, "source"))
    assert window.seen.arrivals["source"].backlog == pytest.approx(120 * 200 - read)


def test_between_watermarks_sources_read_all_or_nothing():
    # 200 arrive and two instances process 40 each. A full queue holds 80: between 40 and 80, it grows by 60 a second,
    # and shrinks by 40. So it takes 2/3 s to fill it, and 1 s to empty it: back-pressure for 60 % of the time.
    engine = chain(
        Source(load=Constant(rate=200), limit=200, keeps=False),
        Operator(rate=40, queue_s=2),
        Operator(rate=1e6),
        parallelism={"first": 2},
        tick_s=0.01,
        low_watermark=0.5,
    )
    engine.advance(60)
    seen = engine.advance(660).seen
    assert seen.activities["first"].pressing == pytest.approx((0.6, 0.6), abs=0.01)
    assert seen.activities["source"].blocked == pytest.approx(0.6, abs=0.01)
    assert seen.activities["second"].pressing == (0,)
    assert seen.activities["first"].reports.records_in.sum() == pytest.approx(600 * 80, rel=1e-6)


def test_between_watermarks_operators_go_on_and_queues_grow():
    # The source reads 80 a second until the second queue is full. What the first has queued is sent on nevertheless.
    engine = chain(
        Source(load=Constant(rate=80), limit=80),
        Operator(rate=60, queue_s=100),
        Operator(rate=10, queue_s=20),
        low_watermark=0.9,
    )
    full = engine.advance(5).seen.activities["second"]
    assert full.queued[0] == pytest.approx(200, abs=60)
    grown = engine.advance(8).seen.activities["second"]
    assert grown.queued[0] > full.queued[0] > 0
    assert grown.queued[0] > 200
    assert grown.pressing == (1,)
    assert engine.advance(12).seen.activities["source"].reports.records_in.sum() == 0


def test_exact_back_pressure_names_no_instance():
    engine = chain(Source(load=Constant(rate=80)), Operator(rate=60), Operator(rate=10))
    assert engine.advance(60).seen.activities["second"].pressing == ()


def test_back_pressure_hides_demand_and_arrivals_show_it():
    source = Source(load=Constant(rate=300))
    engine = chain(source, Operator(rate=100), Operator(rate=60))
    engine.advance(60)
    window = engine.advance(120)
    assert window.seen.arrivals["source"].rate == pytest.approx(300)
    assert rows(window, "first") == pytest.approx(60)  # observed: a fifth of what arrives
    assert window.seen.activities["source"].blocked == pytest.approx(1, abs=0.01)
    assert window.seen.arrivals["source"].backlog > 60 * 240 - 1
    advice, _ = Ds2().decide(window.seen, None)
    assert advice.parallelism == {"first": 3, "second": 5}


def test_a_hot_key_limits_whatever_the_parallelism():
    # Half of all records and a tenth of the others are for one instance, which processes 100 a second.
    engine = chain(
        Source(load=Constant(rate=1000)),
        Operator(rate=100, heavy=(0.5,)),
        Operator(rate=10_000),
        parallelism={"first": 10},
    )
    engine.advance(60)
    window = engine.advance(120)
    assert rows(window, "first") == pytest.approx(100 / 0.55)
    received = window.seen.activities["first"].reports.records_in
    assert sorted(received / received.sum()) == pytest.approx([0.05] * 9 + [0.55])


@pytest.mark.parametrize(
    ("operator", "parallelism", "capacity"),
    [
        (Operator(rate=100), 7, 700),
        (Operator(rate=100, contention=0.1), 11, 550),
        (Operator(rate=100, coherency=0.01), 11, 1100 / 2.1),
        (Operator(rate=100, unobserved=0.25), 2, 150),
        (Operator(rate=100, heavy=(0.2, 0.1)), 4, 100 / 0.375),
        (Operator(rate=100, speeds=(0.5,)), 4, 200),
    ],
)
def test_capacity_is_what_is_reached(operator, parallelism, capacity):
    assert operator.capacity(parallelism) == pytest.approx(capacity)
    engine = chain(
        Source(load=Constant(rate=10_000)),
        operator,
        Operator(rate=100_000),
        parallelism={"first": parallelism},
    )
    engine.advance(60)
    assert rows(engine.advance(120), "first") == pytest.approx(capacity)


def test_nothing_runs_during_a_restart_and_the_backlog_is_worked_off_after_it():
    engine = chain(
        Source(load=Constant(rate=100)),
        Operator(rate=100),
        Operator(rate=1000),
        parallelism={"first": 2},
        pause_s=30,
    )
    engine.advance(60)
    engine.change({"first": 3})
    restart, after = engine.advance(90), engine.advance(120)
    assert [rows(restart, name) for name in ("source", "first", "second")] == [0, 0, 0]
    assert restart.latency_s[-1] == pytest.approx(30, abs=3)
    assert restart.core_seconds == 30 * 4
    assert (
        rows(after, "source") > 150
    )  # 30 s of backlog at twice what arrives, once queues are full
    assert engine.advance(200).latency_s[-1] < 3


def test_a_live_change_stops_nothing():
    engine = chain(Source(load=Constant(rate=150)), Operator(rate=100), Operator(rate=1000))
    engine.advance(60)
    engine.change({"first": 2})
    assert rows(engine.advance(90), "first") == pytest.approx(
        (100 + 29 * 200) / 30
    )  # what is queued first


def test_a_generator_that_was_blocked_never_makes_up_for_it():
    load = Steps(rates=((0, 300), (60, 50)))
    engine = chain(Source(load=load, keeps=False), Operator(rate=100), Operator(rate=1000))
    engine.advance(70)
    window = engine.advance(120)
    assert rows(window, "first") == pytest.approx(50)
    assert window.seen.arrivals["source"].backlog == 0


def test_reports_are_noisy_if_asked_and_the_same_with_the_same_seed():
    def reported(**noise):
        engine = chain(
            Source(load=Constant(rate=100)),
            Operator(rate=100),
            Operator(rate=1000),
            parallelism={"first": 50},
            **noise,
        )
        return engine.advance(60).seen.activities["first"].reports.useful_s

    exact, noisy = reported(), reported(noise=0.2, seed=4)
    assert np.log(noisy / exact).std() == pytest.approx(0.2, abs=0.06)
    assert (noisy == reported(noise=0.2, seed=4)).all()
    assert not (noisy == reported(noise=0.2, seed=5)).any()


def test_the_oracle_has_the_least_that_keeps_up():
    flow = Dataflow(
        topology=CHAIN,
        sources={"source": Source(load=Steps(rates=((0, 95), (60, 310), (120, 0))))},
        operators={
            "first": Operator(rate=100, selectivity={"second": 2}, unobserved=0.05),
            "second": Operator(rate=100, contention=0.05),
        },
    )
    oracle = ContinuousEngine(flow).oracle(np.array([0.0, 60, 120, 180]))
    assert oracle.parallelism["first"].tolist() == [1, 4, 1]
    second = [oracle.parallelism["second"][n] for n in range(3)]
    capacity = flow.operators["second"].capacity
    assert all(
        capacity(int(p)) >= need and (p == 1 or capacity(int(p) - 1) < need)
        for p, need in zip(second, [190, 620, 0], strict=True)
    )
    assert oracle.core_seconds == 60 * sum([1, 4, 1, *second])
    half = ContinuousEngine(flow).oracle(np.array([0.0, 60, 120]), utilisation=0.5)
    assert half.parallelism["first"].tolist() == [2, 7]
    with pytest.raises(RefusedError, match="utilisation=0"):
        ContinuousEngine(flow).oracle(np.array([0.0, 60]), utilisation=0)


def test_the_cost_of_a_day_does_not_depend_on_the_parallelism():
    engine = chain(
        Source(load=Wave(mean=1000, swing=500)),
        Operator(rate=1),
        Operator(rate=1),
        parallelism={"first": 2000, "second": 2000},
    )
    engine.advance(3600)
    assert engine.ticks == 3600
    assert [len(each.counts) for each in engine._operators.values()] == [1, 1]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Operator(rate=0),
        lambda: Operator(rate=1, unobserved=1),
        lambda: Operator(rate=1, heavy=(0.7, 0.7)),
        lambda: Operator(rate=1, speeds=(0,)),
        lambda: chain(Source(load=Constant(rate=1)), Operator(rate=1), Operator(rate=1), tick_s=2),
        lambda: chain(Source(load=Constant(rate=1)), Operator(rate=1), Operator(rate=1), tick_s=-1),
        lambda: chain(
            Source(load=Constant(rate=1)), Operator(rate=1), Operator(rate=1), low_watermark=1
        ),
        lambda: chain(
            Source(load=Constant(rate=1)), Operator(rate=1, speeds=(2,)), Operator(rate=1)
        ),
        lambda: chain(
            Source(load=Constant(rate=1)), Operator(rate=1), Operator(rate=1), parallelism={"x": 1}
        ),
        lambda: chain(
            Source(load=Constant(rate=1)), Operator(rate=1, selectivity={"x": 1}), Operator(rate=1)
        ),
        lambda: chain(
            Source(load=Constant(rate=1)),
            Operator(rate=1, selectivity={"second": -1}),
            Operator(rate=1),
        ),
        lambda: chain(Source(load=Constant(rate=1)), Operator(rate=1), Operator(rate=1)).advance(0),
        lambda: Dataflow(topology=CHAIN, sources={}, operators={}),
    ],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(RefusedError, match=r"give|advance it|the topology has|does not read it"):
        wrong()


def test_latency_is_the_age_of_the_oldest_record():
    # 300 arrive and 100 are read a second, in a tick as many as the full queue lost: the 6,000th arrived after 20 s. It
    # waits for 1 s in the queue, and for 0.1 s while the second operator processes what the first sends in a tick.
    engine = chain(Source(load=Constant(rate=300)), Operator(rate=100), Operator(rate=1000))
    window = engine.advance(60)
    assert window.latency_s[-1] == pytest.approx(40 + 1.1)
