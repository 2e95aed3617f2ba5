"""What can be done ahead of a border on Spark: load functions on workers, and fetch state where it will move."""

from __future__ import annotations

from typing import Any

from rechannel.engine.cluster import Cluster
from rechannel.engine.exchange import Exchange
from rechannel.engine.preparing import ClusterPreparer
from rechannel.engine.runner import Runner


def spark_preparer(
    spark: Any, exchange: Exchange, cluster: Cluster, runner: Runner
) -> ClusterPreparer:
    """The preparer of a session."""
    del spark, runner
    return ClusterPreparer(exchange=exchange, cluster=cluster)
