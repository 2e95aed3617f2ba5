"""The aggregates against Spark's own over random data of all types."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.protocol.logic import AggregateFunction, OperatorInput
from rechannel.model.eventtime import Clock
from rechannel.operators.aggregate import functions as ag
from rechannel.operators.aggregate.logic import AggregateLogic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS, KEYS = 3000, 40
NUMBERS = ["tiny", "short", "int", "long", "float", "double", "odd", "small_decimal", "decimal"]
ORDERABLE = [*NUMBERS, "text", "bytes", "flag", "day", "instant"]
SOME = ["long", "odd", "text"]
SUMMED = ["int", "odd", "decimal"]
# Spark's own first and last follow an order that its aggregation may have changed; these do not.
PRESENT = "filter (where {0} is not null)"
LISTED = f"collect_list(struct(at, {{0}} as v)) {PRESENT}"
# Spark's name, ours, and the columns to try them on.
PAIRS: list[tuple[str, type[AggregateFunction], dict[str, object], list[str]]] = [
    ("count({0})", ag.Count, {}, ORDERABLE),
    ("sum({0})", ag.Sum, {}, NUMBERS),
    ("avg({0})", ag.Mean, {}, NUMBERS),
    ("min({0})", ag.Min, {}, ORDERABLE),
    ("max({0})", ag.Max, {}, ORDERABLE),
    ("var_samp({0})", ag.Variance, {}, NUMBERS),
    ("var_pop({0})", ag.Variance, {"population": True}, SUMMED),
    ("stddev_samp({0})", ag.Stddev, {}, SUMMED),
    ("stddev_pop({0})", ag.Stddev, {"population": True}, SUMMED),
    ("min_by({0}, at)", ag.First, {}, SOME),
    (f"min_by({{0}}, at) {PRESENT}", ag.First, {"ignore_nulls": True}, SOME),
    ("max_by({0}, at)", ag.Last, {}, SOME),
    (f"max_by({{0}}, at) {PRESENT}", ag.Last, {"ignore_nulls": True}, SOME),
    ("count(distinct {0})", ag.CountDistinct, {}, SOME),
    (
        f"reverse(slice(reverse(array_sort({LISTED})), 1, 3)).v",
        ag.LastN,
        {"n": 3, "ignore_nulls": True},
        SOME,
    ),
]


def random_table() -> pa.Table:
    rng = np.random.default_rng(20)

    def column(values: object, kind: pa.DataType) -> pa.Array:
        whole = pa.array(values, kind, from_pandas=False)
        keep = pa.array(rng.random(ROWS) < 0.85)
        return pa.compute.if_else(keep, whole, pa.scalar(None, kind))

    def decimals(digits: int, scale: int) -> list[Decimal]:
        top = 10 ** min(digits, 18)
        unscaled = rng.integers(-top, top, ROWS).tolist()
        factor = 10 ** max(digits - 18, 0)
        return [Decimal(f"{number * factor}e-{scale}") for number in unscaled]

    keys = rng.integers(0, KEYS, ROWS)
    odd = rng.choice([0.0, -0.0, 1.5, math.nan, math.inf, -math.inf], ROWS, p=[0.5, *[0.1] * 5])
    columns = {
        "at": pa.array(np.arange(ROWS)),
        "key": pa.array(keys, mask=keys == 0),
        "tiny": column(rng.integers(-128, 128, ROWS), pa.int8()),
        "short": column(rng.integers(-(2**15), 2**15, ROWS), pa.int16()),
        "int": column(rng.integers(-(2**31), 2**31, ROWS), pa.int32()),
        "long": column(rng.integers(-(2**55), 2**55, ROWS), pa.int64()),
        "float": column(rng.normal(3, 100, ROWS).astype(np.float32), pa.float32()),
        "double": column(rng.lognormal(0, 9, ROWS), pa.float64()),
        "odd": column(odd, pa.float64()),
        "small_decimal": column(decimals(9, 3), pa.decimal128(9, 3)),
        "decimal": column(decimals(30, 6), pa.decimal128(36, 6)),
        "text": column(rng.choice(["", "a", "ab", "é", "\U0001f600", "z" * 20], ROWS), pa.string()),
        "bytes": column([rng.bytes(n) for n in rng.integers(0, 12, ROWS)], pa.binary()),
        "flag": column(rng.random(ROWS) < 0.5, pa.bool_()),
        "day": column(rng.integers(-999, 20_000, ROWS).astype(np.int32), pa.date32()),
        "instant": column(rng.integers(-(2**40), 2**50, ROWS), pa.timestamp("us", "UTC")),
    }
    # One key sees nothing but nulls, and one has a single row.
    table = pa.table(columns)
    lonely = {name: [columns[name].drop_null()[0].as_py()] for name in columns} | {"key": [901]}
    empty = {name: [None, None] for name in columns} | {"key": [900, 900], "at": [1, 2]}
    extra = [pa.table(rows, table.schema) for rows in (lonely, empty)]
    return pa.concat_tables([table, *extra]).combine_chunks()


def ours(table: pa.Table, functions: dict[str, AggregateFunction]) -> pa.Table:
    table = table.take(pa.compute.sort_indices(table["key"])).combine_chunks()  # stable
    logic = AggregateLogic.bind(["key"], functions, table.schema)
    keys = table["key"].chunk(0)
    marks = pa.compute.fill_null(keys, 10**6).to_numpy()
    distinct, starts = np.unique(marks, return_index=True)
    applied = logic.apply(
        OperatorInput(
            keys=[keys.take(pa.array(starts))],
            hashes=np.arange(len(distinct), dtype=np.uint64),
            values=[table[name].chunk(0) for name in logic.value_schema.names],
            groups=Groups(starts.astype(np.int64), len(table)),
            combined=False,
            old=[pa.nulls(len(distinct), kind) for kind in logic.state_schema.types],
            found=np.zeros(len(distinct), np.bool_),
            clock=Clock(stream_ms=0),
            timestep=0,
        )
    )
    return pa.Table.from_batches([applied.output])


def same(one: object, other: object) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or math.isclose(one, other, rel_tol=1e-9)
    return one == other and type(one) is type(other)


def alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Equal but for the session's time zone and the name and nullability of list elements."""
    if pa.types.is_list(one):
        return pa.types.is_list(other) and alike(one.value_type, other.value_type)
    if pa.types.is_timestamp(one):
        return pa.types.is_timestamp(other) and one.unit == other.unit
    return one == other


@pytest.mark.spark
def test_results_and_types_are_those_of_spark(spark: SparkSession):
    table = random_table()
    spark.createDataFrame(table).createOrReplaceTempView("rows_of_all_types")
    for sql, function, options, columns in PAIRS:
        select = ", ".join(f"{sql.format(f'`{name}`')} as {name}" for name in columns)
        query = f"select key, {select} from rows_of_all_types group by key"
        theirs = spark.sql(query).toArrow().sort_by("key")
        functions = {name: function(column=name, **options) for name in columns}
        mine = ours(table, functions).sort_by("key")
        assert mine["key"].to_pylist() == theirs["key"].to_pylist()
        for name in columns:
            kinds = mine.schema.field(name).type, theirs.schema.field(name).type
            assert alike(*kinds), (sql, name, kinds)
            rows = zip(*(one[name].to_pylist() for one in (mine, theirs)), strict=True)
            different = [row for row in rows if not same(*row)]
            assert not different, (sql, name, different[:3])
