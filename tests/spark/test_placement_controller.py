"""The controller Placement on Spark: tasks that share an executor are spread, and it is seen that this helped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rechannel as rc
from rechannel.telemetry.reading import read_events
from rechannel.telemetry.task_finished import TaskFinished
from tests.spark.controlled import Slowly, job_of
from tests.spark.programs import PATIENCE, ledger, outputs, run, session, states, until

# Tasks wait for the executor that they are placed on, however long others need it.
PATIENT = {"spark__executor__memory": "512m", "spark__locality__wait": "30s"}
PUT = dict.fromkeys(range(4), "0")


def overloaded(place: str) -> dict[str, Any]:
    """A ledger on two executors, one of which is given all tasks of an operator."""
    spark = session(place, "local-cluster[2,1,1024]", **PATIENT)
    placement = rc.control.library.Placement(operators=["balances"], samples=2, window=3)
    job = job_of(spark, f"{place}/out", f"{place}/state", [], flow={"behind": Slowly(0.4)}, tasks=4)
    job.reconfigure([rc.changes.place("balances", task, at) for task, at in PUT.items()]).wait(
        PATIENCE
    )
    handle = job.control(placement)
    until(lambda: any("saves" in line for line in handle.status.log), "it is judged")
    job.process_all_available(PATIENCE)
    job.stop(PATIENCE)
    return {
        "history": [[each.phase, each.cause, each.first_timestep] for each in job.history()],
        "places": dict(job.configuration.operators["balances"].placement),
        "log": handle.status.log,
    }


def ran(state: Path, timestep: int) -> dict[int, str | None]:
    """Executor of each task of the operator in a timestep."""
    return {
        event.task: event.executor
        for event in read_events(state / "telemetry")
        if isinstance(event, TaskFinished)
        and (event.operator, event.timestep) == ("balances", timestep)
    }


@pytest.mark.slow
def test_placement_spreads_the_tasks_of_an_overloaded_executor(
    spark, child, tmp_path: Path, undisturbed
):
    found = child(overloaded, place=str(tmp_path)).result(PATIENCE)
    (_, _, put), (phase, cause, moved) = found["history"]
    assert phase == "done"
    assert cause.startswith("controller 'placement': saves ")
    assert ran(tmp_path / "state", put + 1) == PUT
    places = {int(task): at for task, at in found["places"].items()}
    assert sorted(places.values()) == ["0", "0", "1", "1"]
    assert ran(tmp_path / "state", moved + 2) == places
    assert any("r2 saves" in line for line in found["log"])
    assert outputs(tmp_path / "out") == undisturbed[1]
    assert states(run(spark, ledger(tmp_path / "out"), tmp_path / "state")) == undisturbed[0]
