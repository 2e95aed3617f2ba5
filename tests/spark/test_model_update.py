"""ModelUpdate on Spark: a model is trained again, and a driver that starts with the text from before has it."""

from __future__ import annotations

from typing import Any

import pytest

import rechannel as rc
from rechannel.testing import script
from tests.spark.programs import PATIENCE, until
from tests.unit.control.library import models

pytestmark = pytest.mark.slow

DRIFT, TIMESTEPS = 4, 12


def started(spark: Any, state: Any, rows: Any) -> rc.RunningJob:
    return rc.Job(
        "models",
        models.dataflow(rows),
        state=state,
        settings=rc.Settings(tasks=2, bins=8),
        spark=spark,
        controllers=[rc.control.install(models.update(bound=0.9), seconds=60)],
    ).start()


def wrong(job: rc.RunningJob, timestep: int) -> int:
    found = [row for row in job.memory("out").to_pylist() if row["at"] == 1_000 * timestep]
    assert len(found) == models.PER_TIMESTEP
    return sum(row["predicted"] != row["actual"] for row in found)


def test_a_model_is_trained_again_and_stays_after_a_restart(spark, state):
    rows = script(models.COLUMNS)
    job = started(spark, state, rows)
    for timestep in range(TIMESTEPS):
        rows.push(models.cases(timestep, 50 if timestep < DRIFT else 10))
        job.process_all_available(PATIENCE)
        update = job.controllers["modelupdate"]
        before = update.status.operations
        until(
            lambda: update.status.operations > before or update.status.operation,  # noqa: B023
            "the next operation has begun",
        )
        until(lambda: not job.open_reconfigurations, "the change is over")
    until(lambda: update.state["updates"] == 1, "the model was changed")
    rows.push(models.cases(TIMESTEPS, 10))
    job.process_all_available(PATIENCE)
    assert wrong(job, DRIFT)
    assert wrong(job, TIMESTEPS) == 0
    (record,) = job.history()
    assert record.phase == "done"
    assert record.change.startswith(
        "assign_logic('score', 'tests.unit.control.library.models:over'"
    )
    job.stop(PATIENCE)
    again = started(spark, state, rows)
    rows.push(models.cases(TIMESTEPS + 1, 10))
    again.process_all_available(PATIENCE)
    assert wrong(again, TIMESTEPS + 1) == 0
    assert again.controllers["modelupdate"].state["updates"] == 1
    again.stop(PATIENCE)
