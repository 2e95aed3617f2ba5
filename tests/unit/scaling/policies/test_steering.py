"""Steering: every reason to hold a change back, each once, and what it never does."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.errors import RefusedError
from rechannel.scaling.policies.damping import EXECUTORS
from rechannel.scaling.policies.ds2 import Ds2
from rechannel.scaling.policies.judging import Failed, already_failed, health
from rechannel.scaling.policies.policy import Advice
from rechannel.scaling.policies.steering import SteeredPolicy, carried_out, step
from rechannel.scaling.policies.steering_settings import Steering
from rechannel.scaling.policies.steering_state import FREE, Price, Steered

from .windows import batches, linear, tasks_of

RATES = {"flatmap": 100.0, "count": 100.0}
COST = {"fixed_ms": 1, "row_ms": 1, "timesteps": 10, "interval_ms": 1000}
EAGER = Steering(warm_up_s=0, down_delay_s=0, horizon_s=None, most_changes=1000)


@dataclass(frozen=True)
class Says:
    """A policy that says what it was given, in turn, and the last of it from then on."""

    advice: tuple[Advice | None, ...]

    def decide(self, seen, memory):
        number = memory or 0
        return self.advice[min(number, len(self.advice) - 1)], number + 1


def wants(*counts: int) -> Says:
    return Says(tuple(Advice(parallelism={"flatmap": count}, reason="so") for count in counts))


@dataclass
class Stream:
    """A stream that does what it is advised."""

    settings: Steering
    policy: object
    plan: dict[str, int] = field(default_factory=lambda: {"flatmap": 10, "count": 20})
    arriving: float = 1000.0
    state: Steered | None = None
    at: float = 0.0
    price: Price = FREE

    def window(self):
        """One window of 10 s; returns how it was decided, and what."""
        seen = linear(self.arriving, self.plan, RATES, start_s=self.at)
        action, self.state = step(
            self.settings, self.policy, seen, self.state, lambda _seen, _advice: self.price
        )
        self.at += 10
        if action is not None:
            self.plan |= action.parallelism
        return self.state.decision.outcome, action

    def outcomes(self, windows: int) -> list[str]:
        return [self.window()[0] for _ in range(windows)]


def test_a_change_is_advised_with_only_what_changes_and_why():
    stream = Stream(EAGER, wants(12))
    outcome, action = stream.window()
    assert outcome == "changed"
    assert action.parallelism == {"flatmap": 12}
    assert action.reason == "flatmap 10 -> 12: so"


def test_no_change_is_made_while_all_is_well():
    assert Stream(EAGER, Says((None,))).outcomes(2) == ["enough", "enough"]


def test_windows_within_the_interval_are_not_evaluated():
    stream = Stream(replace(EAGER, interval_s=30), wants(10, 12))
    assert stream.outcomes(5) == ["enough", "interval", "interval", "changed", "interval"]


def test_windows_within_the_warm_up_do_not_count():
    stream = Stream(replace(EAGER, warm_up_s=20), wants(12, 14))
    assert stream.outcomes(4) == ["changed", "warm-up", "warm-up", "changed"]


def test_the_warm_up_begins_when_the_change_is_complete():
    stream = Stream(replace(EAGER, warm_up_s=20), wants(12, 14))
    stream.window()
    stream.state = carried_out(stream.state, 25.0)
    assert stream.outcomes(5) == ["warm-up"] * 4 + ["changed"]


@pytest.mark.parametrize(("combine", "flatmap"), [("max", 16), ("median", 13)])
def test_some_evaluations_in_a_row_are_combined(combine, flatmap):
    stream = Stream(replace(EAGER, activation=3, combine=combine), wants(12, 16, 13))
    assert stream.outcomes(3) == ["activation", "activation", "changed"]
    assert stream.plan["flatmap"] == flatmap


def test_an_evaluation_that_wants_nothing_starts_the_row_again():
    stream = Stream(replace(EAGER, activation=2), wants(12, 10, 12, 12))
    assert stream.outcomes(4) == ["activation", "enough", "activation", "changed"]


def test_small_changes_are_ignored_but_belong_to_larger_ones():
    settings = replace(EAGER, ignore_up=1, ignore_down=2)
    one = Advice(parallelism={"flatmap": 11, "count": 18})
    assert Stream(settings, Says((one,))).outcomes(1) == ["hysteresis"]
    stream = Stream(settings, Says((replace(one, parallelism={"flatmap": 12, "count": 19}),)))
    assert stream.outcomes(1) == ["changed"]
    assert stream.plan == {"flatmap": 12, "count": 19}


def test_less_is_taken_only_after_a_delay_and_then_the_most_of_it():
    settings = replace(EAGER, down_delay_s=30, roll_back=False)
    stream = Stream(settings, wants(6, 8, 7, 5, 5))
    assert stream.outcomes(4) == ["delay", "delay", "delay", "changed"]
    assert stream.plan["flatmap"] == 8


def test_growing_does_not_wait_for_what_may_shrink():
    both = Advice(parallelism={"flatmap": 12, "count": 10})
    stream = Stream(replace(EAGER, down_delay_s=30, roll_back=False), Says((both,)))
    assert stream.outcomes(4) == ["changed", "delay", "delay", "changed"]
    assert stream.plan == {"flatmap": 12, "count": 10}


def test_fewer_tasks_are_delayed_only_with_the_executors_that_they_are_for():
    settings = replace(EAGER, down_delay_s=20, roll_back=False)
    tasks = {name: tasks_of(100, 8, **COST) for name in ("flatmap", "count")}
    fewer = Advice(parallelism={"flatmap": 4})
    for executors, first in ((4, {"flatmap": 4}), (2, None)):
        policy, state, actions = Says((replace(fewer, executors=executors),)), None, []
        for number in range(3):
            seen = batches(executors=4, start_s=10.0 * number, activities=tasks)
            action, state = step(settings, policy, seen, state)
            actions.append(action)
        assert (actions[0] and actions[0].parallelism) == first
        assert actions[2].parallelism == {"flatmap": 4}
        assert actions[2].executors == (None if executors == 4 else 2)


def test_numbers_stay_within_their_bounds():
    settings = replace(EAGER, parallelism=(2, 15), operators={"count": (3, 40)}, executors=(2, 4))
    stream = Stream(settings, Says((Advice(parallelism={"flatmap": 99, "count": 99}),)))
    stream.window()
    assert stream.plan == {"flatmap": 15, "count": 40}
    action, _ = step(settings, Says((Advice(executors=9),)), batches(executors=3))
    assert action.executors == 4


def test_a_stream_out_of_its_bounds_is_brought_back():
    action, state = step(replace(EAGER, executors=(3, 4)), Says((None,)), batches(executors=2))
    assert (action.executors, state.decision.outcome) == (3, "changed")


def test_changes_per_time_are_capped():
    settings = replace(EAGER, most_changes=2, per_s=50)
    stream = Stream(settings, wants(11, 12, 13, 13, 13, 13))
    assert stream.outcomes(6) == ["changed", "changed", "cap", "cap", "cap", "changed"]


def test_a_plan_that_is_worse_is_taken_back_and_not_tried_again_until_the_load_differs():
    stream = Stream(EAGER, wants(5, 5, 4, 8, 5))
    assert stream.window()[0] == "changed"
    outcome, action = stream.window()  # 500 of 1000 records per second
    assert (outcome, action.parallelism) == ("rolled back", {"flatmap": 10})
    assert "50% of what arrives is processed, and it was 100%" in action.reason
    assert stream.outcomes(2) == ["failed", "failed"]  # 5 again, and 4
    assert stream.outcomes(1) == ["changed"]  # 8 goes less far
    stream = Stream(replace(EAGER, barred_s=15), wants(5))
    assert stream.outcomes(4) == ["changed", "rolled back", "failed", "changed"]
    stream = Stream(EAGER, wants(5))
    assert stream.outcomes(3) == ["changed", "rolled back", "failed"]
    stream.arriving = 500.0
    assert stream.outcomes(3) == ["changed", "enough", "enough"]
    assert stream.plan["flatmap"] == 5


def test_timesteps_that_become_late_are_worse():
    settings = replace(EAGER, roll_back=True)
    policy = Says((Advice(executors=2), None))
    before = batches(executors=4, interval_ms=1000, durations_ms=(900.0,))
    _, state = step(settings, policy, before)
    late = batches(executors=2, start_s=10, interval_ms=1000, durations_ms=(1700.0, 1800, 1900))
    action, state = step(settings, policy, late, state)
    assert (action.executors, state.decision.outcome) == (4, "rolled back")


def test_a_plan_for_a_stream_that_lags_is_not_judged():
    policy = Says((Advice(executors=6), None))
    slow = {"interval_ms": 1000, "durations_ms": (900.0,)}
    before = batches(executors=4, backlog=300.0, **slow)
    assert health(before).lagging
    _, state = step(EAGER, policy, before)
    later = batches(executors=6, start_s=10, interval_ms=1000, durations_ms=(9000.0,))
    _, state = step(EAGER, policy, later, state)
    assert state.decision.outcome == "enough"


def test_rows_of_a_backlog_do_not_make_timesteps_late():
    tasks = {"flatmap": tasks_of(300, 2, **COST)}
    seen = batches(activities=tasks, interval_ms=1000, durations_ms=(1200.0,) * 10, rate=100)
    assert health(seen).lateness == pytest.approx(0.4)


def test_a_policy_that_wants_to_see_more_is_not_content():
    class Waits:
        def decide(self, seen, memory):
            return Advice(reason="one more window"), memory

    _, state = step(Steering(), Waits(), batches(interval_ms=1000))
    assert (state.decision.outcome, state.decision.why) == ("wait", "one more window")


def test_a_timestep_that_ends_after_the_window_was_read_within_it():
    # 5 timesteps of 2 s are due in 10 s, and 4 of them, or 6, end within it.
    four = {"flatmap": tasks_of(100, 2, **COST | {"interval_ms": 2000, "timesteps": 4})}
    seen = batches(activities=four, interval_ms=2000, durations_ms=(1900.0,) * 4)
    assert health(seen).achieved == 1
    two = {"flatmap": tasks_of(100, 2, **COST | {"interval_ms": 2000, "timesteps": 2})}
    seen = batches(activities=two, interval_ms=2000, durations_ms=(1900.0,) * 2)
    assert health(seen).achieved == pytest.approx(0.6)


def test_timesteps_that_take_longer_than_an_interval_lag_whatever_they_read():
    more = {"flatmap": tasks_of(200, 2, **COST)}
    seen = batches(activities=more, interval_ms=1000, durations_ms=(1900.0,) * 10)
    assert health(seen).lateness < 1
    assert health(seen).lagging


def test_a_window_that_works_off_a_backlog_does_not_judge():
    policy = Says((Advice(executors=6), None))
    timesteps = {"interval_ms": 1000, "durations_ms": (900.0,) * 10}
    even = {"flatmap": tasks_of(100, 2, **COST)}
    _, state = step(EAGER, policy, batches(executors=4, activities=even, **timesteps))
    late = {"interval_ms": 1000, "durations_ms": (2000.0,) * 10, "executors": 6}
    more = {"flatmap": tasks_of(130, 2, **COST)}
    seen = batches(activities=more, start_s=10, **late)
    assert health(seen).catching_up
    _, state = step(EAGER, policy, seen, state)
    assert state.decision.outcome == "enough"
    _, state = step(EAGER, policy, batches(activities=even, start_s=20, **late), state)
    assert state.decision.outcome == "rolled back"


def test_a_stream_that_lags_may_grow_to_a_plan_that_failed():
    policy = Says((Advice(executors=6), Advice(executors=6)))
    good, bad = ({"interval_ms": 1000, "durations_ms": (each,) * 10} for each in (900.0, 2000.0))
    _, state = step(EAGER, policy, batches(executors=4, **good))
    _, state = step(EAGER, policy, batches(executors=6, start_s=10, **bad), state)
    assert state.decision.outcome == "rolled back"
    _, held = step(EAGER, policy, batches(executors=4, start_s=20, **good), state)
    assert held.decision.outcome == "failed"
    _, grown = step(EAGER, policy, batches(executors=4, start_s=20, **bad), state)
    assert grown.decision.outcome == "changed"


def test_a_change_is_judged_by_the_median_of_some_windows():
    stream = Stream(replace(EAGER, judged_after=3), wants(5))
    assert stream.outcomes(4) == ["changed", "judging", "judging", "rolled back"]


def test_the_policy_is_asked_while_a_backlog_is_worked_off():
    """Such windows do not judge the last change, and there may be many of them."""
    settings, policy = (
        replace(EAGER, judged_after=2),
        Says((Advice(executors=6), Advice(executors=9))),
    )
    timesteps = {"interval_ms": 1000, "durations_ms": (900.0,) * 10}
    even, more = ({"flatmap": tasks_of(rate, 2, **COST)} for rate in (100, 130))
    outcomes, state = [], None
    for number, activities in enumerate((even, even, more)):
        executors = 4 if not number else 6
        seen = batches(
            executors=executors, start_s=10.0 * number, activities=activities, **timesteps
        )
        _, state = step(settings, policy, seen, state)
        outcomes.append(state.decision.outcome)
    assert outcomes == ["changed", "judging", "changed"]


def test_another_load_is_no_reason_to_take_a_plan_back():
    stream = Stream(EAGER, wants(9, 9))
    stream.window()
    stream.arriving = 2000.0
    assert stream.outcomes(1) == ["enough"]


def test_a_change_that_never_came_into_effect_is_not_judged():
    stream = Stream(EAGER, wants(5, 10))
    stream.window()
    stream.plan["flatmap"] = 10
    assert stream.outcomes(1) == ["enough"]


def test_saving_cores_must_pay():
    settings = replace(EAGER, horizon_s=100, roll_back=False)
    # One core less saves 100 core-seconds; the delay is paid for 30 cores.
    for price, outcome in ((Price(core_s=101), "price"), (Price(delay_s=3.4), "price")):
        assert Stream(settings, wants(9), price=price).outcomes(1) == [outcome]
    assert Stream(settings, wants(9), price=Price(core_s=10, delay_s=3)).outcomes(1) == ["changed"]
    assert Stream(settings, wants(11), price=Price(core_s=1e9)).outcomes(1) == ["changed"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"interval_s": -1},
        {"activation": 0},
        {"combine": "mean"},
        {"horizon_s": 0},
        {"parallelism": (3, 2)},
        {"operators": {"count": (0, 2)}},
        {"worse": float("nan")},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(RefusedError, match="give"):
        Steering(**wrong)


@given(st.integers(1, 60), st.integers(1, 60), st.floats(1, 4000), st.floats(0.3, 1))
def test_ds2_under_steering_changes_a_linear_stream_once(flatmap, count, arriving, utilisation):
    settings = Steering(warm_up_s=10, down_delay_s=20)
    stream = Stream(settings, Ds2(utilisation=utilisation), {"flatmap": flatmap, "count": count})
    stream.arriving = arriving
    before = dict(stream.plan)
    actions = [action for _, action in (stream.window() for _ in range(9)) if action is not None]
    need = linear(arriving, {"flatmap": 10_000, "count": 10_000}, RATES)
    right, _ = Ds2(utilisation=utilisation).decide(need, None)
    # What shrinks waits for its delay; all that grows does so at once.
    grows = {n for n in before if right.parallelism[n] > before[n]}
    shrinks = {n for n in before if right.parallelism[n] < before[n]}
    assert len(actions) == bool(grows) + bool(shrinks)
    assert stream.plan == right.parallelism
    if grows:
        assert set(actions[0].parallelism) == grows


numbers = st.integers(1, 500)


@given(
    st.lists(st.tuples(numbers, numbers), min_size=1, max_size=12),
    st.tuples(st.integers(1, 20), st.integers(20, 60)),
    st.integers(1, 3),
    st.floats(100, 5000),
)
def test_bounds_are_never_left(advice, bounds, activation, arriving):
    says = Says(tuple(Advice(parallelism={"flatmap": a, "count": b}) for a, b in advice))
    settings = replace(EAGER, parallelism=bounds, activation=activation, down_delay_s=20)
    stream = Stream(settings, says, {"flatmap": bounds[0], "count": bounds[1]}, arriving)
    for _ in range(15):
        stream.window()
        assert all(bounds[0] <= number <= bounds[1] for number in stream.plan.values())


def test_steering_is_itself_a_policy():
    seen = linear(1000, {"flatmap": 1, "count": 1}, RATES)
    advice, state = SteeredPolicy(policy=Ds2()).decide(seen, None)
    assert advice.parallelism == {"flatmap": 10, "count": 20}
    assert state.decision.outcome == "changed"


def test_other_tasks_on_as_few_executors_are_the_plan_that_failed():
    before, plan = {"count": 5, EXECUTORS: 5}, {"count": 2, EXECUTORS: 2}
    failed = Failed(at_s=0.0, plan=plan, before=before, load=100.0)
    for count, executors, alike in ((2, 2, True), (4, 2, True), (2, 1, True), (2, 3, False)):
        found = already_failed({"count": count, EXECUTORS: executors}, [failed])
        assert (found is failed) == alike
    tasks = Failed(at_s=0.0, plan={"count": 2, EXECUTORS: 5}, before=before, load=100.0)
    assert already_failed({"count": 1, EXECUTORS: 5}, [tasks]) is tasks
    assert already_failed({"count": 3, EXECUTORS: 5}, [tasks]) is None
