"""Aggregates and running functions: `aggregate(n=count(), mean=mean("price"))`, `running(before=lag("price"))`.

    from rechannel import aggregates as agg

Null handling, result types and results are those of Spark SQL's functions of the same meaning.
"""

from __future__ import annotations

from rechannel.dataflow.streams.aggregates import (
    count,
    count_distinct,
    cumulative,
    difference,
    first,
    lag,
    last,
    last_n,
    max,
    mean,
    min,
    stddev,
    sum,
    variance,
)

__all__ = [
    "count",
    "count_distinct",
    "cumulative",
    "difference",
    "first",
    "lag",
    "last",
    "last_n",
    "max",
    "mean",
    "min",
    "stddev",
    "sum",
    "variance",
]
