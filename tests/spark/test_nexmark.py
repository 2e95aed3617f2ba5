"""Every query of NEXMark shows what Spark SQL makes of the same events in one batch, while it is changed."""

from itertools import count
from random import Random
from time import monotonic, sleep

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rechannel as rc
from benchmarks.nexmark.events import EVENTS, PER_EPOCH, SCHEMAS, Events
from benchmarks.nexmark.query import NAMES, VARIANTS, query
from benchmarks.nexmark.tables import generated
from rechannel.errors import RefusedError
from rechannel.job import InProcess
from tests.support.dying import DiesOnce, DyingEvents, same

COUNT, PER_TIMESTEP = 60_000, 3_000
TIMESTEPS = COUNT // PER_TIMESTEP
ORDERS = {"in order": Events(rate=1_000), "out of order": Events(rate=1_000, jitter_ms=3_000)}
PATIENCE = 240
STRATEGIES = (rc.strategies.all_at_once(), rc.strategies.fluid(2), rc.strategies.optimized(1))


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
        [
            rc.changes.rescale(name, rng.randint(1, 4)),
            rc.changes.split(name, rng.randrange(4)),
            rc.changes.rebalance(name),
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


ALWAYS = ("q1", "q3", "q5", "q6", "q7", "q8", "q9", "q11", "q18", "q19")
"""One query of each kind: without state, joins, windows, sessions, the best of a key. The slow tests have them all."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name not in ALWAYS))
        for name in NAMES
        if not query(name).processing
    ],
)
def test_in_process_while_it_is_changed(spark, events, name, tmp_path):
    in_process(spark, query(name), events, tmp_path)


# Rates at which the events last for some windows.
RATES = {"q5-ds2": 8, "q8-megaphone": 1}


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_variants_while_they_are_changed(spark, name, tmp_path):
    slow = Events(rate=RATES.get(name, 1_000), jitter_ms=3_000)
    views(spark, slow)
    in_process(spark, query(name), slow, tmp_path)


@pytest.mark.slow
def test_sessions_with_another_gap_while_they_are_changed(spark, tmp_path):
    jittered = ORDERS["out of order"]
    views(spark, jittered)
    # Their times are whole milliseconds, so some are exactly so far apart.
    in_process(spark, query("q11", gap_us=3_000_000), jittered, tmp_path)


def in_process(spark, asked, events, tmp_path):
    """The query while it is changed; its rows are those of its SQL over the views."""
    name = asked.name
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
        changed = [one for one in running.history() if one.phase == "done"]
        found = latest(running.memory("out"), asked.keys)
    finally:
        running.stop(PATIENCE)
    assert changed or not asked.stateful
    rows = expected(spark, asked, events)
    assert len(rows) >= (1 if asked.name == "q15" else 5)
    assert plain(found) == rows


ON_SPARK = ("q3", "q4", "q5", "q6", "q7", "q8", "q9", "q10", "q11", "q18", "q19", "q20", "q23")


@pytest.mark.slow  # the Yahoo benchmark is tested so in every run
@pytest.mark.parametrize("name", ON_SPARK)
def test_on_spark_while_it_is_changed_and_fails(spark, name, tmp_path):
    on_spark(spark, name, tmp_path)


def on_spark(spark, name, tmp_path):
    """As in process, with executors that run tasks beside each other, of which some die, and a second driver."""
    asked, events = query(name), ORDERS["out of order"]
    views(spark, events)
    dying = DyingEvents(rate=events.rate, jitter_ms=events.jitter_ms, markers=tmp_path)
    tables = generated(dying, count=COUNT, per_timestep=PER_TIMESTEP, partitions=2, spark=spark)
    out = tmp_path / "out"
    settings = rc.Settings(tasks=2, bins=8, interval_ms=100)
    behind = DiesOnce(same, tmp_path / "result died")
    ends = [
        asked.build(tables)
        .map_batches(behind, name="behind")
        .write.format("parquet")
        .partition_by(*asked.partitions)
        .save(out, name="out")
    ]
    rng, changed = Random(name), []
    for last in (False, True):
        job = rc.Job(name, ends, state=tmp_path / "state", settings=settings).start()
        try:
            for _ in range(4):
                change(job, rng)
            if last:
                job.process_all_available(PATIENCE)
            else:
                committed(job, TIMESTEPS // 2)
            changed += [one for one in job.history() if one.phase == "done"]
        finally:
            job.stop(PATIENCE)
        assert (job.status.timestep == TIMESTEPS) == last
    assert changed or not asked.stateful
    died = {path.name for path in tmp_path.glob("* died")}
    assert died == {"result died", *(f"{kind} died" for kind in asked.reads)}
    found = spark.read.parquet(str(out)).orderBy("timestep").toArrow().drop_columns("timestep")
    rows = expected(spark, asked, events)
    assert len(rows) >= 5
    assert plain(latest(found, asked.keys)) == rows


def committed(job, timestep):
    """Wait until a timestep is."""
    until = monotonic() + PATIENCE
    while job.status.timestep < timestep:
        assert monotonic() < until
        sleep(0.02)


def test_windows_of_processing_time_go_by_the_times_of_the_journal(spark, tmp_path):
    """q12: which timestep read a bid, and when that was, is told by the progress."""
    asked, events = query("q12", size="7 seconds"), ORDERS["out of order"]
    tables = generated(events, count=COUNT, per_timestep=PER_TIMESTEP)
    ends = [asked.build(tables).write.memory("out", name="out")]
    settings = rc.Settings(tasks=2, bins=8)
    ticks = count(1_000)
    job = rc.Job("q12", ends, state=tmp_path / "state", settings=settings)
    running = job.start(in_process=InProcess(), clock=lambda: next(ticks) * 200.0)
    rng = Random("q12")
    try:
        for _ in range(6):
            change(running, rng)
        running.process_all_available(PATIENCE)
        until = monotonic() + PATIENCE
        while running.state("windows").num_rows and monotonic() < until:
            sleep(0.05)
        changed = [one for one in running.history() if one.phase == "done"]
        found = running.memory("out")
        times = {one.timestep: one.now_ms for one in running.recent_progress}
    finally:
        running.stop(PATIENCE)
    assert changed
    per_timestep = PER_TIMESTEP // EVENTS * PER_EPOCH["bid"]
    rows = COUNT // EVENTS * PER_EPOCH["bid"]
    read = pa.array([times[1 + number // per_timestep] for number in range(rows)])
    bids = pa.Table.from_batches([events.bids(0, rows)])
    read = pc.cast(pc.multiply(read, 1_000), pa.timestamp("us", "UTC"))
    spark.createDataFrame(bids.append_column("p_time", read)).createOrReplaceTempView("bid")
    rows = plain(spark.sql(asked.sql).toArrow())
    assert len(set(found["starttime"].to_pylist())) > 2
    assert plain(found) == rows
