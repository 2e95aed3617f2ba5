"""Bodies to rows: JSON lines, arrays, Arrow streams; what does not fit is named."""

import datetime
import random

import pyarrow as pa
import pytest

from rechannel.errors import DataflowError
from rechannel.ingest import columns as of_columns
from rechannel.ingest.arrow_rows import read_stream
from rechannel.ingest.columns import BadRowsError, Columns, TooManyRowsError
from rechannel.ingest.json_rows import read_array, read_lines
from rechannel.model.ddl import schema_of

COLUMNS = Columns(
    schema_of(
        "id INT NOT NULL, name STRING, at TIMESTAMP, day DATE, price DECIMAL(9,2), tags ARRAY<STRING>,"
        " place STRUCT<x: DOUBLE, y: DOUBLE>, ok BOOLEAN"
    )
)


def test_lines_become_rows():
    body = (
        b'{"id": 1, "name": "\xc3\xa9\\n", "at": "2026-01-02T03:04:05.678Z", "day": "2026-01-02", "price": 1.5}\r\n'
        b"\n"
        b'{"tags": ["a", null], "id": 2, "place": {"x": 1, "y": null}, "ok": false, "price": "2.25"}'
    )
    rows = read_lines(body, COLUMNS)
    assert rows.schema.equals(COLUMNS.schema)
    first, second = rows.to_pylist()
    assert first["name"] == "é\n"
    assert first["at"] == datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, datetime.UTC)
    assert (first["day"], str(first["price"])) == (datetime.date(2026, 1, 2), "1.50")
    assert second["tags"] == ["a", None]
    assert second["place"] == {"x": 1.0, "y": None}
    assert (second["ok"], str(second["price"]), second["name"]) == (False, "2.25", None)


def test_an_array_becomes_rows_also_with_line_breaks_inside():
    rows = read_array(b'[{"id": 1},\n {"id":\n 2, "name": "a"}]', COLUMNS)
    assert rows.column("id").to_pylist() == [1, 2]


@pytest.mark.parametrize("body", [b"", b"\n\n", b"  "])
def test_a_body_without_rows(body):
    assert read_lines(body, COLUMNS).num_rows == 0
    assert read_array(b"[]", COLUMNS).num_rows == 0


@pytest.mark.parametrize(
    ("row", "column", "words"),
    [
        (b'{"id": "1"}', "id", '"1" is no int'),
        (b'{"id": 1.5}', "id", "1.5 is no int"),
        (b'{"id": 3000000000}', "id", "3000000000 is no int"),
        (b'{"id": null}', "id", "NOT NULL"),
        (b'{"name": "a"}', "id", "NOT NULL"),
        (b'{"id": 1, "nme": "a"}', "nme", "there is no such column; there are id, name"),
        (b'{"id": 1, "name": 5}', "name", "5 is no string"),
        (b'{"id": 1, "at": 17}', "at", "17 is no timestamp"),
        (b'{"id": 1, "at": "yesterday"}', "at", "is no timestamp"),
        (b'{"id": 1, "day": "2026-02-30"}', "day", "is no date"),
        (b'{"id": 1, "price": 1.555}', "price", "1.555 is no decimal(9,2)"),
        (b'{"id": 1, "tags": ["a", 1]}', "tags", "is no array<string>"),
        (b'{"id": 1, "place": {"z": 1}}', "place", "is no struct<x:double,y:double>"),
        (b'{"id": 1, "ok": 1}', "ok", "1 is no boolean"),
        (b'{"id": 1, "id": 2}', None, "was specified twice"),
        (b"null", None, "null is no JSON object"),
        (b"[1]", None, "[1] is no JSON object"),
        (b'"a"', None, "is no JSON object"),
        (b'{"id": 1', None, "truncated"),
        (b'{"id": NaN}', None, "malformed"),
        (b'{"id": 1, "name": ' + b"[" * 5_000 + b"]" * 5_000 + b"}", None, "recursion"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("before", [0, 1, 6])
def test_a_row_that_does_not_fit_is_named(row, column, words, before):
    good = [b'{"id": 7, "name": "fine"}'] * before
    with pytest.raises(BadRowsError) as told:
        read_lines(b"\n".join([*good, row, b'{"id": 8}']), COLUMNS)
    assert (told.value.row, told.value.column) == (before + 1, column)
    assert words in str(told.value)


def test_an_array_that_is_none_is_told():
    for body in (b'{"id": 1}', b'[{"id": 1},]', b"[", b"["[:1] * 5_000):
        with pytest.raises(BadRowsError, match="no JSON array of objects"):
            read_array(body, COLUMNS)


def test_what_is_not_utf_8_is_told_by_its_line():
    with pytest.raises(BadRowsError, match="line 2 of the body is not UTF-8"):
        read_lines(b'{"id": 1}\n{"id": 1, "name": "\xff"}', COLUMNS)


def test_members_that_are_no_columns_can_be_ignored():
    lenient = Columns(COLUMNS.schema, ignore_unknown=True)
    assert read_lines(b'{"id": 1, "more": [1]}', lenient).num_rows == 1
    with pytest.raises(BadRowsError) as told:
        read_lines(b'{"id": 1, "more": [1]}\n{"more": 1, "id": "x"}', lenient)
    assert (told.value.row, told.value.column) == (2, "id")


def test_rows_that_would_take_too_much_memory_are_refused(monkeypatch):
    monkeypatch.setattr(of_columns, "EXPANDED_BYTES", 1_000)
    for read, body in (
        (read_lines, b"{}\n" * 50),
        (read_lines, b"{} " * 50),
        (read_array, b"[" + b"{}," * 50 + b"{}]"),
    ):
        with pytest.raises(TooManyRowsError, match=r"at most \d+ of these columns"):
            read(body, COLUMNS)
    with pytest.raises(TooManyRowsError):
        read_stream(stream(pa.table({"n": range(500)})), Columns(pa.schema([("n", pa.int64())])))


def test_arrays_that_would_take_too_much_memory_are_refused_before_they_are_read(monkeypatch):
    monkeypatch.setattr(of_columns, "EXPANDED_BYTES", 10_000)
    wide = Columns(
        schema_of("id INT, xs ARRAY<STRUCT<" + ", ".join(f"a{i}: BIGINT" for i in range(40)) + ">>")
    )
    many = b'{"id": 1, "xs": [' + b"{}," * 30 + b"{}]}"
    plain = Columns(schema_of("id INT, xs ARRAY<ARRAY<STRING>>"))
    for columns, body in (
        (wide, many),
        (plain, b'{"xs": [' + b'["a"],' * 400 + b"[]]}"),
    ):
        for read, whole in ((read_lines, body), (read_array, b"[" + body + b"]")):
            with pytest.raises(TooManyRowsError, match="arrays of the body would take some"):
                read(whole, columns)
    assert read_lines(b'{"xs": [' + b"{}," * 9 + b"{}]}", wide).column("xs").values.nbytes > 3_000
    assert read_lines(b'{"id": 1}\n' * 50, Columns(schema_of("id INT"))).num_rows == 50


@pytest.mark.parametrize("kind", ["MAP<STRING, INT>", "ARRAY<DATE>", "STRUCT<a: DATE>", "VOID"])
def test_types_that_json_does_not_have_are_refused_at_once(kind):
    with pytest.raises(DataflowError, match=r"column 'c' is .*, which rows in JSON cannot have"):
        Columns(schema_of(f"n INT, c {kind}"))


def test_bytes_at_random_are_rows_or_refused():
    choose = random.Random(1)
    good = b'{"id": 1, "name": "x", "tags": ["a"], "place": {"x": 1e3}}\n{"id": -2, "ok": true}'
    for _ in range(2_000):
        body = bytearray(good)
        for _ in range(choose.randint(1, 4)):
            at = choose.randrange(len(body))
            body[at : at + choose.randint(0, 2)] = choose.choice(
                [b"", b"{", b"}", b"null", b",", b'"', b"\n", b"[", b"]", b"0", b"\x00", b"\xc3"]
            )
        for read in (read_lines, read_array):
            try:
                rows = read(bytes(body), COLUMNS)
            except BadRowsError:
                continue
            rows.validate(full=True)


# Arrow ------------------------------------------------------------------------------------------------

ARROW = Columns(schema_of("n BIGINT NOT NULL, name STRING"))


def stream(table, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as out:
        out.write_table(table, max_chunksize=2)
    return sink.getvalue().to_pybytes()


def test_a_stream_becomes_rows_with_columns_in_any_order():
    rows = read_stream(stream(pa.table({"name": ["a", None, "c"], "n": [1, 2, 3]})), ARROW)
    assert rows.schema.equals(ARROW.schema)
    assert rows.to_pydict() == {"n": [1, 2, 3], "name": ["a", None, "c"]}
    empty = pa.table({"n": pa.array([], pa.int64()), "name": pa.array([], pa.string())})
    assert read_stream(stream(empty), ARROW).num_rows == 0


@pytest.mark.parametrize(
    ("table", "options", "words"),
    [
        (pa.table({"n": [1]}), {}, "column 'name': it is missing"),
        (pa.table({"n": pa.array([1], pa.int32()), "name": ["a"]}), {}, "column 'n': it is int"),
        (pa.table({"n": [1], "name": ["a"], "x": [1]}), {}, "column 'x': there is no such column"),
        (pa.table({"n": [1, 2, None], "name": ["a"] * 3}), {}, "row 3, column 'n': it is NOT NULL"),
        (pa.table({"n": [1], "name": pa.array(["a"]).dictionary_encode()}), {}, "column 'name'|dict"),
        (pa.table({"n": [1], "name": ["a"]}), {"compression": "zstd"}, "is compressed"),
        (pa.table({"n": [1], "name": ["a"]}), {"compression": "lz4"}, "is compressed"),
    ],
)  # fmt: skip
def test_a_stream_that_does_not_fit_is_refused(table, options, words):
    with pytest.raises(BadRowsError, match=words):
        read_stream(stream(table, **options), ARROW)


def test_damaged_streams_are_refused_and_never_believed():
    body = stream(pa.table({"name": ["a", "bb", "ccc"], "n": [1, 2, 3]}))
    choose = random.Random(2)
    refused = 0
    for _ in range(1_500):
        wrong = bytearray(body)
        for _ in range(choose.randint(1, 3)):
            wrong[choose.randrange(len(wrong))] = choose.randrange(256)
        try:
            rows = read_stream(bytes(wrong[: choose.randint(len(body) // 2, len(body))]), ARROW)
        except (BadRowsError, TooManyRowsError):
            refused += 1
        else:
            rows.validate(full=True)
    assert refused > 100
