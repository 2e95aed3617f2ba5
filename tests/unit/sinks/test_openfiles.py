"""Any number of partitions in a few open files."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from rechannel.errors import DataflowError
from rechannel.sinks.local import arrow_writer
from rechannel.sinks.openfiles import MOST, FileSize, OpenFiles
from rechannel.sinks.spark import spark_writer
from rechannel.sinks.writer import Rows


class Files:
    """Counts what is open."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.most = 0
        self.closed_with: list[Any] = []

    def __call__(self, path: str) -> Any:
        files = self

        class File:
            def __enter__(self) -> Any:
                files.open.append(path)
                files.most = max(files.most, len(files.open))
                return self

            def __exit__(self, *args: object) -> None:
                files.open.remove(path)
                files.closed_with.append(args[0])

        return File()


def test_no_more_are_open_than_allowed_and_a_directory_goes_on_in_another_file(tmp_path):
    files = Files()
    with OpenFiles(str(tmp_path), "part-{}.x", files, most=2) as opened:
        a = opened.of("a")
        assert opened.of("b") is not a
        assert opened.of("a") is a
        opened.of("c")  # b was not written to for longest
        assert [path.rsplit("/", 2)[1] for path in files.open] == ["a", "c"]
        opened.of("b")
        assert files.open[-1].endswith("/b/part-1.x")
    assert files.most == 2
    assert files.open == []


def test_what_fails_closes_all_files(tmp_path):
    files = Files()
    opened = OpenFiles(str(tmp_path), "{}", files)

    def fail() -> None:
        with opened:
            opened.of("a")
            opened.of("b")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert files.open == []
    assert files.closed_with == [KeyError, KeyError]


def test_more_partitions_than_open_files_are_written(tmp_path):
    count = MOST + 10
    schema = pa.schema([("p", pa.int64()), ("v", pa.int64())])
    batch = pa.RecordBatch.from_pydict({"p": range(count), "v": range(count)}, schema)
    rows = Rows(tables=lambda: iter([batch, batch]), schema=schema)
    assert arrow_writer("json", {}, ["p"])(rows, str(tmp_path / "out")) == 2 * count
    for value in range(count):
        lines = [f.read_text() for f in (tmp_path / "out" / f"p={value}").iterdir()]
        assert "".join(lines) == f'{{"v": {value}}}\n' * 2


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_files_have_at_most_so_many_rows_and_about_so_many_bytes(tmp_path, kind):
    schema = pa.schema([("p", pa.int64()), ("n", pa.int64())])
    numbers = range(5_000)
    columns = {"p": [n % 2 for n in numbers], "n": [hash(str(n)) for n in numbers]}
    batch = pa.RecordBatch.from_pydict(columns, schema)
    rows = Rows(tables=lambda: iter([batch, batch]), schema=schema)
    for size in (FileSize(rows=700), FileSize(bytes=20_000)):
        out = tmp_path / f"{size}"
        assert arrow_writer(kind, {}, ["p"], size)(rows, str(out)) == 10_000
        files = sorted(out.glob("p=0/*"))
        if size.rows:
            assert len(files) == 8
            if kind == "parquet":
                assert [ds.dataset(each).count_rows() for each in files] == [700] * 7 + [100]
        else:
            assert len(files) > 1
            assert max(each.stat().st_size for each in files) < 80_000


def test_sizes_of_files_are_checked():
    with pytest.raises(DataflowError, match="rows must be at least 1"):
        FileSize(rows=0)
    with pytest.raises(DataflowError, match="Spark's writers count rows alone"):
        spark_writer("parquet", {}, (), FileSize(bytes=1_000))
