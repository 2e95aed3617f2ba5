"""Changes of where tasks run and on what. Each function is a sub-command, and returns the change as JSON."""

from __future__ import annotations

from typing import Annotated

import typer

from rechannel.cli.remote.values import amounts, byte_count
from rechannel.cli.remote.workload import Json, Operator


def place(
    operator: Operator,
    task: Annotated[int, typer.Option(help="Its number.")],
    executor: Annotated[
        str | None, typer.Option(help="Id in Spark; left away: the task goes where it likes.")
    ] = None,
) -> Json:
    """Run a task on an executor from now on."""
    return {"kind": "place", "operator": operator, "task": task, "executor": executor}


def executors(
    total: Annotated[int, typer.Argument(metavar="TOTAL", help="How many there shall be.")],
) -> Json:
    """Ask Spark for so many executors."""
    return {"kind": "executors", "executors": total}


def assign_resources(
    operator: Operator,
    cpus: Annotated[int, typer.Option(help="Of an executor, for each task.")] = 1,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Of the executors, as 4GiB.")
    ] = None,
    amount: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=AMOUNT", help="Of another resource, as gpu=0.5."),
    ] = None,
) -> Json:
    """Say what every task of an operator needs."""
    return {
        "kind": "assign_resources",
        "operator": operator,
        "cpus": cpus,
        "memory_mb": None if memory is None else byte_count(memory) // 2**20,
        "amounts": amounts(amount or []),
    }
