"""Traces of any system as a table."""

import polars as pl
import pytest

from rechannel.errors import TraceError
from rechannel.profiling.files.table import open_trace, write_trace
from rechannel.profiling.reading import profile_trace
from tests.unit.profiling.model.test_participation import paper

ROWS = {
    "worker": ["w1", "w1", "w1", "w2", "w2", "w2", "w1", "w2", "w1"],
    "activity": ["processing"] * 6 + ["data message"] * 3,
    "start": [0, 5, 6, 1, 3, 4, 1, 4, 6],
    "end": [1, 6, 9, 3, 4, 8, 3, 5, 8],
    "to": [None] * 6 + ["w2", "w1", "w2"],
}


def summed(trace):
    found = profile_trace(trace, window=9)
    return {row["worker"]: row["critical"] for row in found.by("worker").to_dicts()}


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_a_trace_in_every_form(tmp_path, ending):
    file = tmp_path / f"trace.{ending}"
    frame = pl.DataFrame(ROWS)
    writers = {"parquet": frame.write_parquet, "csv": frame.write_csv, "jsonl": frame.write_ndjson}
    writers[ending](file)
    assert summed(open_trace(file).whole()) == pytest.approx(summed(paper()))


def test_what_is_written_is_read(tmp_path):
    write_trace(paper(), tmp_path / "trace.parquet")
    found = open_trace(tmp_path / "trace.parquet").whole()
    assert summed(found) == pytest.approx(summed(paper()))


def opened(tmp_path, frame):
    frame.write_parquet(tmp_path / "trace.parquet")
    return open_trace(tmp_path / "trace.parquet")


def test_timestamps_numbers_of_workers_and_operators(tmp_path):
    frame = pl.DataFrame({**ROWS, "operator": ["a", None, *"bbbbbbb"]}).with_columns(
        pl.from_epoch("start", time_unit="us"),
        pl.from_epoch("end", time_unit="us"),
        pl.col("worker").replace({"w1": "10", "w2": "9"}).cast(pl.Int64),
        pl.col("to").replace({"w1": "10", "w2": "9"}).cast(pl.Int64),
    )
    trace = opened(tmp_path, frame).whole()
    assert list(trace.names.workers) == ["10", "9"]
    assert list(trace.names.operators) == ["a", "b"]
    assert trace.activities.end.tolist()[2] == 9_000
    assert trace.activities.operator.tolist()[:3] == [0, -1, 1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"worker": None}, "no column 'worker'"),
        ({"start": [0, 5, None, *[1] * 6]}, "row 2 of the trace has no start"),
        ({"start": ["x"] * 9}, "row 0 of the trace has the start 'x', which is no time"),
        ({"start": ["9999-01-01T00:00:00Z"] * 9}, "has the start '9999-01-01T00:00:00Z'"),
        ({"start": [0.5] * 9}, "whole nanoseconds or a timestamp"),
        ({"end": [1 << 62] * 9}, "the trace lasts 53,376 days"),
        ({"end": [1, 6, 5, 3, 4, 8, 3, 5, 8]}, "row 2 of the trace ends 1 ns before it begins"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, change, words):
    made = {name: column for name, column in {**ROWS, **change}.items() if column is not None}
    with pytest.raises(TraceError, match=words):
        opened(tmp_path, pl.DataFrame(made))


def test_files_that_are_none(tmp_path):
    (tmp_path / "trace.parquet").write_bytes(b"nothing of the kind")
    with pytest.raises(TraceError, match="cannot be read as parquet"):
        open_trace(tmp_path / "trace.parquet").whole()
    with pytest.raises(TraceError, match="its name must end with"):
        open_trace(tmp_path / "trace.xml").whole()


def test_numbers_of_more_than_64_bits_are_refused_in_one_line(tmp_path):
    file = tmp_path / "trace.csv"
    file.write_text(f"worker,activity,start,end\nw,processing,1,{1 << 63}\n")
    with pytest.raises(TraceError) as refused:
        open_trace(file)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize(
    ("written", "nanoseconds"),
    [
        ("2023-11-14T22:13:20.123456789Z", 1_700_000_000_123_456_789),
        ("2023-11-14 22:13:20", 1_700_000_000_000_000_000),
        ("2023-11-14T22:13:20.5+02:00", 1_699_992_800_500_000_000),
        ("2023-11-14T22:13:20-0130", 1_700_005_400_000_000_000),
        ('"1700000000000000000"', 1_700_000_000_000_000_000),
    ],
)
def test_timestamps_as_text(tmp_path, ending, written, nanoseconds):
    file = tmp_path / f"trace.{ending}"
    head, row = "worker,activity,start,end\n", f"w,processing,{written},2023-11-15T00:00:00Z\n"
    text = written.strip('"')
    told = f'{{"worker":"w","activity":"a","start":"{text}","end":"2023-11-15T00:00:00Z"}}\n'
    file.write_text(head + row if ending == "csv" else told)
    assert open_trace(file).span == (nanoseconds, 1_700_006_400_000_000_000)
