"""The autoscaler of the Flink Kubernetes operator: its formulas by hand, its bands and its delays."""

import math
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.errors import RefusedError
from rechannel.scaling.policies.flink import Flink
from rechannel.scaling.policies.flink_formulas import (
    aligned,
    capacity,
    coefficient,
    new_parallelism,
    scale_factor,
)
from rechannel.scaling.policies.flink_settings import FlinkSettings

from .windows import linear

RATES = {"flatmap": 100.0, "count": 100.0}
DEFAULTS = FlinkSettings()
FREE = replace(DEFAULTS, key_groups=None)


def test_capacity():
    # 1000 / 0.7 + 1000 * 300 / 1800 + 50 = 1428.57 + 166.67 + 50
    assert capacity(DEFAULTS, 1000, 50, 0.7, restart=True) == 1645
    assert capacity(DEFAULTS, 1000, 50, 1.2, restart=False) == 1050
    assert math.isinf(capacity(DEFAULTS, 1000, 0, 0.0, restart=True))
    assert capacity(replace(DEFAULTS, catch_up_s=0), 700, 0, 0.7, restart=True) == 1000


def test_the_scale_factor_is_clamped():
    assert scale_factor(DEFAULTS, 300, 100) == 3
    assert scale_factor(DEFAULTS, 10, 100) == pytest.approx(0.4)
    assert scale_factor(replace(DEFAULTS, most_up=1), 300, 100) == 2
    assert scale_factor(DEFAULTS, 300, math.inf) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("present", "factor", "expected"),
    [(10, 1.31, 14), (10, 0.4, 4), (10, 99, 200), (250, 0.99, 248), (250, 1.5, 250)],
)
def test_parallelism_without_keys(present, factor, expected):
    assert new_parallelism(FREE, present, factor) == expected


@pytest.mark.parametrize(
    ("wanted", "present", "expected"),
    [
        (14, 10, 16),  # the next divisor of 128
        (70, 64, 128),
        (7, 20, 8),
        (33, 60, 32),  # up to 60 nothing divides; the first below with more key groups each
        (50, 60, 43),  # 42 would have 3 key groups each where 50 have 2, but does not divide 128
        (5, 6, 4),
    ],
)
def test_alignment_to_key_groups(wanted, present, expected):
    assert aligned(wanted, present, groups=128, least=1, most=200) == expected


def test_alignment_never_turns_the_direction():
    # Upwards nothing below 100 divides 128; downwards, 64 would be less than there is.
    assert aligned(90, 80, groups=128, least=1, most=100) == 80


def test_the_learned_coefficient():
    learning = replace(DEFAULTS, learn_coefficient=True)
    # base 100; (1 100 + 2 180 + 4 300) / ((1 + 4 + 16) 100) = 1660 / 2100 = 0.7905, rounded up
    assert coefficient(learning, [(1, 100.0), (2, 180.0), (4, 300.0)]) == 0.8
    assert coefficient(learning, [(1, 100.0), (2, 180.0)]) == 1
    assert coefficient(learning, [(1, 100.0), (10, 100.0), (20, 100.0)]) == 0.5


@given(
    st.integers(1, 300),
    st.floats(0, 20),
    st.integers(1, 10),
    st.integers(10, 250),
    st.sampled_from([None, 1, 100, 128, 360]),
)
def test_bounds_are_left_only_by_what_is_there_and_directions_are_kept(
    present, factor, least, most, groups
):
    settings = replace(DEFAULTS, least=least, most=most, key_groups=groups)
    number = new_parallelism(settings, present, factor)
    assert min(present, least, groups or least) <= number <= max(present, most)
    if groups is not None and present <= groups:
        assert number <= groups
        assert (number - present) * (factor - 1) >= 0


@given(st.floats(0, 1e5), st.floats(1, 5), st.integers(1, 150))
def test_more_arrives_no_fewer_instances_without_alignment(rate, times, present):
    def answer(arriving: float) -> int:
        needed = capacity(FREE, arriving, 0, FREE.utilisation, restart=True)
        return new_parallelism(FREE, present, scale_factor(FREE, needed, 100.0 * present))

    assert answer(rate) <= answer(rate * times)


@dataclass
class Job:
    """A job that does what it is advised, in windows of a minute."""

    policy: Flink
    plan: dict[str, int] = field(default_factory=lambda: {"flatmap": 10, "count": 20})
    arriving: float = 1000.0
    backlog: float = 0.0
    memory: object = None
    minute: int = 0

    def run(self, minutes: int) -> list[tuple[int, dict[str, int]]]:
        """The changes of these minutes, with the minute in which they were advised."""
        changes = []
        for _ in range(minutes):
            seen = linear(
                self.arriving,
                self.plan,
                RATES,
                start_s=60.0 * self.minute,
                window_s=60.0,
                backlog=self.backlog,
            )
            advice, self.memory = self.policy.decide(seen, self.memory)
            self.minute += 1
            if advice is not None:
                changes.append((self.minute, dict(advice.parallelism)))
                self.plan |= advice.parallelism
        return changes


def test_a_window_must_be_complete_and_all_operators_change_together():
    # 1000 arrive: (1000 / 0.7 + 1000 / 6) / 100 = 15.95; count twice that: 31.9.
    job = Job(Flink(settings=FREE), {"flatmap": 8, "count": 24})
    assert job.run(15) == [(15, {"flatmap": 16, "count": 32})]


def test_key_groups_round_up():
    # 16 divides 128 and stays; 14.9 -> 15 becomes 16.
    job = Job(Flink(), {"flatmap": 8, "count": 16}, arriving=930.0)
    assert job.run(15) == [(15, {"flatmap": 16, "count": 32})]


def test_after_a_change_it_waits_for_stabilisation_and_a_new_window():
    # Half of what arrives cannot be seen downstream of a bottleneck: it takes the lag to see it.
    job = Job(Flink(settings=FREE), {"flatmap": 8, "count": 24})
    job.run(15)
    job.arriving = 3000.0
    # The window of the change is the first: 5 minutes of stabilisation, 15 of the window.
    assert [minute for minute, _ in job.run(40)][:1] == [35]


def test_within_the_band_nothing_changes():
    # 13 instances would be busy for 77 % of the time: between 40 % and 100 %.
    job = Job(Flink(settings=FREE), {"flatmap": 13, "count": 26})
    assert job.run(60) == []


def test_shrinking_waits_for_an_hour_and_takes_the_most_of_it():
    job = Job(Flink(settings=FREE), {"flatmap": 60, "count": 120})
    assert job.run(40) == []
    job.arriving = 1300.0
    job.run(15)
    job.arriving = 1000.0
    # First wanted after 15 minutes, at 24 = 60 * 0.4; with 1300 a second also 24 (20.8 is below the clamp).
    assert job.run(20) == [(75, {"flatmap": 24, "count": 48})]


def test_a_backlog_counts_over_the_catch_up_time_and_opens_the_band():
    # 900,000 / 1800 = 500 a second more: (1000 / 0.7 + 1000 / 6 + 500) / 100 = 20.95
    job = Job(Flink(settings=FREE), {"flatmap": 12, "count": 24}, backlog=900_000.0)
    assert job.run(15) == [(15, {"flatmap": 21, "count": 42})]


def test_what_never_arrives_shrinks():
    job = Job(Flink(settings=FREE), arriving=0.0)
    assert job.run(75) == [(75, {"flatmap": 4, "count": 8})]


def test_a_scale_up_that_gains_nothing_is_not_repeated_if_that_is_switched_on():
    settings = replace(FREE, block_ineffective=True)
    for policy, grows in ((Flink(settings=settings), False), (Flink(settings=FREE), True)):
        job = Job(policy, {"flatmap": 8, "count": 24})
        job.run(15)
        job.arriving = 4000.0
        job.plan = {"flatmap": 16, "count": 32}
        slow = {"flatmap": 51.0, "count": 80.0}  # 16 * 51 is hardly more than 8 * 100
        later = []
        for _ in range(21):
            seen = linear(4000.0, job.plan, slow, start_s=60.0 * job.minute, window_s=60.0)
            advice, job.memory = policy.decide(seen, job.memory)
            job.minute += 1
            later += [] if advice is None else [advice.parallelism]
        assert any("flatmap" in each for each in later) == grows


@pytest.mark.parametrize(
    "wrong", [{"utilisation": 0}, {"least": 3, "most": 2}, {"window_s": -1}, {"key_groups": 0}]
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(RefusedError, match="give"):
        FlinkSettings(**wrong)
