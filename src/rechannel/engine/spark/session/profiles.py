"""Spark's resource profiles for what operators ask of their tasks."""

from __future__ import annotations

import json
import threading

from pyspark.resource import (
    ExecutorResourceRequests,
    ResourceProfile,
    ResourceProfileBuilder,
    TaskResourceRequests,
)

from rechannel.engine.spark.session.session_limits import SessionLimits, asks_nothing
from rechannel.model.codec import encode
from rechannel.model.configuration import Resources


class Profiles:
    """Makes one profile per value: Spark keeps every profile that it has seen until it stops."""

    def __init__(self, limits: SessionLimits) -> None:
        """Make none yet. limits: of the session."""
        self._limits = limits
        self._made: dict[str, ResourceProfile] = {}
        self._lock = threading.Lock()

    def of(self, resources: Resources | None) -> ResourceProfile | None:
        """The profile of an operator's stage; None = the session's own."""
        if resources is None or asks_nothing(self._limits, resources):
            return None
        with self._lock:
            key = json.dumps(encode(resources), sort_keys=True)
            if key not in self._made:
                self._made[key] = self._make(resources)
            return self._made[key]

    def _make(self, resources: Resources) -> ResourceProfile:
        tasks = TaskResourceRequests().cpus(resources.cpus)
        for name, amount in sorted(resources.amounts.items()):
            tasks = tasks.resource(name, amount)
        builder = ResourceProfileBuilder().require(tasks)
        if resources.memory_mb is not None:
            builder = builder.require(self._executors(resources, resources.memory_mb))
        return builder.build

    def _executors(self, resources: Resources, memory_mb: int) -> ExecutorResourceRequests:
        """Executors of another size, which have of everything else what the session's have."""
        cores = max(resources.cpus, self._limits.executor_cores or 1)
        wanted = ExecutorResourceRequests().memory(f"{memory_mb}m").cores(cores)
        for name in sorted(resources.amounts):
            wanted = wanted.resource(name, int(self._limits.amounts.get(name, 0)))
        return wanted
