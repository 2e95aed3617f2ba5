"""Executions of Spark SQL, with their plans as long as there is room."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from sys import intern

from rechannel.profiling.spark.application import Execution
from rechannel.profiling.spark.plans import DETAIL
from rechannel.profiling.spark.sql_events import (
    DriverMetrics,
    PlanMetric,
    PlanNode,
    SqlEnded,
    SqlPlanned,
    SqlStarted,
)

ROOM = 500_000
"""Nodes and metrics of plans that are kept, about 100 bytes each."""
_WRITES = re.compile(
    r"Insert|Write|SaveInto|AppendData|Overwrite|AsSelect|ReplaceData|AtomicReplace|MergeInto"
)
"""Matches names of nodes that write files or tables."""


@dataclass(slots=True)
class Executions:
    """What has been read of executions so far."""

    known: dict[int, Execution] = field(default_factory=dict)
    _sizes: dict[int, int] = field(default_factory=dict)
    _held: int = 0
    _ended: list[tuple[int, int]] = field(default_factory=list)
    """Length and number of executions that ended and have their plan: a heap."""

    def root(self, execution: int) -> int:
        """Return the execution of which one is a part; itself if that is not a part of another."""
        known = self.known.get(execution)
        return execution if known is None or known.root is None else known.root

    def see(self, event: SqlStarted | SqlPlanned | SqlEnded | DriverMetrics) -> None:
        """Take up an event."""
        number = event.execution
        known = self.known.get(number, Execution(number=number, start=0))
        match event:
            case SqlStarted():
                known = replace(
                    known,
                    start=event.time,
                    description=event.description or "",
                    root=None if event.root == number else event.root,
                )
                self.known[number] = self._planned(known, event.plan)
            case SqlPlanned():
                self.known[number] = self._planned(known, event.plan)
            case SqlEnded():
                failure = (event.error or "").strip().partition("\n")[0]
                self.known[number] = replace(known, end=event.time, failure=failure)
                if known.plan is not None:
                    heappush(self._ended, (max(0, event.time - known.start), number))
            case DriverMetrics():
                metrics = dict(known.metrics)
                for accumulator, value in event.values:
                    metrics[accumulator] = value
                self.known[number] = replace(known, metrics=metrics)

    def _planned(self, known: Execution, plan: PlanNode) -> Execution:
        """Return an execution with its plan, and drop other plans if there is no room."""
        nodes = list(nodes_of(plan))
        size = sum(1 + len(node.metrics) for node in nodes)
        self._held += size - self._sizes.pop(known.number, 0)
        self._sizes[known.number] = size
        while self._held > ROOM and len(self._sizes) > 1:
            if self._ended:
                _, number = heappop(self._ended)
            else:
                number = next(iter(self._sizes))
            if number == known.number:
                break
            if number in self._sizes:
                self._held -= self._sizes.pop(number)
                self.known[number] = replace(self.known[number], plan=None)
        writes = known.writes or any(_WRITES.search(node.name) for node in nodes)
        return replace(known, plan=_cut(plan), writes=writes)


def nodes_of(plan: PlanNode) -> Iterator[PlanNode]:
    """Iterate over a node and everything below it, parents first."""
    left = [plan]
    while left:
        node = left.pop()
        yield node
        left.extend(reversed(node.children))


def _cut(node: PlanNode) -> PlanNode:
    """Return a plan whose texts are short, and whose names are there once."""
    return PlanNode(
        name=intern(node.name),
        text=node.text[:DETAIL],
        children=[_cut(child) for child in node.children],
        metrics=[
            PlanMetric(accumulator=each.accumulator, name=intern(each.name), kind=intern(each.kind))
            for each in node.metrics
        ],
    )
