"""The benchmark of a simulated day: its loads, and what it counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.registry import BENCHMARKS
from benchmarks.scaling_day import DAY_S, LOADS, load_of
from tests.support.benchmarks import bench


@pytest.mark.parametrize("name", LOADS)
def test_a_load_has_its_mean_but_for_what_it_is_named_after(name: str) -> None:
    hours = np.arange(25) * 3600.0
    arrivals = load_of(name, 100.0, seed=1).arrivals(hours) / 3600
    factor = {"wave": 1, "bursts": 1 + 2 * 300 / 3600, "noise": 1, "stop": 0.75}[name]
    assert arrivals.mean() == pytest.approx(100 * factor, rel=0.01)
    assert (arrivals.std() > 1) == (name in ("wave", "stop"))
    assert hours[-1] == DAY_S


def test_every_load_is_told_with_its_worst_seed(tmp_path: Path) -> None:
    chosen = BENCHMARKS["scaling-day"]
    parameters = chosen.parameters(quick=True, overrides={"seconds": 1_200.0, "seeds": 2})
    result = chosen.run(parameters, bench(tmp_path))
    assert [each.label for each in result.picture.series] == list(LOADS)
    least = [each.value for each in result.metrics if each.name == "time in target, least"]
    most = [each.value for each in result.metrics if each.unit == "x"]
    assert result.ratios["share_in_target"] == min(least) / 100
    assert result.ratios["least_over_paid"] == 1 / max(most)
    assert max(most) > 1
