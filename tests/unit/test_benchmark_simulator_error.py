"""The benchmark of the simulator's error: a recorded run beside the same run in the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import trials
from benchmarks.registry import BENCHMARKS
from benchmarks.simulator_error import NAME, compared, costs_of
from tests.support.benchmarks import bench, succeeded
from tests.support.scaled_runs import recorded_run

CHOSEN = BENCHMARKS["simulator-error"]


def test_a_run_that_takes_what_the_model_says_is_simulated_exactly():
    found = compared(recorded_run(), 4)
    assert found.simulated_ms == pytest.approx(found.measured_ms)
    assert [round(each, 3) for each, _ in found.cores] == [0.121, 0.681, 1.361, 0.481, 1.121]
    assert max(found.cores_errors()) == pytest.approx(0)
    assert sum(found.unseen) == 12


def test_costs_are_fitted_to_the_first_phases_only():
    slow = recorded_run(slower=1.25)
    early = [each for each in slow["timesteps"] if each["phase"] < 2]
    costs = costs_of(early)
    assert costs.fixed_ms["counts"] == pytest.approx(80)
    assert costs.row_ms["counts"] == pytest.approx(4)
    assert (costs.driver_ms, costs.launch_ms) == (pytest.approx(50), 0)
    found = compared(slow, 4)
    assert found.errors(unseen=False)[:8] == pytest.approx([0] * 8, abs=1e-9)
    # 680 ms of tasks were simulated where 850 were measured, and 2 and 50 of others in both.
    assert found.errors(unseen=True)[0] == pytest.approx(1 - 732 / 902)


def test_fewer_cores_take_more_waves():
    found = compared(recorded_run(cores=2), 2)
    assert found.simulated_ms == pytest.approx(found.measured_ms)


def test_errors_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = recorded_run(slower=1.25)
    monkeypatch.setattr(trials, "run_variant", lambda v, *_, **__: succeeded(v.name, made))
    result = CHOSEN.run(CHOSEN.parameters(quick=True, overrides={}), bench(tmp_path))
    told = {each.name: each.value for each in result.metrics if each.variant == NAME}
    assert told["error in later phases, median"] == pytest.approx(18.8, abs=1)
    assert told["error of needed cores in later phases, worst"] == pytest.approx(20, abs=0.5)
    assert result.ratios["bound_10_percent"] == pytest.approx(0.1 / 0.188, abs=0.05)


def test_a_phase_without_enough_timesteps_is_not_compared():
    short = recorded_run()
    short["timesteps"] = short["timesteps"][4:]
    with pytest.raises(ValueError, match="more seconds"):
        compared(short, 4)
