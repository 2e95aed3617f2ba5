"""Choose private or public API for a session and build the runner."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from pyspark.sql import DataFrame

from rechannel.engine.program.physical import PhysicalPlan, SinkBufferFrame, SinkPlan
from rechannel.engine.spark.cluster import SparkCluster, spark_cluster
from rechannel.engine.spark.jobs import NoJobs
from rechannel.engine.spark.placing import Placing
from rechannel.engine.spark.private import Anchors, JobTags, PlanAnalysis, SharedExchange
from rechannel.engine.spark.private_stages import planned_stages
from rechannel.engine.spark.public import PersistedExchange
from rechannel.engine.spark.resubmitting import Resubmitting
from rechannel.engine.spark.runner import SparkRunner
from rechannel.engine.spark.session.profiles import Profiles
from rechannel.engine.spark.session.session import advise, is_connect
from rechannel.engine.spark.session.session_limits import Kind, shares_executors
from rechannel.engine.spark.stages import FrameStages, Stages
from rechannel.engine.spark.warming import FirstTasks, Warming, speculative
from rechannel.engine.stages.runner import Timestep
from rechannel.engine.stages.sink_buffers import sink_buffer_tables
from rechannel.engine.stages.sink_rows import RowsOf
from rechannel.kernels.protocol.program import StageProgram
from rechannel.logs import fields
from rechannel.sinks.writer import Rows
from rechannel.sources.reader import SourceReader
from rechannel.state.store import Store

_LOG = logging.getLogger("rechannel")


def spark_runner(
    spark: Any,
    plan: PhysicalPlan,
    programs: Mapping[str, StageProgram],
    readers: Mapping[str, SourceReader],
    *,
    store: Store,
    job: str,
    cluster: SparkCluster | None = None,
) -> tuple[SparkRunner, RowsOf]:
    """Return a runner for this session, and the function that makes rows for sinks.

    cluster: the session's, which the coordinator uses too; None looks it up.
    """
    for sentence in advise(spark):
        _LOG.warning(
            "this Spark session can do better: %s",
            sentence,
            extra=fields("session_advice", reason=sentence),
        )
    connect = is_connect(spark)
    cluster = cluster or spark_cluster(spark)
    runner = SparkRunner(
        spark=spark,
        plan=plan,
        programs=programs,
        readers=readers,
        store=store,
        stages=_stages(spark, connect=connect),
        jobs=NoJobs(spark) if connect else JobTags(spark),
        job=job,
        keeps_order=_cannot_tell if connect else PlanAnalysis.keeps_order,
        ahead=not connect,
        executors=cluster.executors if cluster.limits.has_executors else None,
        profile=Profiles(cluster.limits).of,
        cores=_local_cores(spark, cluster),
        task_cpus=cluster.limits.task_cpus,
    )
    runner.placing = _placing(spark, cluster, runner)
    return runner, partial(_rows_of, runner)


def _rows_of(
    runner: SparkRunner,
    sink: SinkPlan,
    timestep: Timestep | None,
    kept: Mapping[str, list[str]],
) -> Rows:
    planned = cache(lambda: runner.frame(sink.frame, timestep, kept))
    source = sink.frame
    if isinstance(source, SinkBufferFrame):
        # A sink that takes Arrow rows reads them from the files, without a Spark job.
        store, keys = runner.store, kept.get(source.node, [])
        return Rows(
            planned=planned, tables=lambda: sink_buffer_tables(store, keys), schema=sink.schema
        )
    return Rows(
        planned=planned,
        tables=lambda: iter(planned().toArrow().to_batches()),
        schema=sink.schema,
    )


def _stages(spark: Any, *, connect: bool) -> Stages:
    """Return stages that are planned once if private API is there, else stages that every timestep plans anew."""
    if connect:
        return FrameStages(spark, PersistedExchange)
    return planned_stages(spark) or FrameStages(spark, SharedExchange)


def _local_cores(spark: Any, cluster: SparkCluster) -> int:
    """Return the cores of a local master; 0 = not known, because `spark.default.parallelism` stands for them."""
    given = spark.conf.get("spark.default.parallelism", None)
    if cluster.limits.kind is not Kind.LOCAL or given is not None:
        return 0
    return sum(executor.cores for executor in cluster.executors())


def _placing(spark: Any, cluster: SparkCluster, runner: SparkRunner) -> Placing | None:
    """Return the placing of tasks; None if there cannot be several executors."""
    limits = cluster.limits
    if not limits.has_executors:
        return None
    made = Placing(
        cluster.executors,
        lambda: Anchors.open(spark),
        lambda operator: shares_executors(limits, operator.resources),
    )
    if not isinstance(runner.stages, FrameStages):  # which places no tasks without state
        first = FirstTasks(
            stages=runner.stages,
            jobs=runner.jobs,
            anchors=made.anchors,
            shipped=runner.shipped,
            limits=limits,
            tag=runner.tag,
        )
        warming = Warming(
            executors=made.alive,
            first=first,
            counts=cluster.counts,
            lost=made.let_go,
            copies=speculative(spark),
        )
        if not limits.dynamic:  # where Spark gives idle executors back by itself
            runner.resubmitting = Resubmitting(JobTags(spark))
            warming.died = runner.resubmitting.lost
        made.warming = warming
    return made


def _cannot_tell(frame: DataFrame) -> bool:
    """Return False: without private API a plan does not show whether it shuffles."""
    del frame
    return False
