"""Parquet files as tasks read them."""
# ruff: noqa: DTZ001 - timestamps without a zone are a type of their own here

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.errors import SchemaDriftError, SourceError
from rechannel.model.ddl import schema_of
from rechannel.sources.input_files.parquet import (
    FILE_BITS,
    ParquetSplits,
    columns_of,
    facts_of,
    readable,
    shown_as,
    split_files,
    widens,
)


def written(path: Path, table: pa.Table, **options: object) -> str:
    pq.write_table(table, path, **options)
    return str(path)


def rows_of(files: list[str], schema: pa.Schema, split_bytes: int = 1 << 20) -> pa.Table:
    splits = json.loads(json.dumps(split_files(map(facts_of, files), schema, split_bytes)))
    batches = [batch for split in splits for batch in ParquetSplits(schema).read(split)]
    return pa.Table.from_batches(batches, schema)


EVERYTHING = {
    "b": (pa.array([True, None]), "boolean"),
    "i8": (pa.array([-1, None], pa.int8()), "tinyint"),
    "u8": (pa.array([255, None], pa.uint8()), "smallint"),
    "u16": (pa.array([65535, None], pa.uint16()), "int"),
    "u32": (pa.array([2**32 - 1, None], pa.uint32()), "bigint"),
    "u64": (pa.array([2**64 - 1, None], pa.uint64()), "decimal(20,0)"),
    "f": (pa.array([1.5, None], pa.float32()), "float"),
    "s": (pa.array(["ä", None], pa.large_string()), "string"),
    "bin": (pa.array([b"\0", None]), "binary"),
    "fixed": (pa.array([b"ab", None], pa.binary(2)), "binary"),
    "dict": (pa.array(["x", None]).dictionary_encode(), "string"),
    "d": (pa.array([dt.date(2020, 1, 2), None]), "date"),
    "ms": (pa.array([1, None], pa.timestamp("ms")), "timestamp_ntz"),
    "ns": (pa.array([1_000_001, None], pa.timestamp("ns")), "timestamp_ntz"),
    "zoned": (pa.array([7, None], pa.timestamp("us", "Europe/Berlin")), "timestamp"),
    "dec": (pa.array([Decimal("1.25"), None], pa.decimal128(10, 2)), "decimal(10,2)"),
    "took": (pa.array([5, None], pa.duration("us")), "bigint"),
    "nothing": (pa.nulls(2), "int"),
    "l": (pa.array([[1, None], None], pa.large_list(pa.int32())), "array<int>"),
    "m": (pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())), "map<string,bigint>"),
    "st": (
        pa.array([{"x": 1, "t": [dt.datetime(2020, 1, 1)]}, None],
                 pa.struct([("x", pa.uint8()), ("t", pa.list_(pa.timestamp("ns")))])),
        "struct<x:smallint,t:array<timestamp_ntz>>",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EVERYTHING)
def test_columns_look_as_spark_shows_them(tmp_path, name):
    values, words = EVERYTHING[name]
    file = written(tmp_path / "a.parquet", pa.table({name: values}))
    schema = columns_of(file)
    assert schema is not None
    assert schema.equals(schema_of(f"{name} {words}"))
    assert readable(schema)
    table = rows_of([file], schema)
    assert table.schema.equals(schema)
    assert table.column(0).is_null().to_pylist() == [False, name not in {"nothing"}] or (
        name == "nothing" and table.column(0).null_count == 2
    )


def test_values_survive(tmp_path):
    table = pa.table({name: EVERYTHING[name][0] for name in ("u64", "ns", "zoned", "took", "st")})
    file = written(tmp_path / "a.parquet", table)
    schema = columns_of(file)
    assert schema is not None
    assert rows_of([file], schema).to_pylist()[0] == {
        "u64": Decimal(2**64 - 1),
        "ns": dt.datetime(1970, 1, 1, microsecond=1000),
        "zoned": dt.datetime(1970, 1, 1, microsecond=7, tzinfo=dt.UTC),
        "took": 5,
        "st": {"x": 1, "t": [dt.datetime(2020, 1, 1)]},
    }


def test_old_timestamps_are_in_utc_and_reach_further_than_nanoseconds(tmp_path):
    far = dt.datetime(1500, 1, 1, 2, 3, 4)
    table = pa.table({"t": pa.array([far], pa.timestamp("us"))})
    file = written(tmp_path / "a.parquet", table, use_deprecated_int96_timestamps=True)
    schema = columns_of(file)
    assert schema == schema_of("t timestamp")
    assert rows_of([file], schema).to_pylist() == [{"t": far.replace(tzinfo=dt.UTC)}]


@pytest.mark.parametrize("kind", [pa.time64("us"), pa.float16(), pa.decimal256(40, 2)])
def test_types_that_spark_does_not_have_are_left_to_spark(tmp_path, kind):
    assert shown_as(kind) is None
    assert shown_as(pa.list_(kind)) is None
    file = written(tmp_path / "a.parquet", pa.table({"x": pa.nulls(1, kind)}))
    assert columns_of(file) is None


def test_declared_types_that_no_file_is_shown_with_are_left_to_spark():
    assert not readable(pa.schema([("t", pa.timestamp("ns"))]))
    assert not readable(pa.schema([("t", pa.large_string())]))


@pytest.mark.parametrize(
    ("found", "expected", "safe"),
    [
        (pa.int32(), pa.int64(), True),
        (pa.int8(), pa.int32(), True),
        (pa.float32(), pa.float64(), True),
        (pa.int64(), pa.int32(), False),
        (pa.int64(), pa.float64(), False),
        (pa.float64(), pa.float32(), False),
        (pa.int32(), pa.string(), False),
    ],
)
def test_only_safe_widening_is_allowed(tmp_path, found, expected, safe):
    assert widens(found, expected) is safe
    file = written(tmp_path / "odd.parquet", pa.table({"x": pa.array([1, 2], found)}))
    schema = pa.schema([("x", expected)])
    if safe:
        assert rows_of([file], schema).column("x").to_pylist() == [1, 2]
    else:
        with pytest.raises(SchemaDriftError, match=r"'x' of .*odd\.parquet is \w+, but .*expects"):
            split_files([facts_of(file)], schema, 1)


def test_a_missing_column_is_named(tmp_path):
    file = written(tmp_path / "odd.parquet", pa.table({"a": [1]}))
    message = r"'b' of .*odd\.parquet is missing.*expects string.*columns a"
    with pytest.raises(SchemaDriftError, match=message):
        split_files([facts_of(file)], schema_of("a bigint, b string"), 1)


def test_other_columns_and_their_order_do_not_matter(tmp_path):
    table = pa.table({"z": [1], "b": ["x"], "a": [2], "a.b": [3]})
    file = written(tmp_path / "a.parquet", table)
    assert rows_of([file], schema_of("a bigint, b string, `a.b` bigint")).to_pylist() == [
        {"a": 2, "b": "x", "a.b": 3}
    ]


def test_a_damaged_file_is_named(tmp_path):
    file = tmp_path / "bad.parquet"
    file.write_bytes(b"PAR1 this is not PAR1")
    with pytest.raises(SourceError, match=r"bad\.parquet cannot be read"):
        columns_of(str(file))
    with pytest.raises(SourceError, match=r"bad\.parquet cannot be read"):
        split_files([facts_of(str(file))], schema_of("a int"), 1)


def test_damage_behind_the_footer_is_named(tmp_path):
    file = tmp_path / "bad.parquet"
    written(file, pa.table({"a": list(range(1000))}), use_dictionary=False)
    (split,) = split_files([facts_of(str(file))], schema_of("a bigint"), 1 << 20)
    data = bytearray(file.read_bytes())
    data[4:200] = b"\xff" * 196
    file.write_bytes(data)
    with pytest.raises(SourceError, match=r"bad\.parquet cannot be read"):
        list(ParquetSplits(schema_of("a bigint")).read(split))


def test_a_file_that_is_gone_or_changed_is_named(tmp_path):
    file = tmp_path / "a.parquet"
    written(file, pa.table({"a": [1]}))
    schema = schema_of("a bigint")
    (split,) = split_files([facts_of(str(file))], schema, 1)
    written(file, pa.table({"a": list(range(100))}))
    with pytest.raises(SourceError, match=r"a\.parquet has \d+ bytes and had \d+"):
        list(ParquetSplits(schema).read(split))
    file.unlink()
    with pytest.raises(SourceError, match=r"a\.parquet is missing"):
        list(ParquetSplits(schema).read(split))


def test_a_file_may_be_without_rows_or_row_groups(tmp_path):
    schema = schema_of("a bigint")
    empty = written(tmp_path / "a.parquet", schema.empty_table())
    with pq.ParquetWriter(tmp_path / "b.parquet", schema):
        pass
    assert rows_of([empty, str(tmp_path / "b.parquet")], schema).num_rows == 0


def test_nanoseconds_are_marked_because_spark_refuses_them(tmp_path):
    table = pa.table({"t": pa.array([1], pa.timestamp("ns")), "a": [1]})
    file = written(tmp_path / "a.parquet", table)
    assert "nanos" in split_files([facts_of(file)], schema_of("t timestamp_ntz"), 1)[0]
    assert "nanos" not in split_files([facts_of(file)], schema_of("a bigint"), 1)[0]


@given(
    groups=st.lists(st.lists(st.integers(1, 400), max_size=6), min_size=1, max_size=4),
    split_rows=st.integers(1, 500),
)
def test_splits_are_neighbouring_groups_in_order(tmp_path_factory, groups, split_rows):
    """However files are cut, reading the splits in order is reading the files in order."""
    folder, start, twin, files = tmp_path_factory.mktemp("cut"), 0, [], []
    schema = schema_of("a bigint")
    for number, sizes in enumerate(groups):
        path = folder / f"{number}.parquet"
        with pq.ParquetWriter(path, schema, use_dictionary=False) as writer:
            for size in sizes:
                batch = pa.table({"a": range(start, start + size)}, schema)
                writer.write_table(batch, row_group_size=size)
                twin += range(start, start + size)
                start += size
        files.append(str(path))
    splits = split_files(map(facts_of, files), schema, split_rows * 8)
    orders = [split["order"] for split in splits]
    assert orders == sorted(set(orders))
    read = [
        value
        for split in splits
        for batch in ParquetSplits(schema).read(split)
        for value in batch.column(0).to_pylist()
    ]
    assert read == twin
    for split in splits:
        first, stop = split["groups"]
        sizes = groups[split["order"] >> FILE_BITS][first:stop]
        assert split["order"] % (1 << FILE_BITS) == first
        # A split ends as soon as it has the size asked for (pages have headers: a little less).
        assert len(sizes) == 1 or sum(sizes[:-1]) < split_rows
