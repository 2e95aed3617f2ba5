"""Changes of who does what: tasks and bins. Each function is a sub-command, and returns the change as JSON."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from rechannel.cli.remote.values import numbers

Json: TypeAlias = dict[str, Any]
Operator: TypeAlias = Annotated[str, typer.Argument(metavar="OPERATOR", help="Its name.")]
Bins: TypeAlias = Annotated[str, typer.Argument(metavar="BINS", help="Numbers, as 0-3,9.")]


def rescale(
    operator: Operator, tasks: Annotated[int, typer.Option(help="How many from now on.")]
) -> Json:
    """Run an operator with another number of tasks; few bins move."""
    return {"kind": "rescale", "operator": operator, "tasks": tasks}


def rebalance(
    operator: Operator,
    tolerance: Annotated[
        float, typer.Option(help="How far the busiest task may be above the mean.")
    ] = 0.1,
) -> Json:
    """Spread the measured load of the bins over the tasks."""
    return {"kind": "rebalance", "operator": operator, "tolerance": tolerance}


def move(
    operator: Operator,
    which: Bins,
    task: Annotated[int, typer.Option(help="Where they belong from now on.")],
) -> Json:
    """Place bins at a task."""
    return {"kind": "move", "operator": operator, "bins": numbers(which), "task": task}


def rewrite(operator: Operator) -> Json:
    """Write state anew, bin by bin."""
    return {"kind": "rewrite", "operator": operator}


def split(
    operator: Operator,
    bin: Annotated[int, typer.Argument(metavar="BIN", help="Its number.")],  # noqa: A002
    into: Annotated[int, typer.Option(help="How many it becomes.")] = 2,
) -> Json:
    """Cut a bin into several of equal width."""
    return {"kind": "split", "operator": operator, "bin": bin, "into": into}


def merge(operator: Operator, which: Bins) -> Json:
    """Make neighbouring bins one."""
    return {"kind": "merge", "operator": operator, "bins": numbers(which)}
