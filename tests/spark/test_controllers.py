"""Controllers on Spark: control operations pass every task; what they change leaves output and state as they were."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import rechannel as rc
from rechannel.reconfigure.record import Phase
from tests.spark.controlled import Changing, Watch, job_of
from tests.spark.programs import (
    PATIENCE,
    ROWS,
    TIMESTEPS,
    journal_of,
    outputs,
    session,
    states,
    until,
)

COUNTED = ("entries", "balances", "branches", "followed")
FIVE = rc.changes.rescale("balances", 5)
RESCALE = rc.control.install(Changing(FIVE), name="rescale")


@pytest.mark.slow  # test_controllers_disturbed.py has controllers in every run
@pytest.mark.parametrize("in_flight", [1, 2])
def test_controllers_watch_and_change_a_stream_that_does_not_notice(
    spark, state, out, undisturbed, in_flight
):
    job = job_of(spark, out, state, [Watch(), RESCALE], in_flight=in_flight)
    job.process_all_available(PATIENCE)
    watch, rescale = job.controllers["watch"], job.controllers["rescale"]
    until(lambda: rescale.state["timestep"], "the blocking operation is over")
    until(lambda: watch.status.operation is None or watch.state["operations"] > 3, "replies are in")
    seen, moved = watch.state, rescale.state
    job.stop(PATIENCE)
    assert (states(job), outputs(out)) == undisturbed
    assert seen["operations"] >= 3
    assert seen["timesteps"] == sorted(set(seen["timesteps"]))
    assert set(seen["rows"]) == set(COUNTED)
    assert seen["rows"]["entries"] == seen["operations"] * ROWS // TIMESTEPS
    assert seen["failed"] >= 2  # two tasks of one operation
    (record,) = job.history()
    assert record.cause == "controller 'rescale': operation rescale-2.1"
    assert moved == {"begun": 1, "timestep": record.first_timestep, "rows": 0}


def drive(place: str, seconds: float) -> int:
    """Process everything with a controller whose handler may take its time."""
    rescale = rc.control.install(Changing(FIVE, seconds=seconds), name="rescale")
    job = job_of(session(place), f"{place}/out", f"{place}/state", [rescale])
    job.process_all_available(PATIENCE)
    until(lambda: job.controllers["rescale"].state["timestep"], "the operation is over")
    job.stop(PATIENCE)
    return job.status.timestep


@pytest.mark.slow
def test_a_driver_that_is_killed_amid_a_blocking_operation_carries_it_out_once(
    spark, child, tmp_path: Path, undisturbed
):
    place = tmp_path / "b"
    driver = child(drive, place=str(place), seconds=20.0)

    def amid() -> bool:
        assert driver.running, driver.errors()
        if not (place / "state").exists():
            return False
        board = journal_of(place / "state").board
        sent = board.seats["rescale"].operation if "rescale" in board.seats else None
        return sent is not None and sent.timestep is not None and sent.reports is None

    until(amid, "the operation travels")
    assert driver.kill() == -signal.SIGKILL
    killed = journal_of(place / "state")
    sent = killed.board.seats["rescale"].operation
    assert sent is not None
    assert sent.timestep in [intent.timestep for intent in killed.open_intents]
    assert child(drive, place=str(place), seconds=0.0).result(PATIENCE) == TIMESTEPS
    after = journal_of(place / "state")
    assert after.board.seats["rescale"].state == {
        "begun": 1,
        "timestep": sent.timestep,
        "rows": 0,
    }
    (record,) = after.coordination.records
    assert record.phase is Phase.DONE
    assert outputs(place / "out") == undisturbed[1]
