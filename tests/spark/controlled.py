"""Controllers that tests on Spark install, and ledgers that run under them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import rechannel as rc
from rechannel.control import OperatorHandler, TaskView
from tests.spark.programs import PLAIN, ledger, with_branch


def job_of(
    spark: Any,
    out: Path | str,
    state: Path | str,
    controllers: list[Any],
    *,
    flow: dict[str, Any] | None = None,
    **settings: Any,
) -> rc.RunningJob:
    """A running ledger with controllers. flow: arguments of `ledger`."""
    values = rc.Settings(**{**PLAIN, "interval_ms": 60, **settings})
    return rc.Job(
        "ledger",
        ledger(out, **(flow or {})),
        state=str(state),
        settings=values,
        spark=spark,
        controllers=controllers,
    ).start()


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

    def on_init(self) -> Any:
        return {"operations": 0, "failed": 0, "rows": {}, "tasks": {}, "timesteps": []}

    def on_begin(self, control: Any) -> Any:
        third = control.state["operations"] % 3 == 2
        return rc.control.operation(Load("followed" if third else ""))

    def on_complete(self, control: Any, outcome: Any) -> None:
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


class Counting(rc.control.Controller):
    """Counts the rows of the source over some operations, and then only looks on."""

    trigger = rc.control.every(timesteps=1)

    def __init__(self, operations: int) -> None:
        self.operations = operations

    def on_init(self) -> Any:
        return {"operations": 0, "rows": 0, "tasks": 0}

    def on_begin(self, control: Any) -> Any:
        if control.state["operations"] == self.operations:
            return None
        return rc.control.operation(Load(), operators=["followed"])

    def on_complete(self, control: Any, outcome: Any) -> None:
        rows, tasks, _ = outcome.replies["followed"]
        control.state = {
            "operations": control.state["operations"] + 1,
            "rows": control.state["rows"] + rows,
            "tasks": control.state["tasks"] + tasks,
        }


class Raising(rc.control.Controller):
    """Works once, and then raises."""

    trigger = rc.control.every(timesteps=1)

    def on_init(self) -> Any:
        return {"operations": 0}

    def on_begin(self, control: Any) -> Any:
        return rc.control.operation(Load(), operators=["balances"])

    def on_complete(self, control: Any, outcome: Any) -> None:
        done = control.state["operations"] + 1
        control.state = {"operations": done}
        if done > 1:
            raise ArithmeticError(f"operation {done}")


class Requesting(rc.control.Controller):
    """Requests one change at a moment."""

    trigger = rc.control.every(timesteps=1)

    def __init__(self, change: Any, when: Callable[[Any], bool], strategy: Any = None) -> None:
        self.change, self.when, self.strategy = change, when, strategy

    def on_init(self) -> Any:
        return {"requested": 0}

    def on_begin(self, control: Any) -> Any:
        if not control.state["requested"] and self.when(control):
            control.state = {"requested": control.timestep}
            control.reconfigure(self.change, strategy=self.strategy)


class Pause(OperatorHandler):
    """Takes its time, in one operator."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def on_complete(self, task: TaskView) -> int:
        time.sleep(self.seconds)
        return task.rows_in


class Changing(rc.control.Controller):
    """Makes one change with a blocking operation, once. seconds: that a handler takes."""

    trigger = rc.control.every(timesteps=1)

    def __init__(self, change: Any, at: int = 4, seconds: float = 0.0) -> None:
        self.change, self.at, self.seconds = change, at, seconds

    def on_init(self) -> Any:
        return {"begun": 0, "timestep": 0, "rows": -1}

    def on_begin(self, control: Any) -> Any:
        if control.state["begun"] or control.timestep < self.at:
            return None
        control.state = {**control.state, "begun": 1}
        return rc.control.operation(
            Pause(self.seconds),
            blocking=True,
            operators=["balances"],
            change=self.change,
            seconds=30,
        )

    def on_complete(self, control: Any, outcome: Any) -> None:
        rows = outcome.replies["balances"]
        control.state = {**control.state, "timestep": outcome.timestep, "rows": rows}


class Asking(rc.control.Controller):
    """Sends one handler to the tasks of an operator, once, and keeps what failed."""

    trigger = rc.control.every(timesteps=1)

    def __init__(self, handler: OperatorHandler, seconds: float = 1.0) -> None:
        self.handler, self.seconds = handler, seconds

    def on_begin(self, control: Any) -> Any:
        if control.state is not None:
            return None
        control.state = {}
        return rc.control.operation(self.handler, operators=["balances"], seconds=self.seconds)

    def on_complete(self, control: Any, outcome: Any) -> None:
        control.state = {
            "replies": dict(outcome.replies),
            "failures": sorted(f"{f.task}: {f.error.splitlines()[-1]}" for f in outcome.failures),
        }


class Endless(OperatorHandler):
    """Never comes back."""

    def on_complete(self, task: TaskView) -> int:
        while True:
            pass


class Gigabytes(OperatorHandler):
    """Replies with 4 GiB, of which the worker holds one MiB."""

    def on_complete(self, task: TaskView) -> list[str]:
        return ["x" * (1 << 20)] * 4096


class Slowly:
    """What `with_branch` does, in so many seconds more: the more tasks, the longer a timestep takes."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        time.sleep(self.seconds)
        return with_branch(batch)


def with_other_branch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Another key for the second operator than `programs.with_branch` finds."""
    branch = pa.array(batch.column("account").to_numpy() % 3)
    return batch.append_column("branch", branch)
