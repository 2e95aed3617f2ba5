"""The benchmark of a simulated day: its loads, and what it counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.registry import BENCHMARKS
from benchmarks.scaling_day import DAY_S, ENGINES, LOADS, load_of
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
    parameters = chosen.parameters(quick=True, overrides={"seconds": 600.0, "seeds": 2})
    result = chosen.run(parameters, bench(tmp_path))
    labels = [f"{load}, {kind}" for kind in ENGINES for load in LOADS]
    assert [each.label for each in result.picture.series] == labels
    for kind in ENGINES:
        of = [each for each in result.metrics if each.variant.endswith(kind)]
        least = min(each.value for each in of if each.name == "time in target, least")
        most = max(each.value for each in of if each.unit == "x")
        assert result.ratios[f"share_in_target_{kind}"] == least / 100
        assert result.ratios[f"least_over_paid_{kind}"] == 1 / most
        assert most > 1


def test_an_evaluation_is_timed_with_its_window(tmp_path: Path) -> None:
    chosen = BENCHMARKS["scaling-cost"]
    overrides = {"operators": 3, "tasks": 5, "evaluations": 3, "repeats": 2}
    parameters = chosen.parameters(quick=True, overrides=overrides)
    result = chosen.run(parameters, bench(tmp_path))
    found = {each.name: each.value for each in result.metrics}
    assert 0 < found["of it the window, median"] < found["evaluation, median"]
    assert result.ratios["bound_1_ms"] == pytest.approx(1 / found["evaluation, median"])
    assert len(result.picture.series[0].x) == 3
