"""Controllers on Spark: control operations pass every task; what they change leaves output and state as they were."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import rechannel as rc
from rechannel.control import OperatorHandler, TaskView
from rechannel.reconfigure.record import Phase
from tests.spark.programs import (
    PATIENCE,
    PLAIN,
    ROWS,
    TIMESTEPS,
    journal_of,
    ledger,
    outputs,
    session,
    states,
    until,
)

COUNTED = ("entries", "balances", "branches", "followed")


class Load(OperatorHandler):
    """Rows and tasks of an operator, and its heaviest key."""

    heaviest = 1

    def __init__(self, fails_in: str = "") -> None:
        self.fails_in = fails_in

    def on_complete(self, task: TaskView) -> list[int]:
        if task.operator == self.fails_in:
            raise LookupError(f"not in {task.operator}")
        return [task.rows_in, 1, max((key.rows for key in task.heaviest), default=0)]

    def merge(self, one: list[int], other: list[int]) -> list[int]:
        return [one[0] + other[0], one[1] + other[1], max(one[2], other[2])]


class Watch(rc.control.Controller):
    """Sums up rows by operator over all operations; every third one fails in an operator."""

    trigger = rc.control.every(timesteps=1)

    def on_init(self):
        return {"operations": 0, "failed": 0, "rows": {}, "tasks": {}, "timesteps": []}

    def on_begin(self, control):
        third = control.state["operations"] % 3 == 2
        return rc.control.operation(Load("followed" if third else ""))

    def on_complete(self, control, outcome):
        state = control.state
        rows = dict(state["rows"])
        for operator, (count, _, _) in outcome.replies.items():
            rows[operator] = rows.get(operator, 0) + count
        control.state = {
            "operations": state["operations"] + 1,
            "failed": state["failed"] + outcome.failed,
            "rows": rows,
            "tasks": {operator: tasks for operator, (_, tasks, _) in outcome.replies.items()},
            "timesteps": [*state["timesteps"], outcome.timestep],
        }


class Pause(OperatorHandler):
    """Takes its time, in one operator."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def on_complete(self, task: TaskView) -> int:
        time.sleep(self.seconds)
        return task.rows_in


class Rescale(rc.control.Controller):
    """Gives an operator more tasks with a blocking operation, once."""

    trigger = rc.control.every(timesteps=1)

    def __init__(self, tasks: int, seconds: float = 0.0) -> None:
        self.tasks, self.seconds = tasks, seconds

    def on_init(self):
        return {"begun": 0, "timestep": 0, "rows": -1}

    def on_begin(self, control):
        if control.state["begun"] or control.timestep < 4:
            return None
        control.state = {**control.state, "begun": 1}
        return rc.control.operation(
            Pause(self.seconds),
            blocking=True,
            operators=["balances"],
            change=rc.changes.rescale("balances", self.tasks),
            seconds=30,
        )

    def on_complete(self, control, outcome):
        rows = outcome.replies["balances"]
        control.state = {**control.state, "timestep": outcome.timestep, "rows": rows}


def job_of(spark, out, state, controllers) -> rc.RunningJob:
    settings = rc.Settings(**{**PLAIN, "interval_ms": 60})
    return rc.Job(
        "ledger",
        ledger(out),
        state=str(state),
        settings=settings,
        spark=spark,
        controllers=controllers,
    ).start()


def test_controllers_watch_and_change_a_stream_that_does_not_notice(spark, state, out, undisturbed):
    job = job_of(spark, out, state, [Watch(), Rescale(5)])
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
    job = job_of(session(place), f"{place}/out", f"{place}/state", [Rescale(5, seconds)])
    job.process_all_available(PATIENCE)
    until(lambda: job.controllers["rescale"].state["timestep"], "the operation is over")
    job.stop(PATIENCE)
    return job.status.timestep


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
