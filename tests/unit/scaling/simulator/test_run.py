"""Runs: policies change engines, stories tell what became of it, and the oracle is below every policy in the target."""

import numpy as np
import pytest

from rechannel.errors import RefusedError
from rechannel.scaling.policies.policy import Advice
from rechannel.testing import scaling as kit
from rechannel.testing.scaling import (
    BatchOperator,
    Cluster,
    Constant,
    ContinuousEngine,
    Dataflow,
    MicroBatchEngine,
    Noise,
    Operator,
    Pace,
    Source,
    SteeredPolicy,
    Steering,
    Steps,
    Wave,
    policy_named,
    simulate,
    topology,
)

GRAPH = topology([("sentences", "flatmap"), ("flatmap", "count")])
MINUTE = 60.0


def heron():
    """The word count of DS2's figures 1 and 6: 1 M sentences of 20 words a minute."""
    rate = 1e6 / MINUTE
    return Dataflow(
        topology=GRAPH,
        sources={"sentences": Source(load=Constant(rate=rate), limit=rate, keeps=False)},
        operators={
            "flatmap": Operator(rate=1e5 / MINUTE, selectivity={"count": 20}),
            "count": Operator(rate=1e6 / MINUTE),
        },
    )


class Scripted:
    """Gives one piece of advice after another."""

    def __init__(self, *advice):
        self.advice = advice

    def decide(self, _seen, memory):
        number = memory or 0
        return (self.advice[number] if number < len(self.advice) else None), number + 1


def test_ds2_scales_heron_s_word_count_in_one_decision():
    story = simulate(ContinuousEngine(heron()), policy_named("ds2"), until_s=2400)
    assert [(each.at_s, each.after) for each in story.changes] == [
        (60, {"flatmap": 10, "count": 20})
    ]
    assert story.oracle.parallelism["flatmap"].tolist() == [10] * 40
    assert story.oracle.parallelism["count"].tolist() == [20] * 40
    # 2 instances in the first minute, and exactly those of the oracle from then on
    assert story.core_seconds == 60 * 2 + 2340 * 30


def test_dhalion_needs_more_decisions_and_more_instances():
    # The paper measured 6 decisions, 2000 s and 22/30. On a fluid, the published formulas lead to 5, 1020 s and 11/23:
    # back-pressure is exact here, and the generator never makes up for what it could not send.
    story = simulate(ContinuousEngine(heron()), policy_named("dhalion"), until_s=7200)
    last = story.changes[-1]
    assert (len(story.changes), last.at_s, last.after) == (5, 1020, {"flatmap": 11, "count": 23})
    one_at_a_time = [sum(c.after[n] != c.before[n] for n in c.after) for c in story.changes]
    assert one_at_a_time == [1] * 5


def test_a_story_has_what_was_there_and_what_was_paid():
    advice = [
        Advice(parallelism={"flatmap": 3, "sentences": 5}, reason="more"),
        Advice(parallelism={"flatmap": 3, "sentences": 5}),  # is what it has already
        Advice(parallelism={"count": 2}),
    ]
    story = simulate(ContinuousEngine(heron()), Scripted(*advice), until_s=290)
    assert [each.at_s for each in story.changes] == [60, 180]
    assert story.changes[0].before == {"flatmap": 1, "count": 1}
    assert story.changes[0].reason == "more"
    assert story.edges_s.tolist() == [0, 60, 120, 180, 240, 290]
    assert story.parallelism["flatmap"].tolist() == [1, 3, 3, 3, 3]
    assert story.cores.tolist() == [2, 4, 4, 5, 5]
    assert story.core_seconds == 60 * (2 + 4 + 4 + 5) + 50 * 5
    assert story.arrived == pytest.approx([1e6 / 60] * 5)
    assert story.spans_s.sum() == pytest.approx(290)


def test_the_share_of_time_in_target_leaves_out_what_it_is_told_to():
    flow = Dataflow(
        topology=topology([("source", "all")]),
        sources={"source": Source(load=Steps(rates=((0, 50), (60, 200), (120, 50))))},
        operators={"all": Operator(rate=100)},
    )
    story = simulate(ContinuousEngine(flow), None, until_s=600)
    late = story.at_s[story.latency_s > 5]
    assert 60 < late[0] < 75
    assert 210 < late[-1] < 250  # 6,000 too many, at 50 a second
    assert story.in_target(5) == pytest.approx(1 - len(late) / 600)
    assert story.in_target(5, without=[(60, 250)]) == 1
    assert story.in_target(5, without=[(0, 600)]) == 1


def test_an_engine_that_no_longer_gets_anything_through_is_not_in_the_target():
    flow = Dataflow(
        topology=topology([("source", "all")]),
        sources={"source": Source(load=Steps(rates=((0, 10), (100, 100_000))))},
        operators={"all": BatchOperator(row_ms=10)},
    )
    engine = MicroBatchEngine(flow, Pace(interval_ms=1000), {}, executors=1)
    story = simulate(engine, None, until_s=1000)
    assert story.at_s[-1] < 103
    assert story.in_target(5) == pytest.approx(0.1, abs=0.01)


def test_executors_are_requested_once_and_counted_when_they_are_there():
    flow = Dataflow(
        topology=topology([("source", "all")]),
        sources={"source": Source(load=Constant(rate=100))},
        operators={"all": BatchOperator(row_ms=1)},
    )
    engine = MicroBatchEngine(
        flow, Pace(interval_ms=1000), {}, executors=1, cluster=Cluster(startup_s=90)
    )
    story = simulate(engine, Scripted(*[Advice(executors=3)] * 4), until_s=300)
    assert [(each.at_s, each.executors) for each in story.changes] == [(60, 3)]
    assert story.cores.tolist() == [1, 1, 3, 3, 3]
    assert story.core_seconds == pytest.approx(300 + 2 * 150)
    assert story.oracle.cores.tolist() == [1] * 5


def a_day(seed):
    load = Noise(load=Wave(mean=1000, swing=400), seed=seed, deviation=0.05)
    flow = Dataflow(
        topology=GRAPH,
        sources={"sentences": Source(load=load)},
        operators={
            "flatmap": Operator(rate=100, selectivity={"count": 3}),
            "count": Operator(rate=250),
        },
    )
    settings = Steering(interval_s=60, warm_up_s=60)
    policy = SteeredPolicy(policy=kit.policy_named("ds2"), settings=settings)
    engine = ContinuousEngine(flow, {"flatmap": 10, "count": 12}, pause_s=10)
    return engine, simulate(engine, policy, until_s=6 * 3600)


def test_hours_under_steering_are_the_same_again_and_cost_more_than_the_oracle_s():
    engine, story = a_day(seed=1)
    assert engine.ticks == 6 * 3600
    assert story.changes
    assert story.over_oracle > 0.95
    again = a_day(seed=1)[1]
    assert again.changes == story.changes
    assert (again.latency_s == story.latency_s).all()
    assert not np.array_equal(a_day(seed=2)[1].latency_s, story.latency_s)


def test_a_run_that_ends_before_it_begins_is_refused():
    for wrong in ({"until_s": 0}, {"until_s": 10, "every_s": 0}):
        with pytest.raises(RefusedError, match="give a later time"):
            simulate(ContinuousEngine(heron()), None, **wrong)


def test_every_public_name_is_there_and_explained():
    assert kit.__all__ == sorted(kit.__all__)
    assert all(getattr(kit, name).__doc__ for name in kit.__all__)
