"""The same dataflow as one batch in plain Spark SQL and streamed, whatever the number of tasks and timesteps in flight.

Same means: keys, integers, decimals, strings and dates exactly; floats within 1e-9 of Spark, and to the last bit
between streamed runs; first and last by source and offset. What depends on where timesteps are cut is compared with
SQL that cuts at the same places.
"""

import math
import os
from datetime import date, timedelta
from decimal import Decimal
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812

import rechannel as rc
from rechannel import aggregates as agg
from tests.spark.programs import as_bytes, published, run

FILES, ROWS, PER_TIMESTEP = 6, 300, 2


@pytest.fixture
def variants(thorough):
    """(tasks per operator, timesteps in flight); fewer differ in both at once."""
    return list(product([1, 3], [1, 3])) if thorough else [(1, 1), (3, 3)]


def orders(number, rng):
    """One file of orders: every column but `seq`, `cut` and `big` has nulls, keys too."""
    columns = {
        "shop": (rng.choice(["", "a", "b", "Zürich", "東京"], ROWS).tolist(), pa.string()),
        "item": (rng.integers(-2, 3, ROWS).tolist(), pa.int32()),
        "day": ([date(2024, 2, 28) + timedelta(int(d)) for d in rng.integers(0, 3, ROWS)], pa.date32()),
        "weight": (rng.choice([0.0, -0.0, 1.5, math.nan], ROWS).tolist(), pa.float64()),
        "amount": (rng.integers(-(2**31), 2**31, ROWS).tolist(), pa.int32()),
        "price": (rng.lognormal(0, 9, ROWS).tolist(), pa.float64()),
        "odd": (rng.choice([1.0, math.nan, -0.0, math.inf], ROWS).tolist(), pa.float64()),
        "cost": ([Decimal(int(c)).scaleb(-3) for c in rng.integers(-(10**9), 10**9, ROWS)], pa.decimal128(12, 3)),
        "note": (rng.choice(["", "x", "yy", "ß", "zzz"], ROWS).tolist(), pa.string()),
    }  # fmt: skip
    arrays = {
        name: pa.array([None if rng.random() < 0.1 else v for v in values], kind)
        for name, (values, kind) in columns.items()
    }
    seq = np.arange(number * ROWS, (number + 1) * ROWS)
    arrays["seq"] = pa.array(seq)
    arrays["big"] = pa.array(rng.integers(-(2**40), 2**40, ROWS))
    arrays["cut"] = pa.array(np.full(ROWS, number // PER_TIMESTEP))
    return pa.table(arrays)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with all files of orders."""
    rng, directory = np.random.default_rng(11), tmp_path_factory.mktemp("orders")
    for number in range(FILES):
        path = directory / f"{number}.parquet"
        pq.write_table(orders(number, rng), path, row_group_size=100)
        os.utime(path, (number + 1, number + 1))
    return directory


@pytest.fixture(scope="module")
def batch(spark, place):
    """All orders as a view of plain Spark."""
    frame = spark.read.parquet(str(place))
    frame.createOrReplaceTempView("orders")
    assert frame.count() == FILES * ROWS
    return spark.sql


def stream(place, files="*", name="orders"):
    """The orders as a stream; files: only some of them."""
    return rc.read().files(f"{place}/{files}.parquet", per_timestep=PER_TIMESTEP, name=name)


def streamed(spark, flows, tmp_path, operators, variants):
    """Run every variant of a dataflow; the last one, when all have the same state to the last bit.

    flows: makes the dataflow from where it may write.
    """
    seen = {}
    for tasks, in_flight in variants:
        home = tmp_path / f"{tasks}-{in_flight}"
        job = run(spark, flows(home), home / "state", tasks=tasks, in_flight=in_flight, bins=12)
        assert job.configuration.operators[operators[0]].tasks == tasks
        seen[tasks, in_flight] = {name: as_bytes(job.state_table(name)) for name in operators}
    first, *others = seen.values()
    assert all(first.values())
    for variant, other in zip(variants[1:], others, strict=True):
        assert other == first, f"(tasks, in_flight) = {variant} differs from {variants[0]}"
    return job, home


def close(one, other):
    """Whether two values are the same, floats within 1e-9."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(close, one, other))
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-300)
    return type(one) is type(other) and one == other


def by_key(frame, keys):
    """Rows of a DataFrame by their key columns; NaN is one key and zero has no sign."""
    table = frame.toArrow()
    out = {}
    for row in table.to_pylist():
        key = tuple(
            repr(0.0) if row[k] == 0 and isinstance(row[k], float) else repr(row[k]) for k in keys
        )
        assert key not in out, f"{key} is there twice"
        out[key] = {name: value for name, value in row.items() if name not in keys}
    return out, [(field.name, field.type) for field in table.schema]


def check(ours, plain, *keys):
    """Compare two DataFrames by key."""
    (mine, columns), (theirs, expected) = by_key(ours, keys), by_key(plain, keys)
    assert columns == expected
    assert mine.keys() == theirs.keys()
    for key, row in theirs.items():
        differ = {n: (mine[key][n], v) for n, v in row.items() if not close(mine[key][n], v)}
        assert not differ, (key, differ)


NOT_NULL = "filter (where {0} is not null)"

AGGREGATES = {
    "n": (agg.count(), "count(*)"),
    "n_item": (agg.count("item"), "count(item)"),
    "s_int": (agg.sum("amount"), "sum(amount)"),
    "s_big": (agg.sum("big"), "sum(big)"),
    "s_float": (agg.sum("price"), "sum(price)"),
    "s_decimal": (agg.sum("cost"), "sum(cost)"),
    "m_int": (agg.mean("amount"), "avg(amount)"),
    "m_float": (agg.mean("price"), "avg(price)"),
    "m_decimal": (agg.mean("cost"), "avg(cost)"),
    "lo_int": (agg.min("amount"), "min(amount)"),
    "hi_odd": (agg.max("odd"), "max(odd)"),
    "lo_odd": (agg.min("odd"), "min(odd)"),
    "lo_text": (agg.min("note"), "min(note)"),
    "hi_text": (agg.max("note"), "max(note)"),
    "hi_day": (agg.max("day"), "max(day)"),
    "hi_decimal": (agg.max("cost"), "max(cost)"),
    "var": (agg.variance("amount"), "var_samp(amount)"),
    "var_all": (agg.variance("price", population=True), "var_pop(price)"),
    "dev": (agg.stddev("price"), "stddev_samp(price)"),
    "first": (agg.first("note"), "min_by(note, seq)"),
    "first_value": (
        agg.first("note", ignore_nulls=True), f"min_by(note, seq) {NOT_NULL.format('note')}",
    ),
    "last": (agg.last("price"), "max_by(price, seq)"),
    "last_value": (
        agg.last("day", ignore_nulls=True), f"max_by(day, seq) {NOT_NULL.format('day')}",
    ),
    "last_3": (
        agg.last_n("amount", 3),
        "reverse(slice(reverse(array_sort(collect_list(struct(seq, amount as v)))), 1, 3)).v",
    ),
    "kinds": (agg.count_distinct("note"), "count(distinct note)"),
}  # fmt: skip


def test_all_aggregates(spark, batch, place, tmp_path, variants):
    ours = {name: made for name, (made, _) in AGGREGATES.items()}
    plain = ", ".join(f"{text} as {name}" for name, (_, text) in AGGREGATES.items())
    keys = {"one": ["shop"], "three": ["shop", "item", "day"], "float": ["weight"]}

    def flows(home):
        del home
        rows = stream(place)
        return [rows.key_by(*on).aggregate(ours, name=name) for name, on in keys.items()]

    job, _ = streamed(spark, flows, tmp_path, list(keys), variants)
    assert job.status.timestep == FILES // PER_TIMESTEP
    for name, on in keys.items():
        by = ", ".join(on)
        check(job.state(name), batch(f"select {by}, {plain} from orders group by {by}"), *on)


CHANGES = """
    select cut, shop, item, sum(n) over w as n, sum(total) over w as total
    from (
        select cut, shop, item, count(*) as n, cast(sum(amount) as bigint) as total
        from orders where amount > 0 group by cut, shop, item
    )
    window w as (partition by shop, item order by cut)
"""
"""What the first of two operators emits: the running values of the keys that a timestep changed."""


def test_two_operators_in_a_row_with_functions_around_them(spark, batch, place, tmp_path, variants):
    def flows(home):
        items = (
            stream(place)
            .transform(lambda df: df.where("amount > 0").drop("odd"), name="in-front")
            .key_by("shop", "item")
            .aggregate(n=agg.count(), total=agg.sum("amount"), name="items")
        )
        shops = (
            items.transform(lambda df: df.withColumn("double", F.col("total") * 2), name="between")
            .key_by("shop")
            .aggregate(
                updates=agg.count(), rows=agg.sum("n"), top=agg.max("total"), both=agg.sum("double"),
                name="shops",
            )
        )  # fmt: skip
        behind = shops.transform(lambda df: df.where("shop <> ''").select("shop", "rows"))
        return [behind.write.parquet(home / "out")]

    job, home = streamed(spark, flows, tmp_path, ["items", "shops"], variants)
    check(
        job.state("items"),
        batch(
            "select shop, item, count(*) as n, sum(amount) as total from orders"
            " where amount > 0 group by shop, item"
        ),
        "shop", "item",
    )  # fmt: skip
    check(
        job.state("shops"),
        batch(
            "select shop, count(*) as updates, sum(n) as rows, max(total) as top,"
            f" sum(total * 2) as both from ({CHANGES}) group by shop"
        ),
        "shop",
    )
    check(
        spark.read.parquet(str(home / "out")).withColumn("cut", F.col("timestep") - 1).drop("timestep"),
        batch(
            "select shop, rows, cut from ("
            "  select shop, cut, sum(sum(n)) over (partition by shop order by cut) as rows"
            f" from ({CHANGES}) group by shop, cut) where shop <> ''"
        ).withColumn("cut", F.col("cut").cast("int")),
        "shop", "cut",
    )  # fmt: skip


def test_one_stream_for_many_and_many_for_one(spark, batch, place, tmp_path, variants):
    """Fan-out to two operators, a sink and a union; a union of two sources, one filtered and sooner at its end."""

    def flows(home):
        low, high = stream(place, "[0-1]", "low"), stream(place, "[2-5]", "high")
        kept = low.filter("item is not null")
        both = kept.union(high, name="both")
        again = both.union(kept, name="again")
        return [
            both.key_by("shop").aggregate(
                n=agg.count(),
                s=agg.sum("price"),
                first=agg.first("seq"),
                last=agg.last("seq"),
                name="both-by-shop",
            ),
            both.key_by("day").aggregate(n=agg.count(), m=agg.max("cost"), name="both-by-day"),
            again.key_by("item").aggregate(n=agg.count(), b=agg.sum("big"), name="again-by-item"),
            both.transform(lambda df: df.select("seq")).write.parquet(home / "both"),
        ]

    operators = ["both-by-shop", "both-by-day", "again-by-item"]
    job, home = streamed(spark, flows, tmp_path, operators, variants)
    edge = 2 * ROWS
    batch(f"select * from orders where item is not null or seq >= {edge}").createOrReplaceTempView(
        "b"
    )
    shops = (
        "select shop, count(*) as n, sum(price) as s, min(seq) as first, max(seq) as last"
        " from b group by shop"
    )
    check(job.state("both-by-shop"), batch(shops), "shop")
    days = "select day, count(*) as n, max(cost) as m from b group by day"
    check(job.state("both-by-day"), batch(days), "day")
    twice = f"(select * from b union all select * from b where seq < {edge})"
    items = f"select item, count(*) as n, sum(big) as b from {twice} group by item"
    check(job.state("again-by-item"), batch(items), "item")
    written = spark.read.parquet(str(home / "both")).select("seq")
    assert sorted(written.toArrow()["seq"].to_pylist()) == sorted(
        batch("select seq from b").toArrow()["seq"].to_pylist()
    )


# Functions of the user -----------------------------------------------------------------------------------------


def follow(key, state, rows):
    """Count, total and latest note of a key; a key that saw too much is forgotten."""
    n, total = (0, 0) if state is None else (state.n, state.total)
    n, total = n + len(rows), total + sum(rows["big"])
    return None if n % 7 == 0 else (n, total, rows["seq"][-1])


def follow_all(frame):
    """The same for all keys at once."""
    n = frame.previous("n", 0) + frame.count()
    total = frame.previous("total", 0) + frame.sum("big")
    return {"n": n, "total": total, "seq": frame.last("seq"), "_drop": n % 7 == 0}


def combine(earlier, later):
    """First note, latest number, sum: associative, and the order matters."""
    return pa.RecordBatch.from_arrays(
        [
            pc.add(earlier["big"], later["big"]),
            pc.coalesce(earlier["note"], later["note"]),
            later["seq"],
        ],
        names=["big", "note", "seq"],
    )


def pick(batch):
    return batch.select(["shop", "big", "note", "seq"])


def combine_rows(earlier, later):
    note = later.note if earlier.note is None else earlier.note
    return (earlier.big + later.big, note, later.seq)


def tracked(rows):
    """What `follow` does, over rows of plain Spark in stream order, cut into timesteps."""
    state, per_cut = {}, {}
    for row in rows:
        per_cut.setdefault((row["cut"], row["shop"]), []).append(row)
    for (_, shop), group in sorted(per_cut.items(), key=lambda item: item[0][0]):
        n, total, _ = state.get(shop, (0, 0, 0))
        n, total = n + len(group), total + sum(row["big"] for row in group)
        state.pop(shop, None)
        if n % 7:
            state[shop] = (n, total, group[-1]["seq"])
    return state


def test_functions_of_the_user(spark, batch, place, tmp_path, variants):
    columns = "n BIGINT, total BIGINT, seq BIGINT"
    narrow = "shop STRING, big BIGINT, note STRING, seq BIGINT"

    def flows(home):
        del home
        rows = stream(place)
        keyed = rows.key_by("shop")
        few = rows.map_batches(pick, schema=narrow, name="few")
        return [
            keyed.track(follow, state=columns, name="track"),
            keyed.track_batches(follow_all, state=columns, name="track-batches"),
            few.key_by("shop").running_reduce(combine, name="reduce"),
            few.key_by("shop").running_reduce(combine_rows, name="reduce-rows", rowwise=True),
        ]

    operators = ["track", "track-batches", "reduce", "reduce-rows"]
    job, _ = streamed(spark, flows, tmp_path, operators, variants)
    rows = batch("select cut, shop, big, seq from orders order by seq").toArrow().to_pylist()
    expected = tracked(rows)
    assert any(row["shop"] is None for row in rows)
    for name in ("track", "track-batches"):
        found = {row.shop: (row.n, row.total, row.seq) for row in job.state(name).collect()}
        assert found == expected
    reduced = batch(
        "select shop, sum(big) as big, min_by(note, seq) filter (where note is not null) as note,"
        " max(seq) as seq from orders group by shop"
    )
    check(job.state("reduce"), reduced, "shop")
    check(job.state("reduce-rows"), reduced, "shop")


def test_a_result_that_is_kept_is_the_same_for_everybody(spark, batch, place, tmp_path, variants):
    def flows(home):
        drawn = stream(place).transform(
            lambda df: df.withColumn("r", F.rand()), name="drawn", materialise=True
        )
        return [
            drawn.key_by("shop").aggregate(n=agg.count(), r=agg.sum("r"), name="by-shop"),
            drawn.key_by("seq").aggregate(r=agg.last("r"), name="by-seq"),
            drawn.transform(lambda df: df.select("seq", "r")).write.parquet(home / "out"),
        ]

    for tasks, in_flight in variants:
        home = tmp_path / f"{tasks}-{in_flight}"
        job = run(spark, flows(home), home / "state", tasks=tasks, in_flight=in_flight)
        written = spark.read.parquet(str(home / "out")).drop("timestep")
        check(job.state("by-seq"), written, "seq")
        assert written.count() == FILES * ROWS
        written.createOrReplaceTempView("drawn")
        shops = "select shop, count(*) as n, sum(r) as r from drawn join orders using (seq) group by shop"
        check(job.state("by-shop"), batch(shops), "shop")
    assert written.select("r").distinct().count() > 1


SHUFFLING = {
    "repartition": lambda df: df.repartition(3),
    "by column": lambda df: df.repartition(3, "item"),
    "sort": lambda df: df.orderBy("item"),
    "join": lambda df: df.join(
        df.sparkSession.range(-3, 3).withColumnRenamed("id", "item"), "item"
    ),
    "distinct": lambda df: df.select("shop", "item", "seq").distinct(),
}
FAST = ("repartition", "join")


@pytest.mark.parametrize(
    "shuffling",
    [
        pytest.param(function, id=name, marks=[] if name in FAST else pytest.mark.slow)
        for name, function in SHUFFLING.items()
    ],
)
def test_order_behind_a_shuffle_does_not_depend_on_the_run(spark, place, tmp_path, shuffling):
    """First and last behind functions that lose the order of rows: any order, and always the same."""

    def flows(home):
        del home
        rows = stream(place).transform(shuffling, name="shuffled")
        return [
            rows.key_by("shop").aggregate(
                first=agg.first("seq"),
                last=agg.last("seq"),
                some=agg.last_n("seq", 20),
                name="ends",
            )
        ]

    job, _ = streamed(spark, flows, tmp_path, ["ends"], [(1, 1), (3, 3)])
    assert job.state("ends").count() > 1


def test_every_timestep_is_written_once(spark, place, tmp_path, variants):
    """The output of a timestep does not depend on how it was run either."""

    def flows(home):
        counts = (
            stream(place).key_by("shop").aggregate(n=agg.count(), s=agg.sum("price"), name="counts")
        )
        return [counts.write.parquet(home / "out")]

    streamed(spark, flows, tmp_path, ["counts"], variants)
    first, *others = [published(tmp_path / f"{t}-{f}" / "out") for t, f in variants]
    assert len(first) == FILES // PER_TIMESTEP
    assert all(set(rows.values()) == {1} for rows in first.values())
    assert all(other == first for other in others)
