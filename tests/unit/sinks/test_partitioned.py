"""Files in directories by the values of columns."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

import rechannel as rc
from rechannel.errors import DataflowError, UnknownColumnError
from rechannel.job import InProcess
from rechannel.sinks.local import arrow_writer
from rechannel.sinks.partitioned import parts_of
from rechannel.sinks.writer import Rows
from rechannel.testing import script

DAYS = [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]
TABLE = pa.table(
    {
        "day": [DAYS[1], DAYS[0], DAYS[1], None, DAYS[1]],
        "hm": ["12:30", "a/b", "12:30", "", "Köln, {1}"],
        "n": [1, 2, 3, 4, 5],
    }
)
PLACES = {
    "day=2026-01-02/hm=12%3A30": [1, 3],
    "day=2026-01-01/hm=a%2Fb": [2],
    "day=__HIVE_DEFAULT_PARTITION__/hm=__HIVE_DEFAULT_PARTITION__": [4],
    "day=2026-01-02/hm=Köln, %7B1}": [5],
}


def test_rows_are_parted_by_values_and_stay_in_order():
    (batch,) = TABLE.to_batches()
    parts = {where: rows.to_pydict() for where, rows in parts_of(batch, ["day", "hm"])}
    assert parts == {where: {"n": numbers} for where, numbers in PLACES.items()}


@pytest.mark.parametrize("rows_per_batch", [1, 2, 5])
def test_every_part_is_one_file_however_rows_come(tmp_path, rows_per_batch):
    rows = Rows(tables=lambda: iter(TABLE.to_batches(rows_per_batch)), schema=TABLE.schema)
    written = arrow_writer("csv", {"header": "true"}, ("day", "hm"))(rows, str(tmp_path / "out"))
    assert written == 5
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    found = {
        str(path.parent.relative_to(tmp_path / "out")): pa_csv.read_csv(path)["n"].to_pylist()
        for path in files
    }
    assert found == PLACES
    assert len(files) == len(PLACES)


def test_a_timestep_without_rows_leaves_nothing(tmp_path):
    rows = Rows(tables=lambda: iter([]), schema=TABLE.schema)
    assert arrow_writer("csv", {}, ("day",))(rows, str(tmp_path / "out")) == 0
    assert not (tmp_path / "out").exists()


def test_a_job_writes_them(tmp_path):
    source = script("k STRING, n BIGINT")
    stream = rc.read().memory(source, name="rows")
    flow = stream.write.format("parquet").partition_by("k").save(tmp_path / "out", name="out")
    assert "by k" in flow.node.outlet.describe()
    job = rc.Job("parts", flow, state=tmp_path / "state").start(in_process=InProcess())
    for k in "ab":
        source.push([{"k": k, "n": 1}, {"k": "c", "n": 2}])
        job.process_all_available(60)
    job.stop()
    found = {
        str(p.parent.relative_to(tmp_path / "out")) for p in tmp_path.rglob("out/**/*.parquet")
    }
    first, second = "timestep=000000000001", "timestep=000000000002"
    assert found == {f"{first}/k=a", f"{first}/k=c", f"{second}/k=b", f"{second}/k=c"}


@pytest.mark.parametrize(
    ("columns", "error", "words"),
    [
        (("m",), UnknownColumnError, r"partition_by: there is no column 'm'"),
        (("x",), DataflowError, r"column 'x' is double; directories are made of other columns"),
        (("timestep",), DataflowError, r"column 'timestep' is that of the timestep"),
        (("k", "k"), DataflowError, r"names column 'k' twice"),
        (("k", "n", "timestep"), DataflowError, r"timestep"),
    ],
)
def test_columns_that_cannot_be_directories_are_refused(tmp_path, columns, error, words):
    stream = rc.read().memory(script("k STRING, n BIGINT, x DOUBLE, timestep BIGINT"), name="rows")
    flow = stream.write.format("csv").partition_by(*columns).save(tmp_path / "out", name="out")
    with pytest.raises(error, match=words):
        rc.Job("parts", flow, state=tmp_path / "state")


def test_something_is_left_for_the_files(tmp_path):
    stream = rc.read().memory(script("k STRING, n BIGINT"), name="rows")
    flow = stream.write.format("csv").partition_by("k", "n").save(tmp_path / "out", name="out")
    with pytest.raises(DataflowError, match="partition_by has all columns"):
        rc.Job("parts", flow, state=tmp_path / "state")
