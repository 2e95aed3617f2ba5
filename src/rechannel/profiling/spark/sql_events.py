"""Events of Spark SQL: executions, their plans, and what the driver measured of them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rechannel.profiling.spark.numbers import Number


class PlanMetric(
    msgspec.Struct, rename={"accumulator": "accumulatorId", "kind": "metricType"}, gc=False
):
    """A metric of a node of a plan."""

    accumulator: Number = -1
    name: str = ""
    """As the Spark UI shows it, such as `time to build`."""
    kind: str = ""
    """sum, size, timing (ms), nsTiming or average."""


class PlanNode(msgspec.Struct, rename={"name": "nodeName", "text": "simpleString"}):
    """A node of a plan."""

    name: str = ""
    text: str = ""
    """The node and its arguments."""
    children: list[PlanNode] = msgspec.field(default_factory=list)
    metrics: list[PlanMetric] = msgspec.field(default_factory=list)


class SqlStarted(
    msgspec.Struct,
    rename={
        "execution": "executionId",
        "root": "rootExecutionId",
        "plan": "sparkPlanInfo",
        "settings": "modifiedConfigs",
    },
):
    """An execution began."""

    execution: Number
    time: Number = 0
    description: str | None = ""
    root: Number | None = None
    """The execution of which it is a part; its own number if that is not a part of another. Since Spark 3.4."""
    plan: PlanNode = msgspec.field(default_factory=PlanNode)
    settings: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Properties that the session changed. Since Spark 3.3."""


class SqlPlanned(msgspec.Struct, rename={"execution": "executionId", "plan": "sparkPlanInfo"}):
    """The plan of an execution changed."""

    execution: Number
    plan: PlanNode = msgspec.field(default_factory=PlanNode)


class SqlEnded(msgspec.Struct, rename={"execution": "executionId", "error": "errorMessage"}):
    """An execution ended."""

    execution: Number
    time: Number = 0
    error: str | None = None
    """Why it failed; empty if it did not. Since Spark 3.4."""


class DriverMetrics(msgspec.Struct, rename={"execution": "executionId", "values": "accumUpdates"}):
    """What the driver measured of an execution: broadcasts, files, partitions."""

    execution: Number
    values: list[tuple[Number, Number]] = msgspec.field(default_factory=list)
    """Accumulators and what was added to them."""
