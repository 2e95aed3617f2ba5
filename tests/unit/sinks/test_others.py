"""Sinks in memory, on the console, in the user's hands, and none at all."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from rechannel.errors import DataflowError, SourceError, UserFunctionError
from rechannel.sinks.batch import Batch
from rechannel.sinks.console import ConsoleWriter
from rechannel.sinks.files import FileWriter
from rechannel.sinks.handover import ForEachBatchWriter, NoopWriter, takes_batch
from rechannel.sinks.memory import MemoryWriter
from rechannel.sinks.outlet import SinkContext
from rechannel.sinks.outlets import (
    ConsoleOutlet,
    FileOutlet,
    ForEachBatchOutlet,
    MemoryOutlet,
    NoopOutlet,
)
from rechannel.sinks.writer import Rows

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


def rows(*values: int) -> Rows:
    batches = [pa.RecordBatch.from_pydict({"n": [v], "s": [f"[{v}]"]}, SCHEMA) for v in values]
    return Rows(tables=lambda: iter(batches), schema=SCHEMA)


def console(limit: int) -> tuple[ConsoleWriter, io.StringIO]:
    out = io.StringIO()
    return ConsoleWriter("delays", limit, Console(file=out, width=60)), out


def test_rows_come_with_exactly_the_planned_columns():
    raw = pa.RecordBatch.from_pydict({"n": pa.array([1], pa.int32()), "s": ["x"]})
    made = Rows(tables=lambda: iter([raw, raw.slice(0, 0)]), schema=SCHEMA)
    assert made.table().equals(pa.table({"n": [1], "s": ["x"]}, SCHEMA))
    assert [batch.num_rows for batch in made.batches()] == [1]


def test_the_head_of_rows_stops_reading():
    assert rows(1, 2, 3).head(2)["n"].to_pylist() == [1, 2]
    assert rows(1).head(5)["n"].to_pylist() == [1]
    assert rows().head(5).schema == SCHEMA


def test_memory_shows_what_is_published_once():
    writer = MemoryWriter("out")
    assert writer.table().num_rows == 0
    for timestep, values in ((1, (1, 2)), (3, (4,)), (2, (3,)), (4, ())):
        said = writer.stage(rows(*values), Batch(timestep=timestep))
        assert timestep not in dict(writer.timesteps())
        writer.publish(said, Batch(timestep=timestep))
        writer.publish(said, Batch(timestep=timestep))
    assert [number for number, _ in writer.timesteps()] == [1, 2, 3]
    assert [number for number, _ in writer.last(2)] == [2, 3]
    assert writer.last(0) == []
    assert writer.table()["n"].to_pylist() == [1, 2, 3, 4]
    writer.close()
    assert writer.table().num_rows == 4


def test_memory_shows_the_latest_attempt_at_a_timestep():
    writer = MemoryWriter("out")
    writer.stage(rows(1), Batch(timestep=1))
    writer.publish(writer.stage(rows(1), Batch(timestep=1)), Batch(timestep=1))
    assert writer.table()["n"].to_pylist() == [1]


def test_memory_has_columns_before_it_has_rows():
    writer = MemoryWriter("out")
    writer.publish(writer.stage(rows(), Batch(timestep=1)), Batch(timestep=1))
    assert writer.table().schema == SCHEMA


def test_memory_shows_timesteps_from_before_and_after_a_change_of_columns():
    writer = MemoryWriter("out")
    added = pa.schema([pa.field("n", pa.int64(), nullable=False), ("more", pa.int64())])
    batch = pa.RecordBatch.from_pydict({"n": [3], "more": [4]}, added)
    others = Rows(tables=lambda: iter([batch]), schema=added)
    for timestep, some in enumerate((rows(1), others, rows(5))):
        writer.publish(writer.stage(some, Batch(timestep=timestep)), Batch(timestep=timestep))
    assert writer.table().to_pydict() == {
        "n": [1, 3, 5],
        "s": ["[1]", None, "[5]"],
        "more": [None, 4, None],
    }


def test_the_console_shows_the_first_rows_when_they_are_published():
    writer, out = console(limit=2)
    said = writer.stage(rows(7, 8, 9), Batch(timestep=5))
    assert out.getvalue() == ""
    writer.publish(said, Batch(timestep=5))
    text = out.getvalue()
    assert "delays · timestep 5 · first 2 rows" in text
    assert "7" in text
    assert "[8]" in text
    assert "9" not in text


def test_the_console_says_how_many_rows_there_are_if_it_shows_all():
    writer, out = console(limit=2)
    writer.publish(writer.stage(rows(7), Batch(timestep=5)), Batch(timestep=5))
    assert "delays · timestep 5 · 1 row\n" in out.getvalue()


def test_the_console_is_silent_about_nothing():
    writer, out = console(limit=2)
    writer.publish(writer.stage(rows(), Batch(timestep=5)), Batch(timestep=5))
    writer.publish({}, Batch(timestep=6))
    assert out.getvalue() == ""


def test_for_each_batch_gets_rows_and_number_before_the_commit():
    got: list[Any] = []
    writer = ForEachBatchWriter("mine", lambda table, timestep: got.append((timestep, table)))
    said = writer.stage(rows(1, 2), Batch(timestep=3))
    ((timestep, table),) = got
    assert timestep == 3
    assert table["n"].to_pylist() == [1, 2]
    writer.publish(said, Batch(timestep=3))
    assert len(got) == 1
    assert writer.durable


def test_for_each_batch_shows_the_users_traceback():
    def broken(table: pa.Table, timestep: int) -> None:
        raise ZeroDivisionError("in my code")

    with pytest.raises(UserFunctionError, match=r"broken of sink 'mine', timestep 3") as caught:
        ForEachBatchWriter("mine", broken).stage(rows(1), Batch(timestep=3))
    assert 'raise ZeroDivisionError("in my code")' in str(caught.value)


def test_for_each_batch_lets_errors_of_the_input_pass():
    def read(table: pa.Table, timestep: int) -> None:
        raise SourceError("a file is gone")

    with pytest.raises(SourceError, match="a file is gone"):
        ForEachBatchWriter("mine", read).stage(rows(1), Batch(timestep=3))


def test_noop_reads_nothing_without_spark():
    def read() -> Any:
        raise AssertionError

    writer = NoopWriter()
    writer.publish(
        writer.stage(Rows(tables=read, schema=SCHEMA), Batch(timestep=1)),
        Batch(timestep=1),
    )
    assert not writer.durable


@pytest.mark.parametrize(
    ("outlet", "kind"),
    [
        (MemoryOutlet(name="t"), MemoryWriter),
        (ConsoleOutlet(), ConsoleWriter),
        (ForEachBatchOutlet(function=print), ForEachBatchWriter),
        (NoopOutlet(), NoopWriter),
    ],
)
def test_every_outlet_has_a_writer(outlet, kind):
    writer = outlet.open(SinkContext(job="job", name="sink"))
    assert isinstance(writer, kind)
    writer.close()


def test_files_are_opened_where_the_path_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("out/", f"file://{tmp_path}/out"):
        outlet = FileOutlet(format="parquet", path=path)
        writer = outlet.open(SinkContext(job="job", name="sink", sync=False))
        assert isinstance(writer, FileWriter)
        assert writer.root == str(tmp_path / "out")
    drawn = {outlet.open(SinkContext(job="job", name="sink")).token for _ in range(3)}
    assert len(drawn) == 3


def test_a_uri_needs_spark():
    with pytest.raises(DataflowError, match="needs a Spark session"):
        FileOutlet(format="parquet", path="hdfs://host/out").open(SinkContext(job="job"))


def annotated(calls: list[Any]) -> Any:
    def write(df: Any, timestep: int, batch: Batch = Batch(timestep=0)) -> None:  # noqa: B008
        del df
        calls.extend([timestep, batch.digest])

    return write


def noted(function: Any) -> list[Any]:
    """What a function of some form is called with beside the rows."""
    calls: list[Any] = []
    batch = Batch(timestep=3, incarnation="sink-2", digest="ab")
    ForEachBatchWriter("s", function(calls)).stage(rows(1), batch)
    return calls


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (lambda calls: lambda df, t: calls.extend([t]), [3]),
        (lambda calls: lambda df, t, to=calls: to.extend([t]), [3]),
        (lambda calls: lambda df, t, *more: calls.extend([t, *more]), [3]),
        (lambda calls: lambda df, t, batch: calls.extend([t, batch.incarnation]), [3, "sink-2"]),
        (annotated, [3, "ab"]),
    ],
)
def test_a_third_argument_is_the_batch_and_defaults_stay_defaults(function, given):
    assert noted(function) == given


def test_what_has_no_signature_gets_two_arguments():
    assert not takes_batch(dict.update)
    assert not takes_batch(max)


def test_a_batch_is_of_a_timestep():
    with pytest.raises(ValueError, match="not -1"):
        Batch(timestep=-1)
