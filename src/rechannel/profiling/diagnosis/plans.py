"""What findings about the driver need of plans: their size, and metrics that the driver measured."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rechannel.profiling.spark.application import Execution
from rechannel.profiling.spark.executions import nodes_of
from rechannel.profiling.spark.sql_events import PlanNode

THRESHOLD = "spark.sql.autoBroadcastJoinThreshold"
WIDE = 200
"""A plan with at least that many nodes and expressions takes time to analyse."""
_MORE = re.compile(r"\.\.\. (\d+) more fields")
_JOINED = re.compile(r"Join|CartesianProduct")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSize:
    """How large a plan is."""

    nodes: int = 0
    expressions: int = 0
    """A lower bound: Spark cuts long lists and says how many it left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broadcast:
    """One side of a join that the driver made for all executors."""

    join: str
    """The join with its arguments."""
    size: int
    """Bytes."""
    rows: int
    ms: int
    """To collect, to build and to send it."""


def plan_nodes(execution: Execution | None) -> Iterator[PlanNode]:
    """Iterate over the nodes of an execution's plan, parents first; nothing if the plan is not known."""
    if execution is not None and execution.plan is not None:
        yield from nodes_of(execution.plan)


def plan_size(execution: Execution | None) -> PlanSize:
    """Return the size of the plan of an execution."""
    nodes = expressions = 0
    for node in plan_nodes(execution):
        nodes += 1
        expressions += node.text.count(",") + sum(int(more) for more in _MORE.findall(node.text))
    return PlanSize(nodes=nodes, expressions=expressions)


def is_wide(execution: Execution | None) -> bool:
    """Return whether a plan is so large that it takes time to analyse."""
    size = plan_size(execution)
    return size.nodes + size.expressions >= WIDE


def metadata_ms(execution: Execution | None) -> int:
    """Return for how long the driver listed files for an execution."""
    return _driver_metric(execution, "metadata time")


def broadcasts(execution: Execution | None) -> list[Broadcast]:
    """Return the broadcasts of an execution, the slowest first."""
    if execution is None:
        return []
    found, join_above = [], dict[int, PlanNode]()
    for node in plan_nodes(execution):
        join = join_above.get(id(node))
        below = node if _JOINED.search(node.name) else join
        if below is not None:
            join_above.update((id(child), below) for child in node.children)
        if node.name != "BroadcastExchange":
            continue
        known = {
            metric.name: execution.metrics[metric.accumulator]
            for metric in node.metrics
            if metric.accumulator in execution.metrics
        }
        found.append(
            Broadcast(
                join="" if join is None else join.text,
                size=known.get("data size", 0),
                rows=known.get("number of output rows", 0),
                ms=sum(
                    known.get(f"time to {part}", 0) for part in ("collect", "build", "broadcast")
                ),
            )
        )
    return sorted(found, key=lambda one: -one.ms)


def _driver_metric(execution: Execution | None, name: str) -> int:
    if execution is None or not execution.metrics:
        return 0
    return sum(
        execution.metrics.get(metric.accumulator, 0)
        for node in plan_nodes(execution)
        for metric in node.metrics
        if metric.name == name
    )
