"""Check DataFrame functions with Spark before the dataflow runs: their columns, and whether they can be replayed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from rechannel.dataflow.graph.nodes import Transform
from rechannel.engine.spark.private import PlanAnalysis
from rechannel.engine.spark.session.session import is_connect
from rechannel.errors import DataflowError, NonDeterministicError
from rechannel.sources.spark_types import arrow_schema


def transform_schema(
    spark: SparkSession, node: Transform, inputs: Sequence[pa.Schema]
) -> pa.Schema:
    """Return the columns of a DataFrame function's result, from its analysed plan. No data is read.

    Raises DataflowError if the function fails for these columns, and NonDeterministicError if a second run of its plan
    may give another result.
    """
    empty = spark.createDataFrame([], from_arrow_schema(inputs[0]))
    what = f"{node.name!r} ({node.where})"
    try:
        made: Any = node.function(empty)
        schema = arrow_schema(made.schema)
    except DataflowError as error:
        msg = f"the function of {what}: {error}"
        raise DataflowError(msg) from error
    except AnalysisException as error:
        msg = f"the function of {what} does not fit its input {inputs[0].names}: {error}"
        raise DataflowError(msg) from error
    if not node.materialise:
        refuse_unstable(spark, made, what)
    return schema


def refuse_unstable(spark: SparkSession, frame: DataFrame, what: str) -> None:
    """Raise NonDeterministicError if a second run of a plan may give another result."""
    complaint = _explained(frame) if is_connect(spark) else PlanAnalysis.complaint(frame)
    if complaint:
        msg = (
            f"the function of {what} may give another result when its timestep is replayed: {complaint}. "
            "Make its result depend on its rows only, or have it kept with materialise=True"
        )
        raise NonDeterministicError(msg)


_UNSTABLE = re.compile(
    r"""
    \b((?i: rand | randn | randstr | uniform | uuid | shuffle | now | localtimestamp | current_timestamp
           | current_date | current_time | input_file_name | spark_partition_id
           | monotonically_increasing_id ))\(
    | \b(GlobalLimit | LocalLimit | Offset | Sample)\ \d
    """,
    re.VERBOSE,
)


def _explained(frame: Any) -> str | None:
    """Answer the same question without private API, by words in the explained plan."""
    text = frame._explain_string(extended=True)
    plan = text.partition("== Optimized Logical Plan ==")[0]
    found = _UNSTABLE.search(plan)
    return f"its plan contains {found[1] or found[2]}" if found else None
