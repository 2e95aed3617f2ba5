"""Shares Spark's figures of a task out among the tasks of an operator that it ran, one after the other. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from rechannel.telemetry.task_finished import SparkMetrics


def shared_out(spark: SparkMetrics, spans: Sequence[tuple[float, float]]) -> list[SparkMetrics]:
    """Return figures for each task, which follow each other and sum to those of Spark's task.

    spans: when each task's function began and ended, on the worker's clock. What Spark needs before the first task is
    part of the first, and what it needs after the last one part of the last.
    """
    if len(spans) == 1:
        return [spark]
    order = sorted(range(len(spans)), key=lambda place: spans[place])
    began, ended = spans[order[0]][0], spans[order[-1]][1]
    inside = spark.launch_ms <= began and ended <= spark.finish_ms
    # The worker's clock is another one: what Spark needs is then as much before as after.
    shift = 0.0 if inside else (spark.launch_ms + spark.finish_ms - began - ended) / 2
    ends = [round(spans[place][1] + shift) for place in order[:-1]]
    edges = [spark.launch_ms]
    for end in [*ends, spark.finish_ms]:
        edges.append(min(max(end, edges[-1]), spark.finish_ms))
    out, left_ms = [spark] * len(spans), spark.run_ms
    for at, (launch_ms, finish_ms) in enumerate(pairwise(edges)):
        first, last = at == 0, at == len(order) - 1
        deserialise_ms = spark.deserialise_ms if first else 0.0
        run_ms = left_ms if last else min(left_ms, max(0.0, finish_ms - launch_ms - deserialise_ms))
        left_ms -= run_ms
        out[order[at]] = replace(
            spark,
            launch_ms=launch_ms,
            finish_ms=finish_ms,
            run_ms=run_ms,
            deserialise_ms=deserialise_ms,
            cpu_ms=spark.cpu_ms if first else 0.0,
            gc_ms=spark.gc_ms if first else 0.0,
            shuffle_wait_ms=spark.shuffle_wait_ms if first else 0.0,
            shuffle_read_bytes=spark.shuffle_read_bytes if first else 0,
            result_serialise_ms=spark.result_serialise_ms if last else 0.0,
            shuffle_write_ms=spark.shuffle_write_ms if last else 0.0,
            shuffle_write_bytes=spark.shuffle_write_bytes if last else 0,
        )
    return out
