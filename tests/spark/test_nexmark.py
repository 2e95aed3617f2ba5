"""Every query of NEXMark shows what Spark SQL makes of the same events in one batch, while it is changed."""

from random import Random

import pyarrow as pa
import pytest

import rechannel as rc
from benchmarks.nexmark.events import EVENTS, PER_EPOCH, SCHEMAS, Events
from benchmarks.nexmark.query import NAMES, query
from benchmarks.nexmark.tables import generated
from rechannel.errors import RefusedError
from rechannel.job import InProcess

COUNT, PER_TIMESTEP = 60_000, 3_000
ORDERS = {"in order": Events(rate=1_000), "out of order": Events(rate=1_000, jitter_ms=3_000)}
PATIENCE = 240


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(ORDERS["in order"], marks=pytest.mark.slow, id="in order"),
        pytest.param(ORDERS["out of order"], id="out of order"),
    ],
)
def events(request, spark):
    """The events, as views too."""
    views(spark, request.param)
    return request.param


def views(spark, events):
    """Tables that SQL reads."""
    for kind in SCHEMAS:
        rows = events.source(kind)(0, COUNT // EVENTS * PER_EPOCH[kind])
        spark.createDataFrame(pa.Table.from_batches([rows])).createOrReplaceTempView(kind)


def expected(spark, asked, events):
    """Rows of the SQL."""
    latest = [
        spark.sql(f"SELECT max(unix_micros(dateTime)) FROM {k}").first()[0] for k in asked.reads
    ]
    end = min(latest) - events.jitter_ms * 1000
    return plain(spark.sql(asked.sql.replace("{end}", str(end))).toArrow())


def plain(table):
    return sorted(
        repr([f"{v:.9e}" if isinstance(v, float) else str(v) for v in row.values()])
        for row in table.to_pylist()
    )


def latest(table, keys):
    """The last row of every key."""
    if not keys:
        return table
    last = {}
    for place, key in enumerate(zip(*(table[name].to_pylist() for name in keys), strict=True)):
        last[key] = place
    return table.take(list(last.values()))


def change(job, rng):
    """Something, if it can be."""
    operators = [name for name, one in job.configuration.operators.items() if one.routing]
    if not operators:
        return
    name = rng.choice(operators)
    wanted = rng.choice(
        [rc.rescale(name, rng.randint(1, 4)), rc.split(name, rng.randrange(4)), rc.rebalance(name)]
    )
    try:
        job.reconfigure(wanted, rng.choice([rc.all_at_once(), rc.fluid(2), rc.optimized(1)]))
    except RefusedError:
        return


@pytest.mark.parametrize("name", NAMES)
def test_in_process_while_it_is_changed(spark, events, name, tmp_path):
    asked = query(name)
    tables = generated(events, count=COUNT, per_timestep=PER_TIMESTEP)
    ends = [asked.build(tables).write.memory("out", name="out")]
    settings = rc.Settings(tasks=2, bins=8)
    job = rc.Job(name, ends, state=tmp_path / "state", settings=settings)
    rng = Random(name)
    running = job.start(in_process=InProcess())
    try:
        for _ in range(6):
            change(running, rng)
        running.process_all_available(PATIENCE)
        changed = [body for body in running.reconfigurations if body["phase"] == "done"]
        found = latest(running.memory("out"), asked.keys)
    finally:
        running.stop(PATIENCE)
    assert changed or not asked.stateful
    rows = expected(spark, asked, events)
    assert len(rows) >= (1 if asked.name == "q15" else 5)
    assert plain(found) == rows


@pytest.mark.parametrize("name", ["q5", "q8"])
def test_on_spark_while_it_is_changed(spark, name, tmp_path):
    on_spark(spark, name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["q3", "q4", "q7", "q9", "q11", "q18", "q19", "q20"])
def test_the_others_on_spark_while_they_are_changed(spark, name, tmp_path):
    on_spark(spark, name, tmp_path)


def on_spark(spark, name, tmp_path):
    """As in process, with executors that run tasks beside each other."""
    asked, events = query(name), ORDERS["out of order"]
    views(spark, events)
    tables = generated(events, count=COUNT, per_timestep=PER_TIMESTEP, partitions=2, spark=spark)
    out = tmp_path / "out"
    settings = rc.Settings(tasks=2, bins=8, interval_ms=100)
    ends = [asked.build(tables).write.parquet(out, name="out")]
    job = rc.Job(name, ends, state=tmp_path / "state", settings=settings).start()
    rng = Random(name)
    try:
        for _ in range(6):
            change(job, rng)
        job.process_all_available(PATIENCE)
        changed = [body for body in job.reconfigurations if body["phase"] == "done"]
    finally:
        job.stop(PATIENCE)
    assert changed
    found = spark.read.parquet(str(out)).orderBy("timestep").toArrow().drop_columns("timestep")
    rows = expected(spark, asked, events)
    assert len(rows) >= 5
    assert plain(latest(found, asked.keys)) == rows
