"""`batch-interval`: its source, and its figures from an invented run."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.batch_interval import BENCHMARK, by_step, check, curve, turns, verdict, within
from benchmarks.harness import Variant
from benchmarks.stepped_source import Stepped
from tests.support.benchmarks import stepped_run

SECOND = 1_000_000_000
ROWS = Stepped(start_ns=5, rate=0, partitions=2, rates=(10, 40, 20), seconds=(3, 2, 4), keys=7)
VARIANT = Variant(
    name="auto", function="benchmarks.interval_side:auto", parameters=BENCHMARK.defaults
)


def test_rows_come_into_being_at_the_rate_of_their_step():
    assert [ROWS.due(5 + second * SECOND) for second in (-1, 0, 3, 4, 5, 9, 10)] == [
        0, 0, 30, 70, 110, 190, 210,
    ]  # fmt: skip


@pytest.mark.parametrize("row", [0, 29, 30, 109, 110, 500])
def test_a_row_exists_from_its_creation_on(row):
    created = int(ROWS.created(np.array([row]))[0])
    assert ROWS.due(created) in {row - 1, row}
    assert ROWS.due(created + SECOND // 10) > row


def test_timesteps_and_changes_belong_to_the_step_of_load_in_which_they_began():
    found = by_step(stepped_run(VARIANT), BENCHMARK.defaults)
    assert [len(step["timesteps"]) for step in found] == [45, 45, 45, 45]
    assert [step["intervals"] for step in found] == [[500], [500, 700], [700], [700]]
    assert [step["settled"] for step in found] == [0, 3, 0, 0]
    assert verdict(found) == {"bound_turns": 1.0, "bound_settled": pytest.approx(10 / 3)}


def test_a_turn_is_a_change_of_direction():
    assert turns([1, 2, 3, 3, 2, 2, 4]) == 2
    assert turns([5]) == 0


def test_the_share_within_the_target():
    assert within([1.0, 2.0, 3.0, 4_000.0], {"latency_ms": 2.5}) == 50


def test_the_curve_has_the_interval_of_each_timestep():
    made = stepped_run(VARIANT)
    assert set(curve("auto", made).y) == {500.0, 700.0}


def test_a_run_without_all_rows_is_refused():
    made = stepped_run(VARIANT)
    check(VARIANT, made)
    del made["timesteps"][7]
    with pytest.raises(ValueError, match="are in no timestep"):
        check(VARIANT, made)
