"""Every type under every aggregate, as a key and in distinct rows: as Spark in a batch, in a zone with DST."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F  # noqa: N812

import rechannel as rc
from rechannel import aggregates as agg

pytestmark = pytest.mark.slow

ROWS = """
    (double('NaN'), 'a', 1L, timestamp'2024-03-31 01:30:00Z'),
    (0.0D, 'A', 2L, timestamp'2024-03-31 02:30:00Z'),
    (-0.0D, 'a', 3L, timestamp'1900-01-01 00:00:00Z'),
    (1.5D, '', 2L, timestamp'9999-12-30 23:59:59.999999Z'),
    (null, null, null, null),
    (double('Infinity'), '\u00e4', 1L, timestamp'2024-10-27 01:30:00Z'),
    (double('-Infinity'), 'a\u0308', 5L, timestamp'0001-01-02 05:00:00Z'),
    (double('NaN'), 'A', 1L, timestamp'2024-03-31 01:30:00Z'),
    (-1.5D, 'b ', 9L, timestamp'1582-10-10 00:00:00Z'),
    (3.25D, '\U0001f600', 7L, timestamp'2024-11-03 05:30:00Z'),
    (2.0D, '\uffff', 8L, timestamp'2024-11-03 06:30:00Z')
"""

NUMBERS = ("sum", "mean", "variance", "stddev")
ORDERED = ("min", "max")

TYPES = {
    "bool": ("i % 2 = 0", ORDERED),
    "byte": ("cast(i as tinyint)", (*NUMBERS, *ORDERED)),
    "short": ("cast(i * 1000 as smallint)", (*NUMBERS, *ORDERED)),
    "int": ("cast(i * 100000 as int)", (*NUMBERS, *ORDERED)),
    "long": ("i * 1000000007", (*NUMBERS, *ORDERED)),
    "float": ("cast(x as float)", (*NUMBERS, *ORDERED)),
    "double": ("x", (*NUMBERS, *ORDERED)),
    "dec5": ("cast(i / 3 as decimal(5, 2))", (*NUMBERS, *ORDERED)),
    "dec20": ("cast(i as decimal(20, 3)) / 7", (*NUMBERS, *ORDERED)),
    "dec38": ("cast(i as decimal(38, 10))", (*NUMBERS, *ORDERED)),
    "binary": ("cast(s as binary)", ORDERED),
    "string": ("s", ORDERED),
    "char": ("cast(s as char(3))", ORDERED),
    "ntz": ("cast(at as timestamp_ntz)", ORDERED),
    "instant": ("at", ORDERED),
    "spring": ("timestamp'2024-03-10 01:30:00' + make_dt_interval(0, cast(i as int))", ORDERED),
    "autumn": ("timestamp'2024-11-03 00:30:00' + make_dt_interval(0, cast(i as int))", ORDERED),
    "day": ("cast(at as date)", ORDERED),
    "span": ("make_dt_interval(0, 0, i)", ORDERED),
    "nothing": ("null", ()),
    "struct": ("named_struct('a', x, 'b', s)", ()),
    "array": ("array(x, i)", ()),
    "entries": ("array_sort(map_entries(map(coalesce(s, 'z'), x)))", ()),
}

OURS = {
    "count": agg.count,
    "sum": agg.sum,
    "mean": agg.mean,
    "variance": agg.variance,
    "stddev": lambda column: agg.stddev(column, population=True),
    "min": agg.min,
    "max": agg.max,
    "distinct": agg.count_distinct,
}

SPARKS = {
    "count": F.count,
    "sum": F.sum,
    "mean": F.avg,
    "variance": F.variance,
    "stddev": F.stddev_pop,
    "min": F.min,
    "max": F.max,
    "distinct": F.countDistinct,
}


@pytest.fixture
def in_new_york(spark):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


def compared(value):
    """Floats to twelve digits, zeros without a sign: means are rounded in other places, and any zero may be largest."""
    if isinstance(value, float):
        return "0" if value == 0 else f"{value:.12g}"
    if isinstance(value, dict):
        return {name: compared(each) for name, each in value.items()}
    return [compared(each) for each in value] if isinstance(value, list) else value


def rows_of(table):
    return sorted(repr([compared(value) for value in row.values()]) for row in table.to_pylist())


def test_types_mean_what_they_mean_to_spark(in_new_york, tmp_path):
    spark = in_new_york
    path = str(tmp_path / "rows")
    spark.sql(f"select * from values {ROWS} as t(x, s, i, at)").write.parquet(path)
    columns = [f"{made} as {name}" for name, (made, _) in TYPES.items()]
    columns.append("i % 2 as g")
    plain = spark.read.parquet(path).selectExpr(*columns).cache()
    rows = rc.read(spark).files(f"{path}/*.parquet", name="in")
    rows = rows.transform(lambda frame: frame.selectExpr(*columns), name="typed")
    wanted = {
        f"{name}.{what}": (name, what)
        for name, (_, kinds) in TYPES.items()
        for what in ("count", *kinds, "distinct")
    }
    aggregates = {place: OURS[what](name) for place, (name, what) in wanted.items()}
    ends = [rows.key_by("g").aggregate(aggregates, name="all").write.memory("all", name="out")]
    expected = {
        "out": plain.groupBy("g").agg(
            *(SPARKS[what](name).alias(place) for place, (name, what) in wanted.items())
        )
    }
    for name in TYPES:
        counts = rows.key_by(name).aggregate(n=agg.count(), name=f"by-{name}")
        once = rows.deduplicate(name, name=f"once-{name}").select(name)
        ends += [
            counts.write.memory(f"n {name}", name=f"n-{name}"),
            once.write.memory(f"d {name}", name=f"d-{name}"),
        ]
        expected[f"n-{name}"] = plain.groupBy(name).agg(F.count("*").alias("n"))
        expected[f"d-{name}"] = plain.select(name).distinct()
    with rc.run_batch(ends) as result:
        for name, frame in expected.items():
            got, want = result.output(name).toArrow(), frame.toArrow()
            assert got.schema.types == want.schema.types, name
            for place in want.schema.names if name == "out" else [None]:
                both = (t if place is None else t.select(["g", place]) for t in (got, want))
                one, other = map(rows_of, both)
                assert one == other, place or name
    plain.unpersist()
