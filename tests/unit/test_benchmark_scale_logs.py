"""The benchmark of advice from event logs: the second run of a case follows the advice of the first."""

from __future__ import annotations

import pytest

from benchmarks import scale_logs
from benchmarks.harness import Workbench
from benchmarks.process import Run
from benchmarks.trials import Trials
from tests.support.scaled_runs import advised_run


class Quiet:
    def step(self, text):
        del text

    def detail(self, text):
        del text


@pytest.fixture
def asked(monkeypatch):
    """What was run; batches take 6 s at first, and 2.5 s with the advice."""
    found = []

    def run_trials(variants, bench, **more):
        del bench, more
        found.extend(variants)
        runs = [
            Run(
                variant=each.name,
                measurement=advised_run(2_500.0 if "advised" in each.name else 6_000.0),
                failure=None,
                memory={},
            )
            for each in variants
        ]
        return Trials(runs=tuple(runs))

    monkeypatch.setattr(scale_logs, "run_trials", run_trials)
    return found


def test_the_advice_is_applied_and_compared(asked):
    parameters = scale_logs.BENCHMARK.parameters(quick=True, overrides={})
    found = scale_logs.run(parameters, Workbench(scratch="", progress=Quiet()))
    names = list(scale_logs.CASES)
    assert [each.name for each in asked] == [*names, *(f"{name}-advised" for name in names)]
    assert asked[0].parameters["cores"] == 1
    assert {each.parameters["cores"] for each in asked[len(names) :]} == {4}
    assert {each.parameters["partitions"] for each in asked[len(names) :]} == {3}
    assert asked[2].parameters["rate"] == asked[2 + len(names)].parameters["rate"] == 2_500
    # 2 s are 20 % less than 2.5 s: just the goal.
    assert found.ratios == pytest.approx({f"bound_{name}": 1.0 for name in names})
    shown = {each.name: each.value for each in found.metrics if each.variant == "too-few"}
    assert shown["error"] == pytest.approx(20)
    assert shown["time of tasks in Java before"] == pytest.approx(60)


def test_a_run_of_few_batches_is_no_measurement():
    one = scale_logs.variant("one", {}, scale_logs.BENCHMARK.parameters(quick=True, overrides={}))
    with pytest.raises(ValueError, match="one has 2 batches: give it more seconds"):
        scale_logs._usable(one, {"batches": 2})
