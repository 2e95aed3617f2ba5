"""What is fetched ahead, in which pieces, and when that is enough."""

from dataclasses import replace

import pytest

from rechannel.engine.reconfigure.prefetch_plan import (
    LATEST,
    PASSES,
    PIECE,
    SOONEST,
    STEPS,
    Tally,
    bins_of_tasks,
    may_place_anew,
    moves_of_next_steps,
    pieces,
    worth_another,
)
from rechannel.kernels.lsm.ahead import Attended
from rechannel.model.hashspace import Intervals
from rechannel.reconfigure.steps import BinMove, Sizes, Step
from tests.support.changing import configuration, keyed, sized, two


def move(number, *, size=1.0, target=1):
    return BinMove(operator="op", lo=number, hi=number + 1, source=0, target=target, size=size)


def test_the_next_steps_are_fetched_and_what_stays_is_not():
    steps = [Step(moves=(move(number), move(number, target=0))) for number in range(STEPS + 5)]
    assert moves_of_next_steps(steps) == tuple(move(number) for number in range(STEPS))
    assert moves_of_next_steps(()) == ()


def test_pieces_have_about_so_many_bytes_and_at_least_one_bin():
    moves = [move(0, size=3), move(1, size=3), move(2, size=5), move(3, size=100), move(4)]
    cut = [(0, 2), (2, 3), (3, 4), (4, 5)]
    assert list(pieces(moves, 10)) == [Intervals.of([span]) for span in cut]
    assert list(pieces([], 10)) == []


@pytest.mark.parametrize(
    ("passes", "another"),
    [
        ([], True),
        ([100], True),
        ([0], False),
        ([100, 10], False),
        ([100, 60], True),
        ([100, 80], False),
        ([100, 60, 40], True),
        ([100, 60, 50], False),
        ([100, 60, 40, 25, 15][:PASSES], False),
    ],
)
def test_it_is_fetched_again_while_that_is_much_less_every_time(passes, another):
    assert worth_another(passes) is another


def test_what_all_hosts_did_is_counted_and_the_slowest_tells_how_long_it_takes():
    tally = Tally()
    tally.count(
        [
            Attended(done=True, pieces=2, bytes_fetched=1_000, bytes_present=1_000, ms=4.0),
            Attended(done=True, pieces=1, bytes_fetched=1_000, ms=10.0),
        ]
    )
    tally.count([Attended(done=True, pieces=1, bytes_present=500)])
    told = {"bytes_fetched": 2_000, "bytes_present": 1_500, "pieces": 4, "passes": [2_000, 0]}
    assert tally.to_json() == told
    assert tally.ms_per_byte == 0.01
    assert tally.patience(200_000, 0) == 2.0
    assert tally.patience(200_000, 1) == 1.0
    assert tally.patience(200_000, 4) == 4.0
    assert tally.patience(200_000, 40) == LATEST
    assert tally.patience(0, 0) == SOONEST


def test_a_task_that_goes_to_another_host_carries_all_of_its_bins():
    found = bins_of_tasks(two(), "counts", {1}, sized(two(), 7.0))
    routing = two().operators["counts"].routing
    assert [(one.lo, one.hi) for one in found] == [routing.span(b) for b in routing.bins_of(1)]
    assert {(one.source, one.size) for one in found} == {(1, 7.0)}
    assert {one.size for one in bins_of_tasks(two(), "counts", {1}, Sizes())} == {PIECE}


@pytest.mark.parametrize(
    ("later", "told"),
    [
        (two(), False),
        (replace(two(), interval_ms=5), False),
        (replace(two(), executors=3), True),
        (configuration(counts=keyed(placement={0: "1"}), sums=keyed()), True),
        (configuration(counts=keyed(tasks=1), sums=keyed()), True),
        (configuration(sums=keyed()), False),
    ],
)
def test_tasks_run_elsewhere_only_for_a_reason(later, told):
    assert may_place_anew(two(), later, "counts") is told
