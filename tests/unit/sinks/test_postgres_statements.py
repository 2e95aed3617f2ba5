"""What is said to PostgreSQL; the server has its say in tests/real."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.errors import DataflowError, RefusedError, StorageError
from rechannel.sinks.outlet import SinkContext
from rechannel.sinks.postgres.outlet import PostgresOutlet
from rechannel.sinks.postgres.statements import (
    Table,
    check_columns,
    created,
    fits_exactly,
    removed,
    table_named,
    type_of,
    written,
)

TABLE = Table(schema="", name="t")


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("totals", '"totals"'),
        ("Totals", '"totals"'),
        ("shop.totals", '"shop"."totals"'),
        ('"Shop"."the ""best"""', '"Shop"."the ""best"""'),
        ('"a.b"', '"a.b"'),
    ],
)
def test_names_of_tables_are_read_as_the_database_reads_them(text, means):
    assert table_named(text).quoted == means
    assert table_named(text).beside("marks") == means.rpartition('"."')[0] + (
        '"."marks"' if table_named(text).schema else '"marks"'
    )


@pytest.mark.parametrize("text", ["", "a.b.c", "a.", ".a", '"a', 'a"b"', '""'])
def test_other_names_are_refused(text):
    with pytest.raises(DataflowError, match="is no table: give its name, or"):
        table_named(text)


def test_rows_are_appended_in_their_order_or_replace_others():
    columns = {"k": "bigint", "n": "numeric(9,2)"}
    assert written(TABLE, columns, (), ()) == (
        'INSERT INTO "t" ("k", "n") SELECT "k"::bigint, "n"::numeric(9,2) FROM rechannel_arrived'
        " ORDER BY rechannel_row"
    )
    assert written(TABLE, columns, ("k",), ("n",)) == (
        'INSERT INTO "t" ("k", "n") SELECT DISTINCT ON ("k") "k"::bigint, "n"::numeric(9,2)'
        ' FROM rechannel_arrived ORDER BY "k", rechannel_row DESC'
        ' ON CONFLICT ("k") DO UPDATE SET "n" = EXCLUDED."n"'
    )
    assert written(TABLE, {"k": "bigint"}, ("k",), ()).endswith('ON CONFLICT ("k") DO NOTHING')


def test_changes_write_what_is_there_and_remove_what_is_gone():
    columns = {"k": "bigint", "n": "numeric(9,2)"}
    assert written(TABLE, columns, ("k",), ("n",), "change") == (
        'INSERT INTO "t" ("k", "n") SELECT DISTINCT ON ("k") "k"::bigint, "n"::numeric(9,2)'
        " FROM rechannel_arrived WHERE \"change\" IN ('insert', 'update_after')"
        ' ORDER BY "k", rechannel_row DESC ON CONFLICT ("k") DO UPDATE SET "n" = EXCLUDED."n"'
    )
    assert removed(TABLE, columns, ("k",), "change") == (
        'DELETE FROM "t" old USING rechannel_arrived gone WHERE old."k" = gone."k"::bigint'
        " AND gone.\"change\" IN ('update_before', 'delete') AND NOT EXISTS (SELECT FROM"
        ' rechannel_arrived kept WHERE kept."k" = gone."k"'
        " AND kept.\"change\" IN ('insert', 'update_after'))"
    )


def test_a_table_is_proposed_for_rows():
    schema = pa.schema(
        [("k", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("x", pa.list_(pa.string()))]
    )
    assert created(schema, ("k",), TABLE) == (
        'CREATE TABLE "t" ("k" bigint, "at" timestamptz, "x" text[], PRIMARY KEY ("k"))'
    )
    with pytest.raises(DataflowError, match="column 'm' is map<string, int64>"):
        type_of(pa.map_(pa.string(), pa.int64()), "m")


def test_which_types_need_no_cast():
    kinds = [
        pa.int16(),
        pa.decimal128(20, 3),
        pa.timestamp("us", "UTC"),
        pa.list_(pa.timestamp("us")),
    ]
    schema = pa.schema([(str(at), kind) for at, kind in enumerate(kinds)])
    types = [
        "smallint",
        "numeric(20,3)",
        "timestamp with time zone",
        "timestamp without time zone[]",
    ]
    there = {str(at): kind for at, kind in enumerate(types)}
    assert fits_exactly(schema, there)
    for at, other in enumerate(["integer", "numeric", "date", "text[]"]):
        assert not fits_exactly(schema, {**there, str(at): other})


def test_columns_are_compared_with_those_of_the_table():
    schema = pa.schema([("k", pa.int64())])
    there = [("k", "bit(3)", '"bit"', False), ("made", "integer", "integer", True)]
    assert check_columns(schema, there, [["k"]], ("k",), TABLE) == {"k": ("bit(3)", '"bit"')}
    with pytest.raises(RefusedError, match='has no unique index on "k"'):
        check_columns(schema, there, [["k", "made"]], ("k",), TABLE)
    with pytest.raises(RefusedError, match='computes column "made" itself'):
        check_columns(pa.schema([("made", pa.int32())]), there, [], (), TABLE)


def test_what_is_wrong_is_said_before_anything_starts():
    stream = rc.read().memory("k BIGINT", name="rows")
    with pytest.raises(DataflowError, match="give the address as postgresql://"):
        stream.write.postgres("localhost", "t")
    with pytest.raises(DataflowError, match="wait_s must be above 0"):
        stream.write.postgres("postgresql://localhost", "t", wait_s=0)
    outlet = PostgresOutlet(url="postgresql://me:secret@db:5432/x?password=other", table="t")
    assert outlet.describe() == "postgres t at postgresql://me:***@db:5432/x"
    assert "secret" not in outlet.place


# Addresses --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "shown", "secret"),
    [
        (
            "postgresql://me:a:secret@db:1/x?sslmode=disable",
            "postgresql://me:***@db:1/x",
            "a:secret",
        ),
        ("postgresql://me:s3cr%zz@db/x", "postgresql://me:***@db/x", "s3cr%zz"),
        ("postgresql://me:s3%40r@db/x", "postgresql://me:***@db/x", "s3@r"),
        ("postgresql://me@db/x?password=secret", "postgresql://me@db/x", "secret"),
    ],
)
def test_passwords_are_not_shown(url, shown, secret):
    outlet = PostgresOutlet(url=url, table="t")
    assert outlet.shown == shown
    assert outlet.hidden(f"no entry for the password {secret!r}") == (
        "no entry for the password '***'"
    )


def test_an_error_of_the_client_does_not_tell_the_password():
    outlet = PostgresOutlet(url="postgresql://me:s3cr%zz@127.0.0.1:1/x", table="t")
    writer = outlet.open(SinkContext(job="job", name="out", schema=None))
    with pytest.raises(StorageError, match=r"\*\*\*") as raised:
        writer.begin()
    assert "s3cr" not in str(raised.value)


def test_the_client_waits_no_longer_than_was_said_unless_the_address_says_so():
    outlet = PostgresOutlet(
        url="postgresql://db/x?connect_timeout=3&sslmode=disable", table="t", wait_s=30
    )
    address, _, query = outlet.patient_url.partition("?")
    assert address == "postgresql://db/x"
    assert dict(parse_qsl(query)) == {
        "connect_timeout": "3",
        "sslmode": "disable",
        "tcp_user_timeout": "30000",
        "keepalives_idle": "30",
        "keepalives_interval": "10",
        "keepalives_count": "3",
    }
