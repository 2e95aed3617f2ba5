"""The cluster under a Spark session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rechannel.engine.reconfigure.cluster import Counts, Executor, refuse_place
from rechannel.engine.spark.private_executors import Executors
from rechannel.engine.spark.session.session import is_connect
from rechannel.engine.spark.session.session_limits import (
    CONNECT,
    Kind,
    SessionLimits,
    refuse_executors,
    refuse_resources,
)
from rechannel.errors import SessionError
from rechannel.model.configuration import Resources

_REASON = "given back by rechannel"


class SparkCluster:
    """A session's cluster: an implementation of `engine.reconfigure.cluster.Cluster`."""

    def __init__(
        self,
        limits: SessionLimits,
        backend: Executors | None,
        local_cores: int = 0,
        application: str = "",
    ) -> None:
        """Use `spark_cluster` to make one.

        limits: what the settings allow. backend: its executors, None if it has none to request. local_cores: of
        a local master. application: Spark application that the executors belong to.
        """
        self.application = application
        self.limits = limits
        self._backend = backend
        self._local_cores = local_cores

    def executors(self) -> tuple[Executor, ...]:
        """Return the executors that take tasks: the driver on a local master, none over Connect."""
        if self._backend is not None:
            return self._backend.alive()
        if self.limits.kind is Kind.LOCAL:
            return (Executor(id="driver", host="localhost", cores=self._local_cores),)
        return ()

    def counts(self) -> Mapping[str, Counts]:
        """Return what has become of tasks so far, by executor."""
        return {} if self._backend is None else self._backend.counts()

    def request(self, total: int) -> None:
        """Request a total. More executors take a second or longer to start; with fewer, lost ones are not replaced."""
        if self._backend is not None:
            self._backend.request(total)
            return
        refusal = self.refuses_executors(total)
        if refusal is not None:
            raise SessionError(refusal)

    def decommission(self, ids: Sequence[str]) -> None:
        """Let executors finish their tasks and exit."""
        if self._backend is not None:
            self._backend.decommission(ids, _REASON)

    def refuses_executors(self, total: int) -> str | None:
        """Return why the cluster cannot have this many executors; None if it can."""
        return refuse_executors(self.limits, len(self.executors()), total)

    def refuses_resources(self, resources: Resources) -> str | None:
        """Return why no task could have these resources; None if one could."""
        return refuse_resources(self.limits, self.executors(), resources)

    def refuses_place(self, executor: str) -> str | None:
        """Return why no task can be placed there; None if one can."""
        return refuse_place(executor, self.executors())


def spark_cluster(spark: Any) -> SparkCluster:
    """Return the cluster of a session, classic or Connect."""
    if is_connect(spark):
        return SparkCluster(CONNECT, None)
    context = spark.sparkContext
    limits = SessionLimits.of(context.master, dict(context.getConf().getAll()))
    backend = Executors(spark) if limits.has_executors else None
    application = context.applicationId if backend is not None else ""
    return SparkCluster(limits, backend, context.defaultParallelism, application)
