"""Rows go to PostgreSQL once, whatever dies."""

from __future__ import annotations

import datetime as dt
import random
import time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.errors import (
    DataflowError,
    NotPermittedError,
    OtherHistoryError,
    RefusedError,
    StorageError,
)
from rechannel.job import InProcess
from rechannel.sinks.claims import Ledger
from rechannel.sinks.marks import Mark
from rechannel.sinks.outlet import SinkContext
from rechannel.sinks.postgres import statements
from rechannel.sinks.postgres.outlet import PostgresOutlet
from rechannel.sinks.writer import Rows
from rechannel.state.stores.local import LocalStore
from tests.publishing import SCHEMA, publish, rows, step
from tests.real import kills as killing
from tests.spark.programs import run, session, until


@pytest.fixture
def writer():
    """Open writers; they are closed with the test."""
    opened = []

    def open_one(server, table, *keys, url=None, schema=SCHEMA, changes="", **context):
        outlet = PostgresOutlet(
            url=url or server.url, table=table, keys=keys, changes=changes, wait_s=5.0
        )
        opened.append(outlet.open(SinkContext(job="job", name="out", schema=schema, **context)))
        opened[-1].begin()
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


def table(server, name, columns="k bigint PRIMARY KEY, n bigint"):
    server.ask(f"CREATE TABLE {name} ({columns})")
    return name


def test_a_timestep_is_written_once(postgres, writer):
    name = table(postgres, "once", "k bigint, n bigint")
    one = writer(postgres, name)
    publish(one, 1, (1, 1), (2, 2))
    publish(one, 1, (1, 1), (2, 2))
    two = writer(postgres, name)
    publish(two, 1, (1, 1), (2, 2))
    publish(two, 2, (3, 3))
    publish(two, 3)
    publish(one, 3)
    publish(one, 4, (4, 4))
    assert postgres.ask(f"SELECT k FROM {name} ORDER BY k") == [(1,), (2,), (3,), (4,)]


@pytest.mark.parametrize(
    ("columns", "exact"),
    [
        ("n bigint, other int DEFAULT 7, k bigint", True),
        ("k bigint, n bigint, other int DEFAULT 7, UNIQUE (other, k)", False),
        ("k int, n numeric, other int DEFAULT 7", False),
    ],
)
def test_rows_of_exactly_its_types_are_copied_to_the_table_itself(
    postgres, writer, monkeypatch, columns, exact
):
    brought, written = [], statements.written

    def noted(*given):
        brought.append(given)
        return written(*given)

    monkeypatch.setattr(statements, "written", noted)
    postgres.ask("CREATE SCHEMA IF NOT EXISTS other")
    here = f"direct{len(columns)}"
    for name in (table(postgres, here, columns), table(postgres, f"other.{here}", columns)):
        one, two = writer(postgres, name), writer(postgres, name)
        publish(one, 1, (1, 10), (2, 20))
        publish(two, 1, (1, 10), (2, 20))
        publish(two, 2, (3, 30))
        assert (not brought) is exact
        found = postgres.ask(f"SELECT k, n::bigint, other FROM {name} ORDER BY k")
        assert found == [(1, 10, 7), (2, 20, 7), (3, 30, 7)]


def test_rows_take_the_place_of_those_with_their_keys(postgres, writer):
    name = table(postgres, "upserts")
    one = writer(postgres, name, "k")
    publish(one, 1, (1, 1), (2, 2), (1, 10), (1, 11))
    publish(one, 2, (2, 20), (3, 30))
    assert postgres.ask(f"SELECT * FROM {name} ORDER BY k") == [(1, 11), (2, 20), (3, 30)]
    only_keys = pa.schema([("k", pa.int64())])
    name = table(postgres, "sets", "k bigint PRIMARY KEY")
    one = writer(postgres, name, "k", schema=only_keys)
    publish(one, 1, (1,), (1,), schema=only_keys)
    publish(one, 2, (1,), (2,), schema=only_keys)
    assert postgres.ask(f"SELECT * FROM {name} ORDER BY k") == [(1,), (2,)]


def test_changes_are_written_and_removed_by_their_keys(postgres, writer):
    told = pa.schema([*SCHEMA, ("change", pa.string())])
    name = table(postgres, "told", "k int PRIMARY KEY, n bigint, other int DEFAULT 7")
    one = writer(postgres, name, "k", schema=told, changes="change")

    def found():
        return postgres.ask(f"SELECT k, n, other FROM {name} ORDER BY k")

    publish(one, 1, (1, 1, "insert"), (2, 2, "insert"), (3, 3, "insert"), schema=told)
    postgres.ask(f"UPDATE {name} SET other = 8")
    some = (1, 10, "update_after"), (2, 2, "delete"), (9, 9, "delete"), (1, 1, "update_before")
    publish(one, 2, *some, schema=told)
    publish(one, 2, *some, schema=told)
    assert found() == [(1, 10, 8), (3, 3, 8)]  # what rows do not have stays
    publish(one, 3, (3, 3, "update_before"), (4, 3, "update_after"), schema=told)
    assert found() == [(1, 10, 8), (4, 3, 7)]
    with pytest.raises(RefusedError, match="column 'change' of a row is 'gone'"):
        publish(one, 4, (1, 1, "gone"), schema=told)
    assert found() == [(1, 10, 8), (4, 3, 7)]
    name = table(postgres, "appended", "k bigint, n bigint, change text")
    publish(writer(postgres, name, schema=told), 1, (1, 1, "insert"), (1, 1, "delete"), schema=told)
    assert postgres.ask(f"SELECT change FROM {name} ORDER BY 1") == [("delete",), ("insert",)]


def test_values_are_those_of_the_rows(postgres, writer):
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 678_999, tzinfo=dt.UTC)
    schema = pa.schema(
        [
            ("flag", pa.bool_()),
            ("small", pa.int8()),
            ("whole", pa.int32()),
            ("real", pa.float32()),
            ("float", pa.float64()),
            ("exact", pa.decimal128(20, 3)),
            ("text", pa.string()),
            ("raw", pa.binary()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", "UTC")),
            ("local", pa.timestamp("us")),
            ("list", pa.list_(pa.int64())),
            ("object", pa.string()),
        ]
    )
    kinds = "flag bool, small int, whole bigint, real real, float float8, exact numeric(20,3)"
    kinds += ", text varchar(9), raw bytea, day date, at timestamptz, local timestamp"
    kinds += ", list bigint[], object jsonb, other text DEFAULT 'x'"
    name = table(postgres, "kinds", kinds)
    values = (True, -1, 2, 0.5, 1e300, Decimal("-1.250"), "ä\0"[:1], b"\0\xff", at.date(), at)
    values += (at.replace(tzinfo=None), [1, None], '{"a": 1}')
    one = writer(postgres, name, schema=schema)
    publish(one, 1, values, (None,) * len(values), schema=schema)
    found, nulls = postgres.ask(f"SELECT {', '.join(schema.names[:-2])} FROM {name}")
    assert [Decimal(each) if each == "-1.250" else each for each in found] == list(values[:-2])
    assert nulls == (None,) * (len(values) - 2)
    assert postgres.ask(f"SELECT object->>'a', list[1], list[2], other FROM {name}")[0] == (
        "1",
        1,
        None,
        "x",
    )


@pytest.mark.parametrize(
    ("columns", "keys", "words"),
    [
        (None, (), r'there is no table "here": create it, .* CREATE TABLE "here" \("k" bigint, "n" bigint\)'),
        ("k bigint", (), r'lacks column "n": ALTER TABLE "here" ADD COLUMN "n" bigint'),
        ("k bigint, n bigint GENERATED ALWAYS AS (k) STORED", (), 'computes column "n" itself'),
        ("k bigint, n bigint", ("k",), r'no unique index on "k".* CREATE UNIQUE INDEX ON "here" \("k"\)'),
        ("k bigint, n bigint, UNIQUE (k, n)", ("k",), 'no unique index on "k"'),
    ],
)  # fmt: skip
def test_a_table_that_does_not_fit_is_refused(postgres, writer, columns, keys, words):
    postgres.ask("DROP TABLE IF EXISTS here")
    if columns:
        table(postgres, "here", columns)
    with pytest.raises(RefusedError, match=words):
        writer(postgres, "here", *keys)
    postgres.ask("DROP TABLE IF EXISTS here")


def test_a_value_that_the_table_does_not_take_is_refused_and_nothing_is_written(postgres, writer):
    name = table(postgres, "short", "k smallint, n bigint CHECK (n > 0)")
    one = writer(postgres, name)
    publish(one, 1, (1, 1))
    with pytest.raises(RefusedError, match=r"does not take a value: .*smallint out of range"):
        publish(one, 2, (2, 2), (100_000, 3))
    with pytest.raises(RefusedError, match=r"does not take a row: .*check constraint"):
        publish(one, 2, (2, 2), (3, -3))
    publish(one, 2, (2, 2))
    assert postgres.ask(f"SELECT k FROM {name} ORDER BY k") == [(1,), (2,)]


def test_each_table_has_a_mark_of_its_own(postgres, writer):
    for name in ("first_one", "second_one"):
        publish(writer(postgres, table(postgres, name)), 1, (1, 1))
        assert postgres.ask(f"SELECT * FROM {name}") == [(1, 1)]


def test_another_history_is_recognised(postgres, writer):
    name = table(postgres, "histories", "k bigint, n bigint")
    publish(writer(postgres, name), 7, (1, 1))

    def open_with(**known):
        ledger = Ledger(opening="o", epoch=2, **known)
        return writer(postgres, name, ledger=lambda: ledger)

    with pytest.raises(RefusedError, match=r"has timestep 7 .* its last commit is timestep 5"):
        open_with(committed=5)
    with pytest.raises(RefusedError, match="has timestep 7"):
        open_with(committed=9, digests={7: "other"})
    with pytest.raises(OtherHistoryError, match=r"timestep 7 .* is not what this job"):
        publish(open_with(committed=9, digests={7: step(7).digest}), 7, (1, 1), digest="e")
    publish(open_with(committed=5, remove_later=True), 6, (6, 6))
    assert postgres.ask(f"SELECT k FROM {name} ORDER BY k") == [(1,), (6,)]


@pytest.mark.parametrize(
    "columns", ["k bigint, n bigint", "k int, n int", "k bigint UNIQUE, n bigint"]
)
def test_a_driver_that_is_cut_off_while_it_sends_rows_does_not_hold_up_others(
    postgres, writer, columns
):
    name = table(postgres, f"sending{len(columns)}", columns)
    cut, two = writer(postgres, name), writer(postgres, name)

    def stuck():
        yield pa.record_batch([[1], [1]], schema=SCHEMA)
        publish(two, 1, (1, 1), (2, 2))
        yield pa.record_batch([[2], [2]], schema=SCHEMA)

    held = Rows(tables=stuck, schema=SCHEMA)
    cut.publish(cut.stage(held, step(1)), step(1))
    assert postgres.ask(f"SELECT k FROM {name} ORDER BY k") == [(1,), (2,)]
    publish(cut, 2, (3, 3))
    assert postgres.ask(f"SELECT count(*) FROM {name}") == [(3,)]


def test_a_driver_that_is_cut_off_with_the_lock_loses_it(postgres):
    name = table(postgres, "locked", "k bigint, n bigint")
    cut, two = (
        PostgresOutlet(url=postgres.url, table=name, wait_s=wait_s).open(
            SinkContext(job="job", name="out", schema=SCHEMA)
        )
        for wait_s in (1.0, 0.2)
    )
    waited = []

    def is_new(_mark) -> bool:
        waited.append(None)
        if len(waited) == 2:  # now it holds the lock
            with pytest.raises(StorageError, match="lock timeout"):
                publish(two, 1, (1, 1))
            until(lambda: published(two), "the lock is given up")
        return True

    def published(opened) -> bool:
        try:
            publish(opened, 1, (1, 1))
        except StorageError:
            return False
        return True

    cut.begin()
    with pytest.raises(StorageError, match=r"idle-in-transaction|closed"):
        cut._place.write(rows((1, 1)), Mark(1, step(1).digest), is_new=is_new)
    assert len(waited) == 2
    assert postgres.ask(f"SELECT k FROM {name}") == [(1,)]
    two.close()


def test_who_may_not_write_is_told(postgres, writer):
    name = table(postgres, "closed", "k bigint, n bigint")
    postgres.ask("CREATE ROLE guest LOGIN")
    writer(postgres, name)
    postgres.ask("GRANT ALL ON rechannel_marks TO guest")
    one = writer(postgres, name, url=postgres.url.replace("postgres@", "guest:secret@"))
    with pytest.raises(NotPermittedError, match="permission denied for table closed") as told:
        publish(one, 1, (1, 1))
    assert "secret" not in str(told.value)


def test_a_server_that_is_away_is_waited_for(own_postgres, writer):
    name = table(own_postgres, "away", "k bigint, n bigint")
    one = writer(own_postgres, name)
    publish(one, 1, (1, 1))
    own_postgres.kill()
    with pytest.raises(StorageError):
        publish(one, 2, (2, 2))
    own_postgres.start()
    publish(one, 2, (2, 2))
    assert own_postgres.ask(f"SELECT k FROM {name} ORDER BY k") == [(1,), (2,)]


def test_types_that_the_database_does_not_have_are_named():
    schema = pa.schema([("k", pa.map_(pa.string(), pa.int64()))])
    outlet = PostgresOutlet(url="postgresql://nobody@127.0.0.1:1/x", table="t")
    with pytest.raises(DataflowError, match="column 'k' is map"):
        outlet.open(SinkContext(job="job", schema=schema))


# Jobs ------------------------------------------------------------------------------------------------


def flows(url: str, total: int) -> list[Any]:
    return killing.flows(
        total,
        lambda write: write.postgres(url, "totals", keys=["user"], wait_s=10.0, name="to-totals"),
        lambda write: write.postgres(url, "copies", wait_s=10.0, name="to-copies"),
    )


def drive(place: str, url: str, total: int) -> int:
    """Process everything there is."""
    job = run(session(place), flows(url, total), f"{place}/state", name="pg", in_flight=2)
    return job.status.timestep or 0


def prepare(server) -> None:
    table(server, "totals", '"user" bigint PRIMARY KEY, count bigint, sum bigint')
    table(server, "copies", '"user" bigint, n bigint')


def check(server, total: int) -> None:
    assert server.ask("SELECT count(*), count(DISTINCT n), min(n), max(n) FROM copies") == [
        (total, total, 0, total - 1)
    ]
    found = server.ask('SELECT "user", count, sum FROM totals')
    assert {user: of for user, *of in found} == {
        user: list(of) for user, of in killing.expected(total).items()
    }


def test_a_job_in_process(own_postgres, tmp_path):
    prepare(own_postgres)
    url = own_postgres.url.replace("postgres@", "postgres:secret@")
    job = rc.Job("pg", flows(url, 20_000), state=tmp_path / "state")
    running = job.start(in_process=InProcess())
    running.process_all_available()
    running.stop()
    check(own_postgres, 20_000)
    files = [each for each in (tmp_path / "state").rglob("*") if each.is_file()]
    assert files
    assert not [each for each in files if b"secret" in each.read_bytes()]


@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_drivers_and_servers_are_killed(own_postgres, child, tmp_path, kills):
    prepare(own_postgres)
    total = 15_000 * (kills + 2)

    def between(number: int, choose: random.Random) -> None:
        if number % 2:
            own_postgres.kill()
            time.sleep(choose.uniform(0, 1.0))
            own_postgres.start()
            time.sleep(choose.uniform(0, 0.5))

    given = {"place": str(tmp_path), "url": own_postgres.url, "total": total}
    state = LocalStore(tmp_path / "state")
    assert killing.kill_drivers(child, drive, given, state, kills=kills, between=between) > 0
    check(own_postgres, total)


@pytest.mark.parametrize(
    ("columns", "keys"),
    [("k bigint, t varchar(3)", ()), ("k bigint PRIMARY KEY, t char(3)", ("k",))],
)
def test_a_text_that_is_too_long_is_refused(postgres, writer, columns, keys):
    schema = pa.schema([("k", pa.int64()), ("t", pa.string())])
    name = table(postgres, f"cut{len(columns)}", columns)
    one = writer(postgres, name, *keys, schema=schema)
    publish(one, 1, (1, "abc"), schema=schema)
    with pytest.raises(RefusedError, match="too long"):
        publish(one, 2, (2, "abcd"), schema=schema)
    assert postgres.ask(f"SELECT * FROM {name}") == [(1, "abc")]


def test_a_column_whose_type_changes_meanwhile_gets_the_values_of_the_rows(postgres, writer):
    name = table(postgres, "altered", "k bigint, n bigint")
    one = writer(postgres, name)
    publish(one, 1, (1, 1))
    postgres.ask(f"ALTER TABLE {name} ALTER n TYPE double precision")
    publish(one, 2, (2, 5))
    assert postgres.ask(f"SELECT k, n FROM {name} ORDER BY k") == [(1, 1.0), (2, 5.0)]


def test_rows_may_take_longer_to_compute_than_a_transaction_may_wait(postgres):
    name = table(postgres, "computed", "k bigint, n bigint")
    outlet = PostgresOutlet(url=postgres.url, table=name, wait_s=1.0)
    one = outlet.open(SinkContext(job="job", name="out", schema=SCHEMA))
    one.begin()
    ready = rows((1, 1))

    def slowly():
        time.sleep(2.5)
        yield from ready.tables()

    batch = step(1)
    one.publish(one.stage(Rows(tables=slowly, schema=SCHEMA), batch), batch)
    one.close()
    assert postgres.ask(f"SELECT k, n FROM {name}") == [(1, 1)]


@pytest.mark.parametrize("scale", range(7))
def test_decimals_are_exact(postgres, writer, scale):
    schema = pa.schema([("k", pa.int64()), ("d", pa.decimal128(18, scale))])
    name = table(postgres, f"decimals{scale}", f"k bigint, d numeric(18, {scale})")
    values = [Decimal(n).scaleb(-scale) for n in (5 * 10**15 + 1, 10**8 + 1, 1, 0, -(10**16) - 7)]
    publish(writer(postgres, name, schema=schema), 1, *enumerate(values), schema=schema)
    found = postgres.ask(f"SELECT d FROM {name} ORDER BY k")
    assert [Decimal(text) for (text,) in found] == values


def test_a_null_key_in_a_later_batch_is_refused(postgres, writer):
    name = table(postgres, "nulls")
    one = writer(postgres, name, "k")
    first, second = rows((1, 1)), rows((None, 2))

    def both():
        yield from first.tables()
        yield from second.tables()

    batch = step(1)
    with pytest.raises(RefusedError, match="k"):
        one.publish(one.stage(Rows(tables=both, schema=SCHEMA), batch), batch)
    assert postgres.ask(f"SELECT * FROM {name}") == []


def test_a_table_is_found_by_the_search_path(postgres, writer):
    postgres.ask("CREATE SCHEMA IF NOT EXISTS later")
    name = table(postgres, "later.searched", "k bigint, n bigint").partition(".")[2]
    url = f"{postgres.url}{'&' if '?' in postgres.url else '?'}options=-csearch_path%3Dpublic,later"
    publish(writer(postgres, name, url=url), 1, (1, 1))
    assert postgres.ask("SELECT * FROM later.searched") == [(1, 1)]
