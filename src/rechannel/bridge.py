"""The bridge: a dataflow as a `foreachBatch` function under a Structured Streaming query, for every source
that Spark has.

    events = rc.read(spark).handover("user string, amount long", name="events")
    totals = events.key_by("user").aggregate(total=rc.aggregates.sum("amount"), name="totals")
    bridge = rc.for_each_batch("totals", totals.write.parquet("out"), state="state/totals")
    query = kafka.selectExpr("...").writeStream.foreachBatch(bridge).option("checkpointLocation", "...").start()

Spark decides what a micro-batch holds and may send one again after a crash; the bridge knows by its number
what is committed
already and does nothing then. So the two checkpoints together are exactly once. Numbers mean something only within one
checkpoint: the bridge remembers the id of the query, which its checkpoint keeps, and refuses batches of any other one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rechannel.dataflow.graph.nodes import Source
from rechannel.dataflow.streams.stream import Stream
from rechannel.dataflow.streams.writer import Flow
from rechannel.errors import DataflowError, SourceError
from rechannel.job import Job
from rechannel.running import RunningJob
from rechannel.settings import Settings
from rechannel.sources.frame import Handover, HandoverConnector, to_take

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_ID = "sql.streaming.queryId"
"""Local property under which Spark runs the jobs of a query."""


class Bridge:
    """A `foreachBatch` function: call it with (df, batch_id). `job` is the running job once the first batch
    has come."""

    def __init__(self, job: Job, handover: Handover, source: str, query: str | None = None) -> None:
        """Nothing runs before the first batch. query: id of a query that goes on in place of the one before."""
        self._accepted = query
        self._job = job
        self._handover = handover
        self._source = source
        self._lock = threading.Lock()
        self.job: RunningJob | None = None

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Run one micro-batch as a timestep and return when it is committed and published.

        Raises SourceError for a batch of another query or checkpoint, and what the job failed with; Spark then fails
        the query, and a restart of it sends the batch again.
        """
        with self._lock:
            running = self._running(batch)
            query = query_of(batch)
            committed = running.committed_offset(self._source)
            if not to_take(committed, number, query, self._accepted):
                return
            # Spark clones the session for foreachBatch, with its adaptive planner on: a timestep is planned as a whole.
            batch.sparkSession.conf.set("spark.sql.adaptive.enabled", "false")
            self._handover.put(number, batch, query)
            running.process_all_available()
            done = running.committed_offset(self._source)
            if done.get("batch") != number or (query and done.get("query") not in {None, query}):
                msg = (
                    f"batch {number} was not processed: job {running.name!r} was stopped meanwhile. Restart the query:"
                    " it sends the batch again"
                )
                raise SourceError(msg)

    def _running(self, batch: DataFrame) -> RunningJob:
        if self.job is None or not self.job.is_active:
            del batch
            self.job = self._job.start(takeover=True)
        return self.job

    def stop(self) -> None:
        """Stop the job; the query is stopped by its owner first."""
        if self.job is not None:
            self.job.stop()


def for_each_batch(
    name: str,
    flows: Flow | Stream | Sequence[Flow | Stream],
    *,
    state: str | os.PathLike[str],
    settings: Settings | None = None,
    spark: Any | None = None,
    query: str | None = None,
) -> Bridge:
    """A dataflow with exactly one handed-over source as a `foreachBatch` function.

    Args:
        name: of the job, in messages and files.
        flows: one or several ends, which read a single source: `rc.read(spark).handover(...)`.
        state: as of `Job`.
        settings: as of `Job`; None = `Settings()`.
        spark: as of `Job`.
        query: id of a Structured Streaming query that goes on in place of the one that has fed this
            state directory so far.

    Raises:
        DataflowError: the dataflow has no such source, or another one beside it.
    """
    job = Job(name, flows, state=state, settings=settings, spark=spark)
    sources = [node for node in job.dataflow.nodes if isinstance(node, Source)]
    handed = [n for n in sources if isinstance(n.connector, HandoverConnector)]
    if len(handed) != 1 or len(sources) != 1:
        msg = (
            "for_each_batch needs a dataflow with one source, made with "
            f"rc.read(spark).handover(schema); it has {[node.name for node in sources]}"
        )
        raise DataflowError(msg)
    connector = handed[0].connector
    if not isinstance(connector, HandoverConnector):
        raise TypeError(connector)
    return Bridge(job, connector.handover, handed[0].name, query)


def query_of(batch: Any) -> str | None:
    """Return the id of the query that hands a batch over, as in its checkpoint; None if Spark hides it (Connect)."""
    context = getattr(batch.sparkSession, "sparkContext", None)
    found = None if context is None else context.getLocalProperty(QUERY_ID)
    return None if found is None else str(found)
