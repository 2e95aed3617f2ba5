"""The benchmark placement: which timesteps count for which phase, and what makes a run worthless."""

import pytest

from benchmarks.harness import Variant
from benchmarks.placement import CONTROLLED, check, phases

STEPS = [[number, 100 if number < 30 else 400, 200] for number in range(1, 80)]


def made(*placed: int) -> dict[str, object]:
    causes = ["controller 'placement': saves 200 of 400 ms of a timestep"] * len(placed)
    return {
        "begun": 30,
        "installed": 45,
        "placed": list(placed),
        "causes": causes,
        "timesteps": STEPS,
    }


def numbers(placed: dict[str, object]) -> dict[str, list[float]]:
    return {name: [found[0][0], found[-1][0]] for name, found in phases(placed).items()}


def test_phases_leave_out_the_timesteps_between_them():
    assert numbers(made(52)) == {"calm": [10, 29], "neighbour": [32, 45], "afterwards": [55, 79]}
    assert numbers(made(52, 70))["afterwards"] == [73, 79]
    assert numbers(made())["afterwards"] == [48, 79]


def test_a_run_counts_only_if_the_controller_alone_has_placed_tasks():
    with_it, without = (
        Variant(name=name, function="benchmarks.placement:left", parameters={})
        for name in (CONTROLLED, "left alone")
    )
    check(with_it, made(52))
    check(without, made())
    with pytest.raises(ValueError, match="placed at"):
        check(with_it, made())
    with pytest.raises(ValueError, match="placed at"):
        check(without, made(52))
    with pytest.raises(ValueError, match="no timestep had a neighbour"):
        check(without, {**made(), "installed": 30})
