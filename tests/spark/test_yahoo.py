"""The query of the Yahoo streaming benchmark counts what Spark SQL counts in one batch, while it is changed."""

from collections import Counter
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest

import rechannel as rc
from benchmarks.peers.yahoo import counted
from benchmarks.yahoo.events import COLUMN, SCHEMA, AdEvents, ads_of
from benchmarks.yahoo.query import OPERATOR, SQL, counts
from rechannel.errors import RefusedError
from rechannel.job import InProcess
from tests.support.dying import DiesOnce, same

START_NS = 1_700_000_003 * 1_000_000_000
EVENTS = AdEvents(start_ns=START_NS, rate=1_000, partitions=2, campaigns=20, ads=3)
LATE = replace(EVENTS, skewed=True, late_every=200, late_ms=60_000)
ROWS, PER_TIMESTEP, SECONDS = 40_000, 1_500, 10
PATIENCE = 240
STRATEGIES = (rc.strategies.all_at_once(), rc.strategies.fluid(2), rc.strategies.optimized(1))
SOURCE = "events"


@pytest.fixture(scope="module", params=[EVENTS, LATE], ids=["in order", "late"])
def events(request):
    """In order, and out of order with rows that come when their window is gone."""
    return request.param


@pytest.fixture(scope="module")
def expected(spark, events):
    """Counts of one batch, by the SQL."""
    return in_one_batch(spark, events)


def in_one_batch(spark, events):
    rows = spark.createDataFrame(pa.Table.from_batches([events.batch(0, ROWS)]))
    rows.createOrReplaceTempView("events")
    table(spark).createOrReplaceTempView("ads")
    return counts_of(spark.sql(SQL.format(seconds=SECONDS)).toArrow())


def table(spark):
    return spark.createDataFrame(list(ads_of(20, 3)), "ad_id STRING, campaign_id STRING")


def counts_of(rows):
    """The last count of every campaign and window."""
    return {
        (row["campaign_id"], row["window_start"].timestamp()): row["count"]
        for row in rows.to_pylist()
    }


def with_late(found, late):
    """Counts, and the late rows that are in none of them."""
    return {
        **found,
        **{
            key: found.get(key, 0) + more
            for key, more in Counter(
                (row["campaign_id"], row["event_time"].timestamp() // SECONDS * SECONDS)
                for row in late.to_pylist()
            ).items()
        },
    }


def dataflow(events, spark=None, rows=None):
    """The counts over a generator that gives the events. rows: makes them."""
    lines = rc.read(spark).generator(
        rows or events.batch,
        schema=SCHEMA,
        per_timestep=PER_TIMESTEP,
        rows=ROWS,
        partitions=2,
        name=SOURCE,
    )
    return counts(lines, campaigns=20, ads=3, seconds=SECONDS, delay_ms=100)


def change(job, rng):
    """Other tasks, other bins, or other places of them."""
    wanted = rng.choice(
        [
            rc.changes.rescale(OPERATOR, rng.randint(1, 4)),
            rc.changes.split(OPERATOR, rng.randrange(3)),
            rc.changes.rebalance(OPERATOR),
        ]
    )
    try:
        job.reconfigure(
            wanted,
            rng.choice(
                [rc.strategies.all_at_once(), rc.strategies.fluid(2), rc.strategies.optimized(1)]
            ),
        )
    except RefusedError:
        return


def test_the_counts_of_the_generator_are_those_of_spark(events, expected):
    own = events.counts(ROWS, SECONDS * 1_000)
    assert {(c, start / 1_000): n for (c, start), n in own.items()} == expected


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_in_process_while_it_is_changed(events, expected, seed, tmp_path):
    found = dataflow(events)
    ends = [found.write.memory("out", name="out"), found.late.write.memory("late", name="late")]
    settings = rc.Settings(tasks=2, bins=8)
    running = rc.Job("yahoo", ends, state=tmp_path / "state", settings=settings).start(
        in_process=InProcess()
    )
    rng = Random(seed)
    try:
        for _ in range(6):
            change(running, rng)
        running.process_all_available(PATIENCE)
        changed = [one for one in running.history() if one.phase == "done"]
        shown, late = running.memory("out"), running.memory("late")
    finally:
        running.stop(PATIENCE)
    assert changed
    assert len(shown) > 3 * len(counts_of(shown))
    assert (len(late) > 20) == (events is LATE)
    assert with_late(counts_of(shown), late) == expected


@pytest.mark.slow  # in process it is run above, and rescaled on Spark in test_reconfigure.py
def test_on_spark_while_it_is_rescaled_and_fails(spark, tmp_path):
    """A task that reads and a task that counts die, and a second driver takes over in the middle."""
    found = dataflow(EVENTS, spark, DiesOnce(EVENTS.batch, tmp_path / "reading died"))
    found = found.map_batches(DiesOnce(same, tmp_path / "counting died"), name="behind")
    settings = rc.Settings(tasks=2, bins=8, interval_ms=50)
    flow = found.write.parquet(tmp_path / "out", name="out")
    for tasks, strategy in ((4, rc.strategies.fluid(2)), (1, rc.strategies.all_at_once())):
        job = rc.Job("yahoo", flow, state=tmp_path / "state", settings=settings).start()
        try:
            job.reconfigure(rc.changes.rescale(OPERATOR, tasks), strategy).wait(PATIENCE)
            assert 0 < job.committed_offset(SOURCE)["rows"] < ROWS
            if tasks == 1:
                job.process_all_available(PATIENCE)
        finally:
            job.stop(PATIENCE)
    assert {path.name for path in tmp_path.glob("* died")} == {"reading died", "counting died"}
    shown = spark.read.parquet(str(tmp_path / "out")).orderBy("timestep").toArrow()
    assert counts_of(shown) == in_one_batch(spark, EVENTS)


def test_the_peer_counts_the_same(spark, events, expected):
    rows = spark.createDataFrame(pa.Table.from_batches([events.batch(0, ROWS)]), SCHEMA)
    assert rows.columns == [COLUMN]
    found = counted(rows, table(spark), seconds=SECONDS)
    assert counts_of(found.toArrow()) == expected
