"""Which live changes a part of the plan can take, by their names in `rc.changes`. Pure.

A change may still be refused for its arguments, or for what the cluster lacks: `job.plan(change)` says it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from rechannel.dataflow.graph.nodes import Dataflow, MapBatches, Stateful
from rechannel.dataflow.identity.logic import function_of
from rechannel.engine.program.dividing import divisible_operators
from rechannel.engine.program.physical import PhysicalPlan, Stage
from rechannel.kernels.protocol.program import Branch
from rechannel.kernels.protocol.two_sides import LEFT, RIGHT
from rechannel.model.configuration import OperatorConfiguration

ON_SPARK = ("place", "assign_resources")
"""Changes that say where tasks run."""

OF_JOB = ("add", "change_dataflow", "set_interval", "set_in_flight")
OF_JOB_ON_SPARK = ("executors",)

OF_SINK = ("remove",)


def changes_of_job(*, on_spark: bool) -> tuple[str, ...]:
    """Return the changes that concern the job as a whole."""
    return (*OF_JOB, *(OF_JOB_ON_SPARK if on_spark else ()))


def changes_of(
    stage: Stage, plan: PhysicalPlan, settings: OperatorConfiguration | None, *, on_spark: bool
) -> tuple[str, ...]:
    """Return the changes that a stage can take; of functions, with the names of their nodes."""
    functions = tuple(_functions(stage.root, plan.dataflow))
    logic = (f"change_logic of {', '.join(functions)}",) if functions else ()
    if stage.logic is None:
        return (*(("rescale",) if settings is not None else ()), "set_bound", *logic)
    return (*_of_operator(stage, plan, settings, on_spark=on_spark), *logic, "remove")


def _of_operator(
    stage: Stage, plan: PhysicalPlan, settings: OperatorConfiguration | None, *, on_spark: bool
) -> Iterator[str]:
    yield "rescale"
    if settings is not None and settings.routing is not None:
        yield from ("rebalance", "move", "split", "merge")
        if settings.routing.spreads:
            yield "gather"
        if _divisible(stage, plan):
            yield "spread"
    if stage.name in _combinable(plan):
        yield "combine"
    if on_spark:
        yield from ON_SPARK


def _functions(branch: Branch, dataflow: Dataflow) -> Iterator[str]:
    """Yield the nodes of a stage whose function can be replaced."""
    node = dataflow.by_name.get(branch.node)
    operator = isinstance(node, Stateful) and node.spec.runs is not None
    if operator or (isinstance(node, MapBatches) and function_of(node) is not None):
        yield branch.node
    for below in branch.branches:
        yield from _functions(below, dataflow)


def _divisible(stage: Stage, plan: PhysicalPlan) -> bool:
    able = divisible_operators(plan).get(stage.name)
    return able is not None and None in (able.undivided(LEFT), able.undivided(RIGHT))


def _combinable(plan: PhysicalPlan) -> Collection[str]:
    return {
        consumer.operator
        for stage in plan.stages
        for branch in stage.root.walk()
        for consumer in branch.consumers
        if consumer.can.combinable
    }
