"""The executors of a session, by Spark's private classes. See `private.py`."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from rechannel.engine.reconfigure.cluster import Counts, Executor
from rechannel.errors import SessionError

SERIALIZER = "org.apache.spark.status.KVUtils$KVStoreScalaSerializer"
"""What Spark writes records of its status store with: compressed JSON."""


class Executors:
    """The executors of a session on a cluster: which take tasks, asking for more, letting some go."""

    def __init__(self, spark: SparkSession) -> None:
        """Bind to the session's scheduler. Only for masters with executors of their own."""
        self._jvm: Any = spark.sparkContext._jvm
        self._context: Any = spark.sparkContext._jsc.sc()
        self._backend = self._context.schedulerBackend()
        self._serializer = getattr(self._jvm, SERIALIZER)()
        self._known: tuple[str, str] | None = None
        self._alive: tuple[Executor, ...] = ()
        self._lock = threading.Lock()

    def alive(self) -> tuple[Executor, ...]:
        """Executors that take tasks, oldest first. Cheap to ask, as long as they stay the same."""
        with self._lock:
            ids = str(self._context.getExecutorIds().mkString(","))
            leaving = str(self._backend.executorsPendingDecommission().keySet().mkString(","))
            if (ids, leaving) != self._known:
                self._look(ids, leaving)
            return self._alive

    def _look(self, ids: str, leaving: str) -> None:
        """Read what else is known of them from the status store, which is updated slightly later."""
        wanted = set(ids.split(",")) - set(leaving.split(",")) - {""}
        found = self._context.statusStore().executorList(True)
        summaries = [found.apply(i) for i in range(found.size())]
        executors = [_executor(summary) for summary in summaries if summary.id() in wanted]
        alive = [executor for executor in executors if executor.host and executor.cores]
        self._alive = tuple(sorted(alive, key=lambda executor: (len(executor.id), executor.id)))
        self._known = (ids, leaving) if len(alive) == len(wanted) else None

    def counts(self) -> dict[str, Counts]:
        """What has become of tasks, by executor: killed ones have begun, and neither run, nor are done, nor failed.

        One call to the JVM, however many executors there are.
        """
        found = self._context.statusStore().executorList(True)
        summaries = json.loads(gzip.decompress(self._serializer.serialize(found)))
        return {
            each["id"]: Counts(
                done=each["completedTasks"],
                killed=each["totalTasks"]
                - each["activeTasks"]
                - each["completedTasks"]
                - each["failedTasks"],
            )
            for each in summaries
            if each["id"] != "driver"
        }

    def request(self, total: int) -> None:
        """Ask for this many. Raises SessionError when the cluster manager does not take the request."""
        nowhere = self._jvm.scala.collection.immutable.HashMap()
        if not self._context.requestTotalExecutors(total, 0, nowhere):
            msg = f"the cluster manager refused a request for {total} executors; request them again later"
            raise SessionError(msg)

    def decommission(self, ids: Sequence[str], reason: str) -> None:
        """They take no task from now on, and end when they have finished and handed on their shuffle files."""
        information = self._jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo
        why = information(reason, self._jvm.scala.Option.empty())
        for executor in ids:
            self._backend.decommissionExecutor(executor, why, False, False)


def _executor(summary: Any) -> Executor:
    host, _, _ = str(summary.hostPort()).rpartition(":")
    cores, profile = int(summary.totalCores()), int(summary.resourceProfileId())
    return Executor(id=str(summary.id()), host=host, cores=cores, profile=profile)
