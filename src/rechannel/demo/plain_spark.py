"""The same results from plain Spark, by other means: window functions and GROUP BY over all rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rechannel.demo.dataflow import LATE, TURNAROUND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_AIRCRAFT = """
SELECT tailnum, latest.scheduled AS departed, latest.arr_delay AS behind FROM (
    SELECT tailnum, MAX_BY(STRUCT(scheduled, arr_delay), number) FILTER (
        WHERE dep_delay IS NOT NULL AND tailnum IS NOT NULL
    ) AS latest
    FROM {flights} GROUP BY tailnum
)
"""

_BROUGHT = f"""
SELECT number, carrier, day, hour, dep_delay AS delay, IF(
    tailnum IS NOT NULL
    AND scheduled - latest.scheduled <= INTERVAL '{TURNAROUND.total_seconds():.0f}' SECOND,
    latest.arr_delay, NULL
) AS brought
FROM (
    SELECT *, LAST(IF(dep_delay IS NULL, NULL, STRUCT(scheduled, arr_delay)), TRUE) OVER (
        PARTITION BY tailnum ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS latest
    FROM {{flights}}
)
"""

_LEGS = f"""
SELECT *,
    GREATEST(COALESCE(delay, 0), 0) AS minutes,
    BIGINT(delay IS NULL) AS cancelled,
    BIGINT(COALESCE(delay >= {LATE}, FALSE)) AS late,
    BIGINT(COALESCE(delay IS NOT NULL AND brought >= {LATE}, FALSE)) AS came_late,
    BIGINT(COALESCE(delay >= {LATE} AND brought >= {LATE}, FALSE)) AS late_again,
    BIGINT(COALESCE(delay IS NOT NULL AND brought < {LATE}, FALSE)) AS came_on_time,
    BIGINT(COALESCE(delay >= {LATE} AND brought < {LATE}, FALSE)) AS late_anew
FROM {{brought}}
"""

_HOURS = """
SELECT hour, SUM(late) AS late, SUM(came_late) AS came_late, SUM(late_again) AS late_again,
    SUM(came_on_time) AS came_on_time, SUM(late_anew) AS late_anew,
    COUNT(*) AS flights, AVG(delay) AS mean_delay
FROM {legs} GROUP BY hour
"""

_DAYS = """
SELECT carrier, day, SUM(cancelled) AS cancelled, SUM(minutes) AS minutes, SUM(late) AS late,
    SUM(came_late) AS came_late, SUM(late_again) AS late_again,
    SUM(came_on_time) AS came_on_time, SUM(late_anew) AS late_anew, COUNT(*) AS flights
FROM {legs} GROUP BY carrier, day
"""

_CARRIERS = """
SELECT carrier, COUNT(*) AS days, MAX(flights) AS most_flights, MAX(cancelled) AS most_cancelled,
    MAX(minutes) AS most_minutes
FROM {days} GROUP BY carrier
"""


def plain_spark(spark: SparkSession, files: Path) -> dict[str, DataFrame]:
    """Every result by its name, from the files that the stream reads."""
    flights = spark.read.parquet(str(files))
    legs = spark.sql(_LEGS, brought=spark.sql(_BROUGHT, flights=flights))
    days = spark.sql(_DAYS, legs=legs)
    return {
        "aircraft": spark.sql(_AIRCRAFT, flights=flights),
        "legs": legs,
        "hours": spark.sql(_HOURS, legs=legs),
        "days": days,
        "carriers": spark.sql(_CARRIERS, days=days),
    }
