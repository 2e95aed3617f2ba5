"""Held-out applications: labelled, like the others, before their logs were made, but on which no detector was tuned.

They are written as users of Spark write programs, with real work, on other operators, sizes and settings than those of
the first suite. What was found when their logs were first read stays written down here, whatever is found today.
"""

from __future__ import annotations

from pathlib import Path

from tests.unit.profiling.labelled.labels import (
    ADAPTIVE,
    BROADCAST,
    CLUSTER,
    HEALTHY,
    LOCAL,
    MEMORY,
    SHUFFLE,
    TWO_CORES,
    Label,
)

LOGS = Path(__file__).parent / "logs"
THREE_CORES = "local[3]"
COALESCE = "spark.sql.adaptive.coalescePartitions.enabled"


def _held_out(
    name: str,
    family: str,
    cause: str,
    *,
    accepted: tuple[str, ...] = (),
    master: str = LOCAL,
    settings: dict[str, str] | None = None,
) -> Label:
    return Label(
        name=name,
        family=f"held_out.{family}",
        cause=cause,
        accepted=accepted,
        master=master,
        settings=settings or {},
        logs=LOGS,
    )


HELD_OUT = (
    _held_out(
        "clicks-in-order",
        "tables",
        "skew",
        master=THREE_CORES,
        settings={SHUFFLE: "12", COALESCE: "true"},
    ),
    _held_out(
        "pages-seen-together",
        "tables",
        "skew",
        settings={SHUFFLE: "24", ADAPTIVE: "false", BROADCAST: "-1"},
    ),
    _held_out("paths-of-users", "tables", "skew", accepted=("python-function",)),
    _held_out(
        "distinct-events",
        "tables",
        "spill",
        accepted=("garbage-collection",),
        master=TWO_CORES,
        settings={MEMORY: "600m", "spark.memory.fraction": "0.3"},
    ),
    _held_out(
        "latest-orders",
        "tables",
        "spill",
        accepted=("garbage-collection",),
        master=THREE_CORES,
        settings={MEMORY: "700m", SHUFFLE: "3", "spark.memory.fraction": "0.25"},
    ),
    _held_out(
        "customers-broadcast",
        "tables",
        "broadcast-building",
        settings={MEMORY: "3g", BROADCAST: "2g", SHUFFLE: "8", COALESCE: "true"},
    ),
    _held_out(
        "median-prices",
        "tables",
        "garbage-collection",
        master=TWO_CORES,
        settings={MEMORY: "560m"},
    ),
    _held_out("hourly-readings", "inputs", "small-files", accepted=("file-listing",)),
    _held_out("sales-by-day-and-shop", "inputs", "small-files", accepted=("commit",)),
    _held_out("compressed-export", "inputs", "too-few-partitions", settings={COALESCE: "true"}),
    _held_out("one-file-for-all", "inputs", "too-few-partitions"),
    _held_out(
        "totals-of-sensors",
        "inputs",
        "too-many-partitions",
        settings={ADAPTIVE: "false", SHUFFLE: "150"},
    ),
    _held_out("trip-lengths", "functions", "python-function", master=THREE_CORES),
    _held_out("errors-by-host", "functions", "python-function", master=TWO_CORES),
    _held_out("scored-orders", "functions", "python-function", settings={SHUFFLE: "8"}),
    _held_out("forecasts", "functions", "python-function", settings={SHUFFLE: "12"}),
    _held_out("frame-for-a-plot", "driver", "collecting-results", settings={MEMORY: "3g"}),
    _held_out(
        "rows-one-by-one",
        "driver",
        "collecting-results",
        accepted=("driver-program",),
        settings={MEMORY: "2g"},
    ),
    _held_out("model-of-cases", "driver", "driver-program", settings={COALESCE: "true"}),
    # The log does not say what a driver does before a query begins, so the program may be named in its place.
    _held_out("features-in-a-loop", "driver", "planning", accepted=("driver-program",)),
    _held_out(
        "star-of-many-tables",
        "driver",
        "planning",
        accepted=("broadcast-building",),
        settings={MEMORY: "4g", SHUFFLE: "8", COALESCE: "true"},
    ),
    _held_out(
        "reports-on-parsed-lines",
        "driver",
        "recomputed-stages",
        master=TWO_CORES,
        settings={SHUFFLE: "6", COALESCE: "true"},
    ),
    _held_out(
        "preempted-node",
        "clusters",
        "lost-executor",
        accepted=("failed-work", "fetch-failure"),
        master=CLUSTER,
        settings={SHUFFLE: "8"},
    ),
    _held_out(
        "bursts-of-jobs",
        "clusters",
        "late-executors",
        master=CLUSTER,
        settings={
            SHUFFLE: "4",
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.timeout": "1s",
            "spark.dynamicAllocation.minExecutors": "0",
            "spark.dynamicAllocation.maxExecutors": "2",
            "spark.dynamicAllocation.executorIdleTimeout": "1s",
            "spark.dynamicAllocation.schedulerBacklogTimeout": "5s",
        },
    ),
    _held_out("payments-to-files", "streams", "small-batches"),
    _held_out(
        "sessions-of-users",
        "streams",
        "stream-skew",
        accepted=("skew", "python-function"),
        settings={SHUFFLE: "4"},
    ),
    _held_out("invoices-to-a-database", "streams", "slow-sink"),
    _held_out(
        "visitors-ever-seen",
        "streams",
        "watermark",
        accepted=("slow-state-store",),
        settings={SHUFFLE: "4", MEMORY: "2g"},
    ),
    _held_out("orders-that-pile-up", "streams", "rate-above-capacity", accepted=("processing",)),
    _held_out(
        "nightly-reports",
        "healthy",
        HEALTHY,
        master=TWO_CORES,
        settings={SHUFFLE: "8", COALESCE: "true"},
    ),
    _held_out("counted-words", "healthy", HEALTHY, master=TWO_CORES, settings={SHUFFLE: "6"}),
    _held_out("sorted-table", "healthy", HEALTHY, master=CLUSTER, settings={SHUFFLE: "8"}),
    _held_out("orders-in-time", "streams", HEALTHY, master=TWO_CORES),
)
