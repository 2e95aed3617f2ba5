"""Files written without Spark."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from rechannel.errors import DataflowError
from rechannel.model.ddl import schema_of
from rechannel.sinks.local import arrow_writer
from rechannel.sinks.writer import Rows


def write(table: pa.Table, path: Path, kind: str, **options: str) -> Path:
    rows = Rows(tables=lambda: iter(table.to_batches(2)), schema=table.schema)
    assert arrow_writer(kind, options)(rows, str(path / "out")) == table.num_rows
    (file,) = (path / "out").iterdir()
    return file


def test_parquet_holds_the_rows_and_the_columns(tmp_path):
    table = pa.table({"n": [1, None, 3], "s": ["a", "b", None]})
    file = write(table, tmp_path, "parquet", compression="zstd")
    assert pq.read_table(file).equals(table)
    assert pq.ParquetFile(file).metadata.row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize("header", ["true", "false"])
def test_csv_has_a_header_if_asked(tmp_path, header):
    table = pa.table({"n": [1, 2, 3], "s": ["a", 'b,"', ""]})
    file = write(table, tmp_path, "csv", header=header)
    names = None if header == "true" else ["n", "s"]
    read = pa_csv.read_csv(file, read_options=pa_csv.ReadOptions(column_names=names))
    assert read.equals(table)


def test_csv_cannot_nest(tmp_path):
    with pytest.raises(DataflowError, match="csv cannot hold"):
        write(pa.table({"l": [[1]]}), tmp_path, "csv")


def test_json_says_values_as_spark_does(tmp_path):
    schema = schema_of(
        "n bigint, x double, s string, b binary, d date, t timestamp, u timestamp_ntz,"
        " c decimal(5,2), l array<int>, m map<string,double>, st struct<a:int,b:string>"
    )
    row = {
        "n": 1, "x": 0.5, "s": "ä", "b": b"\x00\xff", "d": dt.date(2020, 1, 2),
        "t": dt.datetime(2020, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
        "u": dt.datetime(2020, 1, 2, 3, 4, 5, 678901),  # noqa: DTZ001
        "c": Decimal("1.25"), "l": [1, None], "m": [("k", float("nan"))],
        "st": {"a": None, "b": "z"},
    }  # fmt: skip
    nothing = dict.fromkeys(row)
    table = pa.Table.from_pylist([row, nothing, {**nothing, "m": [], "l": []}], schema)
    lines = write(table, tmp_path, "json").read_text("utf-8").splitlines()
    assert json.loads(lines[0]) == {
        "n": 1, "x": 0.5, "s": "ä", "b": "AP8=", "d": "2020-01-02",
        "t": "2020-01-02T03:04:05.000Z", "u": "2020-01-02T03:04:05.678901",
        "c": 1.25, "l": [1, None], "m": {"k": "NaN"}, "st": {"b": "z"},
    }  # fmt: skip
    assert lines[1:] == ["{}", '{"l": [], "m": {}}']
