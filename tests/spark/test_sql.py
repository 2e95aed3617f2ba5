"""SQL over the state of a job on Spark: one version, views of its own, nothing held longer than it is used."""

from __future__ import annotations

import gc

import pyarrow as pa
import pytest
from pyspark import RDD

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import RefusedError, UnknownOperatorError

BOTH = """
SELECT (SELECT sum(n) FROM users) AS users, (SELECT sum(n) FROM `by.item-1`) AS items,
       (SELECT max(n) FROM users) AS most
"""


def events(start, stop):
    numbers = range(start, stop)
    return pa.record_batch(
        {"user": [f"u{n % 50}" for n in numbers], "item": [n * 7 % 13 for n in numbers]}
    )


@pytest.fixture(scope="module")
def job(spark, tmp_path_factory):
    """A job whose input never ends: two operators that count the same rows by something else."""
    rows = rc.read(spark).generator(
        events, schema="user STRING, item BIGINT", per_timestep=100, name="events"
    )
    ends = [
        rows.key_by("user").aggregate(n=agg.count(), name="users"),
        rows.key_by("item").aggregate(n=agg.count(), name="by.item-1"),
        rows.key_by("item").aggregate(n=agg.max("user"), name="USERS"),
    ]
    settings = rc.Settings(
        durability=rc.Durability.PROCESS, tasks=2, bins=16, keep_versions=1, interval_ms=50
    )
    state = tmp_path_factory.mktemp("sql") / "state"
    running = rc.Job("endless", ends, state=state, settings=settings, spark=spark).start()
    yield running
    running.stop()


def wait_for(job, timesteps):
    """So many more timesteps."""
    until = job.status.timestep + timesteps
    while job.status.timestep < until:
        assert job.is_active
        job.await_termination(0.05)


@pytest.fixture
def lower(job):
    """The job without the operator whose name differs in its case only."""
    if any(name == "USERS" for name in job.configuration.operators):
        wait_for(job, 1)
        with pytest.raises(RefusedError, match="cannot tell operators 'users' and 'USERS' apart"):
            job.sql("SELECT * FROM users")
        job.reconfigure(rc.changes.remove("USERS")).wait(60)
    return job


@pytest.mark.slow  # in process, it is tested in every run
def test_all_tables_are_of_one_timestep_while_the_stream_is_changed(lower):
    seen = set()
    for tasks in (4, 1, 3):
        change = [rc.changes.rescale("users", tasks), rc.changes.rescale("by.item-1", 5 - tasks)]
        asked = lower.reconfigure(change, rc.strategies.fluid(4))
        for _ in range(3):
            row = lower.sql(BOTH).first()
            assert row.users == row.items
            seen.add(row.users)
        asked.wait(120)
    assert len(seen) > 3


@pytest.mark.slow  # in process, it is tested in every run
def test_an_answer_stays_what_it_is_while_files_are_swept(lower):
    found = lower.sql("SELECT user, n FROM users")
    before = sorted(found.collect())
    held = lower._parts.held
    wait_for(lower, 40)
    assert sorted(found.where("n > 0").collect()) == before
    behind = found.where("n > 1")
    del found
    gc.collect()
    assert held.files()
    del behind
    gc.collect()
    assert not held.files()


def test_views_and_settings_of_the_user_are_left_alone(spark, lower):
    spark.sql("SELECT 7 AS mine").createOrReplaceTempView("users")
    zone, before = spark.conf.get("spark.sql.session.timeZone"), RDD.toDF
    try:
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        assert lower.sql("SELECT current_timezone() FROM users").first()[0] == "Asia/Tokyo"
        assert spark.table("users").columns == ["mine"]
        assert RDD.toDF is before
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
        spark.catalog.dropTempView("users")


@pytest.mark.parametrize(
    "query",
    [
        "WITH all AS (SELECT * FROM users) INSERT INTO written SELECT user, n FROM all",
        "FROM users INSERT INTO written SELECT user, n",
        "FROM users INSERT INTO written SELECT user, n INSERT INTO written SELECT user, n",
        "-- SELECT\nWITH all AS (SELECT * FROM users) INSERT OVERWRITE written SELECT user, n FROM all",
    ],
)
def test_what_begins_as_a_query_and_writes_is_refused(spark, lower, tmp_path, query):
    spark.sql(f"CREATE TABLE written (user STRING, n BIGINT) USING parquet LOCATION '{tmp_path}/t'")
    try:
        with pytest.raises(RefusedError, match="cannot be answered"):
            lower.sql(query)
        assert spark.table("written").count() == 0
    finally:
        spark.sql("DROP TABLE written")


@pytest.mark.parametrize(
    "query",
    [
        "WITH all AS (SELECT * FROM users) SELECT user, n FROM all;",
        "FROM users SELECT user, n",
        "(SELECT user, n FROM users)",
        "SELECT a.user, b.user FROM users AS a JOIN users AS b ON a.user = b.user",
        "TABLE users",
    ],
)
def test_queries_of_every_form_are_answered(lower, query):
    assert lower.sql(query).count() == 50


def test_what_cannot_be_answered_is_told(lower):
    with pytest.raises(UnknownOperatorError, match=r"no table `nobody`.*`users`, `by.item-1`"):
        lower.sql("SELECT * FROM nobody")
    with pytest.raises(UnknownOperatorError, match="backticks"):
        lower.sql("SELECT * FROM by.item")
    with pytest.raises(RefusedError, match=r"(?s)cannot be answered.*nothing"):
        lower.sql("SELECT nothing FROM users")
    with pytest.raises(RefusedError, match="state is read-only"):
        lower.sql("SELEKT")
