"""ModelUpdate, in a running stream."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from rechannel.control.events import Unpaused
from rechannel.control.loading import Wanted
from rechannel.errors import DataflowError, RefusedError
from rechannel.serve.allowed import Allowed
from rechannel.serve.failures import ForbiddenError
from rechannel.state.stores.memory import MemoryStore
from rechannel.testing import Crash, Fault, FaultKind, Harness
from rechannel.testing.process import Process
from tests.unit.control.library import models
from tests.unit.engine.control.test_host import command

DRIFT = 6
TIMESTEPS = 18
LIMITS = [50] * DRIFT + [10] * (TIMESTEPS - DRIFT)
"""What is a positive case is more by the end: the first model misses most of it."""


def run(process: Process, rows: Any, limits: list[int], since: int = 0) -> None:
    for timestep, limit in enumerate(limits[since:], since):
        rows.push(models.cases(timestep, limit))
        process.run()


def seat(process: Process) -> Any:
    return process.controllers.board.seat("modelupdate")


def log(process: Process) -> list[str]:
    return [line.text for line in seat(process).log]


def wrong(harness: Harness) -> list[int]:
    """How many cases of each timestep were predicted wrongly."""
    out = [0] * TIMESTEPS
    for row in harness.state("cases").to_pylist():
        out[row["at"] // 1_000] += row["predicted"] != row["actual"]
    return out


def test_a_model_that_gets_worse_is_trained_again_once_and_gets_better():
    models.TRAINED.clear()
    rows, harness = models.stream()
    process = harness.start(controllers=[models.update(bound=0.9)])
    run(process, rows, LIMITS)
    (record,) = process.changes.coordination.records
    assert record.cause.startswith("controller 'modelupdate': operation modelupdate-1.")
    assert record.change.text == (
        "assign_logic('score', 'tests.unit.control.library.models:over', parameters={\"limit\": 14})"
    )
    changed = record.last_timestep - 1  # from this one on, in the source's numbers
    missed = wrong(harness)
    assert missed[:DRIFT] == [0] * DRIFT
    assert all(missed[DRIFT:changed])
    assert missed[changed:] == [0] * (TIMESTEPS - changed)
    assert changed <= DRIFT + 6
    assert log(process)[-1].startswith("update 1: F1 0.")
    assert log(process)[-1].endswith(" -> 1.00")
    assert seat(process).metrics["f1"] == {"score": 1.0}
    assert seat(process).state["updates"] == 1
    (trained,) = models.TRAINED
    assert trained[1] - trained[0] <= 4_000


def test_a_model_that_stays_good_is_left_alone():
    rows, harness = models.stream()
    process = harness.start(controllers=[models.update(bound=0.9)])
    run(process, rows, [50] * TIMESTEPS)
    assert process.changes.coordination.records == ()
    assert log(process) == []
    assert seat(process).sent >= TIMESTEPS - 1


def test_too_few_cases_say_nothing():
    rows, harness = models.stream()
    process = harness.start(controllers=[models.update(bound=0.9, least=1_000)])
    run(process, rows, LIMITS)
    assert process.changes.coordination.records == ()


def test_training_that_fails_is_logged_and_suspends_the_controller_and_the_old_model_goes_on():
    rows, harness = models.stream()
    train = f"{models.__name__}:learn_wrongly"
    process = harness.start(controllers=[models.update(bound=0.9, train=train)])
    run(process, rows, LIMITS)
    assert process.changes.coordination.records == ()
    assert seat(process).suspended
    assert sum("ArithmeticError: cannot learn from" in line for line in log(process)) == 3
    assert log(process)[-1] == "suspended: 3 callbacks in a row have failed"
    assert all(wrong(harness)[DRIFT:])
    command(process, Unpaused, "modelupdate")
    for _ in range(2):
        rows.push(models.cases(TIMESTEPS - 1, 10))
        process.run()
    assert seat(process).failed == 4  # it goes on where it was, with training


def test_an_update_that_does_not_help_is_said_and_waits_for_a_window():
    rows, harness = models.stream()
    train = f"{models.__name__}:learn_nothing"
    process = harness.start(controllers=[models.update(bound=0.9, train=train)])
    run(process, rows, LIMITS + LIMITS[-1:] * 4)
    records = process.changes.coordination.records
    assert len(records) == 2
    assert any(line.endswith(" -> 0.00, which is no better") for line in log(process))
    between = [r.last_timestep for r in records]
    assert all(b - a >= 4 for a, b in pairwise(between))


def run_to_the_crash(process: Process, rows: Any) -> int:
    """Return how many timesteps were pushed by then."""
    for timestep, limit in enumerate(LIMITS):
        rows.push(models.cases(timestep, limit))
        try:
            process.run()
        except Crash:
            return timestep + 1
    raise AssertionError("there was no crash")


@pytest.mark.parametrize("stop", [45, 60, 75])
@pytest.mark.parametrize("kind", [FaultKind.BEFORE, FaultKind.AFTER])
def test_after_a_crash_it_goes_on_and_changes_once(stop: int, kind: FaultKind):
    store = MemoryStore()
    rows, harness = models.stream(store=store)
    process = harness.start(
        controllers=[models.update(bound=0.9)], faults=[*[None] * stop, Fault(kind=kind)]
    )
    pushed = run_to_the_crash(process, rows)
    rows, harness = models.stream(store=store)
    for timestep in range(pushed):
        rows.push(models.cases(timestep, LIMITS[timestep]))
    process = harness.start(controllers=[models.update(bound=0.9)])
    process.run()
    run(process, rows, LIMITS, since=pushed)
    done = [r for r in process.changes.coordination.records if r.phase == "done"]
    assert len(done) == 1
    assert seat(process).state["updates"] == 1
    assert seat(process).failed == 0
    missed = wrong(harness)
    assert missed[-6:] == [0] * 6
    assert sorted(missed[: DRIFT + 1])[-1] == missed[DRIFT] > 0


PARAMETERS = {
    "operator": "score",
    "labelled": "cases",
    "factory": f"{models.__name__}:over",
    "train": f"{models.__name__}:learn",
}
PATH = "rechannel.control.library.model_update:ModelUpdate"


@pytest.mark.parametrize("name", ["factory", "train"])
def test_by_its_path_it_names_only_functions_that_the_owner_allows(name):
    allowed = Allowed(modules=("rechannel.control.library", models.__name__))
    made = Wanted(path=PATH, parameters=PARAMETERS).made(allowed.controller)
    assert made.parameters == PARAMETERS
    for path in ("os:system", f"{models.__name__}:pc.add"):
        with pytest.raises(ForbiddenError):
            Wanted(path=PATH, parameters=PARAMETERS | {name: path}).made(allowed.controller)
    with pytest.raises(RefusedError, match=f"{name}: Expected `str` matching regex"):
        Wanted(path=PATH, parameters=PARAMETERS | {name: "import os"}).made(allowed.controller)


def test_wrong_arguments_are_refused():
    with pytest.raises(RefusedError, match="give 0 < bound"):
        models.update(bound=0.99, margin=0.5)
    with pytest.raises(DataflowError, match="there is no 'no_such'"):
        models.update(train=f"{models.__name__}:no_such")
