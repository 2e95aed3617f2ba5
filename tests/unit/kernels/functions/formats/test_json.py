"""Texts of JSON objects as columns."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import rechannel as rc
from rechannel.errors import DataflowError, UserFunctionError
from rechannel.job import InProcess
from rechannel.kernels.functions.formats import json_suspects
from rechannel.kernels.functions.formats.decode import Decode
from rechannel.kernels.functions.formats.json import Json

COLUMNS = pa.schema([("s", pa.string()), ("n", pa.int64()), ("x", pa.float64()), ("b", pa.bool_())])


def parse(*values: bytes | str | None, columns: pa.Schema = COLUMNS) -> list[dict]:
    kind = pa.string() if all(isinstance(value, str) for value in values) else pa.binary()
    batch = pa.record_batch({"value": pa.array(values, kind)})
    return Decode(format=Json(schema=columns), column="value")(batch).to_pylist()


rows = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "s": st.none() | st.text(),
            "n": st.none() | st.integers(-(2**63), 2**63 - 1),
            "x": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            "b": st.none() | st.booleans(),
            "other": st.lists(st.integers(-3, 3), max_size=2) | st.text(max_size=3),
        },
    ),
    max_size=6,
)


@given(rows, st.sampled_from([None, 2]), st.booleans())
def test_columns_are_the_members(given_rows, indent, ascii_only):
    texts = [json.dumps(row, indent=indent, ensure_ascii=ascii_only).encode() for row in given_rows]
    assert parse(*texts) == [{name: row.get(name) for name in COLUMNS.names} for row in given_rows]


def test_nulls_are_rows_of_nulls():
    assert parse(None, b'{"n": 1}') == [
        {"s": None, "n": None, "x": None, "b": None},
        {"s": None, "n": 1, "x": None, "b": None},
    ]


@pytest.mark.parametrize("first", [b"null", b" null\n", b"null null", b"null{}", b"null,"])
def test_a_null_in_place_of_the_first_object_kills_no_worker(first):
    """Arrow's reader, left alone with it, ends the process."""
    code = (
        "import pyarrow as pa\n"
        "from rechannel.kernels.functions.formats.json import Json\n"
        f"made = Json(schema=pa.schema([('n', pa.int64())])).parsed(pa.array([{first!r}, b'{{\"n\": 1}}']))\n"
        "print(made.rows.column('n').to_pylist(), list(made.errors))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    expected = "[None, 1] []" if first.strip() == b"null" else "[1] [0]"
    assert done.stdout.strip() == expected


def test_times_and_nested_members():
    columns = pa.schema(
        [("at", pa.timestamp("us", "UTC")), ("in", pa.struct([("a", pa.list_(pa.int64()))]))]
    )
    (row,) = parse(b'{"at": "2026-01-02T03:04:05.678Z", "in": {"a": [1, 2]}}', columns=columns)
    assert row == {
        "at": dt.datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=dt.UTC),
        "in": {"a": [1, 2]},
    }


def test_dates_are_texts_and_bytes_are_base64():
    inner = pa.struct([("day", pa.date32()), ("raws", pa.list_(pa.binary()))])
    columns = pa.schema(
        [("day", pa.date32()), ("raw", pa.binary()), ("in", inner), ("at", pa.date64())]
    )
    day, text = dt.date(2026, 1, 31), "2026-01-31"
    rows = [
        {"day": text, "raw": "aGk=", "in": {"day": text, "raws": ["", None, "aGk="]}, "at": text},
        {"in": None},
        {"in": {"raws": None}, "raw": ""},
        {"in": {"raws": []}},
    ]
    none = dict.fromkeys(columns.names)
    assert parse(*map(json.dumps, rows), columns=columns) == [
        {"day": day, "raw": b"hi", "in": {"day": day, "raws": [b"", None, b"hi"]}, "at": day},
        none,
        none | {"in": {"day": None, "raws": None}, "raw": b""},
        none | {"in": {"day": None, "raws": []}},
    ]


@pytest.mark.parametrize(
    ("member", "words"),
    [
        ({"day": "2026-02-30"}, "Failed to parse string: '2026-02-30'"),
        ({"day": 5}, "changed from string to number"),
        ({"raw": "hi"}, "'hi' is no base64, in which JSON has bytes"),
        ({"in": [{"raw": "hi"}]}, "'hi' is no base64"),
    ],
)
def test_dates_and_bytes_that_do_not_fit_are_errors(member, words):
    inner = pa.list_(pa.struct([("raw", pa.binary())]))
    columns = pa.schema([("day", pa.date32()), ("raw", pa.binary()), ("in", inner)])
    values = [b"{}", json.dumps(member).encode(), b'{"raw": "aGk="}']
    found = Json(schema=columns).parsed(pa.array(values))
    assert found.rows.column("raw").to_pylist() == [None, b"hi"]
    assert list(found.errors) == [1]
    assert words in found.errors[1]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("n BIGINT, m MAP<STRING, BIGINT>", r"'m' is map<string,bigint>, .* declare it as a STRUCT"),
        ("l ARRAY<STRUCT<m: MAP<STRING, DATE>>>", r"column 'l\.m' is map<string,date>"),
        (pa.schema([("d", pa.duration("us"))]), r"'d' is duration\[us\], .* read them with map_batches"),
        (pa.schema([("b", pa.binary(2))]), "column 'b' is fixed_size_binary"),
        (pa.schema([("l", pa.list_(pa.int64(), 2))]), "column 'l' is "),
    ],
)  # fmt: skip
def test_columns_that_json_cannot_give_are_refused(columns, words):
    with pytest.raises(DataflowError, match=words):
        rc.formats.json(columns)


BAD = [
    b"nope",
    b"",
    b"  \n ",
    b"[1]",
    b'{"n": "x"}',
    b'{"n": 1.5}',
    b'{"s": 1}',
    b'{"n": 1',
    b'{"n": 1} {"n": 2}',
    b'{"n": 1}\n{"n": 2}',
    b"\xff",
]


@pytest.mark.parametrize("value", BAD)
def test_what_does_not_fit_is_an_error_alone_and_among_others(value):
    with pytest.raises(ValueError, match=r"[a-z]"):
        parse(value)
    with pytest.raises(ValueError, match="one of 3 values"):
        parse(b'{"n": 1}', value, b'{"n": 2}')


def test_what_does_not_fit_is_no_row_of_another():
    # One value too few and one too many: together they would have the right number of objects.
    values = pa.array([b"", b'{"n": 1}\n{"n": 2}'])
    found = Json(schema=COLUMNS).parsed(values)
    assert found.rows.num_rows == 0
    assert found.errors == {0: "an empty value is no object", 1: "1 values hold 2 objects"}


def test_objects_too_many_do_not_stand_in_for_one_that_is_torn():
    values = [b'{"n": 1}{"n": 666}{"z":', b'{"n": 5}', b"}", b'{"n": 7}']
    found = Json(schema=COLUMNS).parsed(pa.array(values))
    assert found.rows.column("n").to_pylist() == [5, 7]
    assert sorted(found.errors) == [0, 2]


FRAGMENTS = [
    b"{", b"}", b'{"n": 1}', b'{"n": ', b"2", b",", b'"z": ', b'"', b"null", b"[", b"]", b" ", b"\n", b"\x00", b"\\",
]  # fmt: skip
torn = st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=6).map(b"".join)


@given(st.lists(torn | st.sampled_from([b'{"n": 3}', None]), max_size=6))
@example([b'{"n": {"n": 1}', b"null", b'{"n": 1}{"n": 1}'])
@example([b'{"z": "}', b'{", "n": 1}', b'{"n": 1}{"n": 2}'])
@example([b'{"n": 1}{"n": 2}\x00}', b'{"n": 3}'])
@example([b'{"z": [{}', b'{"n": 3}{}', b"{}]}{}"])
@example([b'{"n": 1}{"n": 2}{"z": ', b'{"n": 5}', b"}"])
def test_values_are_read_together_as_each_of_them_alone(values):
    form = Json(schema=COLUMNS)
    found = form.parsed(pa.array(values, pa.binary()))
    alone = [form.parsed(pa.array([value], pa.binary())) for value in values]
    assert found.errors == {at: of.errors[0] for at, of in enumerate(alone) if of.errors}
    assert found.rows.to_pylist() == [row for of in alone for row in of.rows.to_pylist()]


TYPED = pa.schema(
    [
        ("n", pa.int32()), ("x", pa.float32()), ("at", pa.timestamp("us", "UTC")), ("l", pa.list_(pa.int8())),
        ("in", pa.struct([("a", pa.bool_())])), ('a"b', pa.string()), ("d", pa.decimal128(9, 2)), ("u", pa.uint64()),
        ("day", pa.date32()), ("raw", pa.binary()), ("days", pa.list_(pa.struct([("d", pa.date32())]))),
    ]
)  # fmt: skip
MEMBERS = {
    "n": [1, -(2**31), 2**31, 1.5, "x", None, True],
    "x": [1, 0.5, "nan", None],
    "at": ["2026-01-02", "2026-01-02T03:04:05.678Z", "2026-01-02 03:04", "2026-13-02", "soon", 5, None],
    "l": [[], [1, None], [300], ["x"], 1],
    "in": [{"a": True}, {"a": 1}, {}, 1, None],
    'a"b': ["x", "\u2028", 1],
    "d": ["1.25", 1.25, "x"],
    "u": [0, 2**64 - 1, 2**64, -1],
    "day": ["2026-01-31", "2026-02-30", "2026-1-1", "", 5, None],
    "raw": ["aGk=", "", "aGk", "a Gk=", "\u00fc", 5, None],
    "days": [[], [{"d": "2026-01-31"}, {}, None], [{"d": "soon"}], [{"d": 5}], None],
}  # fmt: skip
wild = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(of) for name, of in MEMBERS.items()}
).map(lambda row: json.dumps(row).encode())
strange = st.sampled_from(
    [*BAD, None, b"null", b"\x85", "\u00a0".encode(), '{"a\\"b": "ü"} '.encode(), b"\x1c", b"{}\n"]
)


@given(st.lists(wild | strange | st.just(b'{"n": 7}'), max_size=12))
def test_a_look_at_each_value_first_changes_nothing(values):
    form, array = Json(schema=TYPED), pa.array(values, pa.binary())
    found, expected = form.parsed(array), form._halved(array)
    assert found.errors == expected.errors
    assert found.rows.equals(expected.rows)


def test_bad_values_are_read_alone_and_the_others_together(monkeypatch):
    reads = list[int]()
    plain = Json._table

    def counted(self, lines, count):
        reads.append(count)
        return plain(self, lines, count)

    monkeypatch.setattr(Json, "_table", counted)
    values = [b'{"n": 1}'] * 2_000
    for place in range(0, 2_000, 100):
        values[place] = BAD[4]
    found = Json(schema=COLUMNS).parsed(pa.array(values))
    assert sorted(found.errors) == list(range(0, 2_000, 100))
    assert reads == [2_000, *[1] * 20, 1_980]


def test_suspects_without_fault_are_read_together(monkeypatch):
    reads = list[int]()
    plain = Json._table

    def counted(self, lines, count):
        reads.append(count)
        return plain(self, lines, count)

    monkeypatch.setattr(Json, "_table", counted)
    columns = pa.schema([("at", pa.timestamp("s"))])
    monkeypatch.setattr(json_suspects, "MOMENT", "^never$")
    json_suspects._look.cache_clear()
    values = [b'{"at": "2026-01-02"}'] * 2_000 + [b"nope"]
    found = Json(schema=columns).parsed(pa.array(values))
    assert list(found.errors) == [2_000]
    assert len(reads) < 60
    json_suspects._look.cache_clear()


def stream(source: rc.sources.MemoryConnector, **more):
    return rc.read().memory(source, name="in").decode_json("n bigint", keep=("k",), **more)


def test_dead_letters_have_what_does_not_fit_and_everything_else_goes_on(tmp_path):
    source = rc.sources.MemoryConnector(schema="k string, value binary")
    values = [b'{"n": 1}', *BAD, b'{"n": 2}', None]
    source.push([{"k": str(place), "value": value} for place, value in enumerate(values)])
    decoded = stream(source, on_error="dead_letter")
    flows = [
        decoded.write.memory("good", name="good"),
        decoded.dead_letters.write.memory("bad", name="bad"),
    ]
    job = rc.Job("letters", flows, state=tmp_path).start(in_process=InProcess())
    job.process_all_available()
    good = {row["k"]: row["n"] for row in job.memory("good").to_pylist()}
    fits = str(1 + BAD.index(b'{"s": 1}'))  # its member is no column here
    assert good == {"0": 1, fits: None, str(len(BAD) + 1): 2, str(len(BAD) + 2): None}
    assert len(job.memory("bad")) == len(BAD) - 1
    job.stop()


def test_without_dead_letters_the_timestep_fails(tmp_path):
    source = rc.sources.MemoryConnector(schema="k string, value binary")
    source.push([{"k": "a", "value": b"nope"}])
    job = rc.Job("fails", stream(source).write.memory("out", name="out"), state=tmp_path)
    started = job.start(in_process=InProcess())
    with pytest.raises(UserFunctionError, match="nope"):
        started.process_all_available()


@pytest.mark.parametrize(
    ("schema", "keep", "words"),
    [
        ("k string, value bigint", (), "column 'value' is bigint: JSON is in texts"),
        ("k string", (), "no column 'value'; the columns are k"),
        ("n bigint, value string", ("n",), "column 'n' is kept, and is a member"),
    ],
)
def test_columns_that_do_not_fit_are_refused(schema, keep, words):
    source = rc.sources.MemoryConnector(schema=schema)
    with pytest.raises(DataflowError, match=words):
        rc.read().memory(source, name="in").decode_json("n bigint", keep=keep)
