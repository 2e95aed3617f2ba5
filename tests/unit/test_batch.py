"""Batch runs: whatever a source is, all it has is read in one timestep."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import DataflowError, SourceError, TimestepError
from rechannel.job import InProcess
from rechannel.sources import finite

SCHEMA = pa.schema([("user", pa.string()), ("at", pa.timestamp("us"))])
EPOCH = datetime(2026, 1, 1)  # noqa: DTZ001 - a wall clock without a zone
ROWS = 7
WINDOWS = [("a", 0, 2), ("a", 1, 2), ("b", 0, 2), ("b", 1, 1)]


def rows_of(start: int, stop: int) -> pa.RecordBatch:
    """Every second a row, of two users by turns."""
    users = ["ab"[i % 2] for i in range(start, stop)]
    times = [EPOCH + timedelta(seconds=i) for i in range(start, stop)]
    return pa.RecordBatch.from_arrays([pa.array(users), pa.array(times)], schema=SCHEMA)


class Pages(SimpleDataSourceStreamReader):
    """Two rows at a time, and never others than it was asked for."""

    def initialOffset(self) -> dict:  # noqa: N802 - Spark's name
        return {"at": 0}

    def read(self, start: dict) -> tuple[Iterator[tuple], dict]:
        end = {"at": min(start["at"] + 2, ROWS)}
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start: dict, end: dict) -> Iterator[tuple]:  # noqa: N802
        assert end["at"] - start["at"] <= 2
        return (tuple(row.values()) for row in rows_of(start["at"], end["at"]).to_pylist())


class Limited(DataSourceStreamReader):
    """Three rows at a time, in a partition each; what it knows of no other stretch."""

    def initialOffset(self) -> dict:  # noqa: N802
        return {"at": 0}

    def latestOffset(self, start: dict, limit: Any) -> dict:  # noqa: N802
        return {"at": min(start["at"] + 3, ROWS)}

    def partitions(self, start: dict, end: dict) -> list[InputPartition]:
        assert end["at"] - start["at"] <= 3
        return [InputPartition(i) for i in range(start["at"], end["at"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield rows_of(partition.value, partition.value + 1)


class Endless(Pages):
    def read(self, start: dict) -> tuple[Iterator[tuple], dict]:
        return iter([]), {"at": start["at"] + 1}


class Parts(Pages):
    """Parts of four rows, "a" and so on; the number of the row starts again with each."""

    def initialOffset(self) -> dict:  # noqa: N802
        return {"part": "a", "row": 0}

    def read(self, start: dict) -> tuple[Iterator[tuple], dict]:
        at = place(start)
        if at < ROWS and start["row"] == 4:
            return iter([]), {"part": chr(ord(start["part"]) + 1), "row": 0}
        end = {"part": start["part"], "row": min(4, start["row"] + ROWS - at)}
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start: dict, end: dict) -> Iterator[tuple]:  # noqa: N802
        return (tuple(row.values()) for row in rows_of(place(start), place(end)).to_pylist())


def place(offset: dict) -> int:
    return 4 * (ord(offset["part"]) - ord("a")) + offset["row"]


class Lagging(Pages):
    """After its first two rows a replica answers that has one."""

    def read(self, start: dict) -> tuple[Iterator[tuple], dict]:
        return (super().read(start)) if start["at"] == 0 else (iter([]), {"at": 1})


class Users(DataSource):
    def schema(self) -> str:
        return "user STRING, at TIMESTAMP_NTZ"


class PagedUsers(Users):
    def simpleStreamReader(self, schema: Any) -> Pages:  # noqa: N802
        return Pages()


class LimitedUsers(Users):
    def streamReader(self, schema: Any) -> Limited:  # noqa: N802
        return Limited()


class UsersInParts(Users):
    def simpleStreamReader(self, schema: Any) -> Parts:  # noqa: N802
        return Parts()


class LaggingUsers(Users):
    def simpleStreamReader(self, schema: Any) -> Lagging:  # noqa: N802
        return Lagging()


class EndlessUsers(Users):
    def simpleStreamReader(self, schema: Any) -> Endless:  # noqa: N802
        return Endless()


def run(stream: Any, **options: Any) -> list[tuple[str, int, int]]:
    """Windows of four seconds: user, number of the window, rows."""
    counts = (
        stream.event_time("at")
        .key_by("user")
        .window(rc.windows.tumbling("4 seconds"))
        .aggregate(n=agg.count(), name="counts")
    )
    flow = counts.write.memory("out", name="out")
    with rc.run_batch(flow, in_process=InProcess(), **options) as found:
        return sorted(
            (row["user"], (row["window_start"].replace(tzinfo=None) - EPOCH).seconds // 4, row["n"])
            for row in found.output("out").to_pylist()
        )


@pytest.mark.parametrize("source", [PagedUsers, LimitedUsers, UsersInParts])
def test_sources_that_bound_themselves_are_read_to_their_end_in_one_timestep(source):
    assert run(rc.read().python(source, name="rows")) == WINDOWS


def test_all_rows_of_a_generator_are_due_at_once(tmp_path):
    stream = rc.read().generator(
        rows_of, schema=SCHEMA, rows=ROWS, rows_per_second=0.5, per_timestep=2, name="rows"
    )
    assert run(stream) == WINDOWS


def test_files_that_arrive_during_the_run_are_not_in_it(tmp_path):
    def arriving(batch: pa.RecordBatch) -> pa.RecordBatch:
        pq.write_table(pa.Table.from_batches([rows_of(ROWS, 50)]), tmp_path / "b.parquet")
        return batch

    pq.write_table(pa.Table.from_batches([rows_of(0, ROWS)]), tmp_path / "a.parquet")
    files = rc.read().files(tmp_path, format="parquet", name="rows")
    assert run(files.map_batches(arriving, schema=SCHEMA)) == WINDOWS
    assert (tmp_path / "b.parquet").exists()


def test_no_rows_are_an_empty_result(tmp_path):
    assert run(rc.read().files(tmp_path, format="parquet", schema=SCHEMA, name="rows")) == []


def test_a_directory_serves_many_runs_and_keeps_what_else_is_in_it(tmp_path):
    (tmp_path / "mine").write_text("kept")
    for _ in range(2):
        stream = rc.read().generator(rows_of, schema=SCHEMA, rows=ROWS, name="rows")
        assert run(stream, directory=str(tmp_path)) == WINDOWS
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_directory_is_no_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stream = rc.read().generator(rows_of, schema=SCHEMA, rows=ROWS, name="rows")
    with pytest.raises(DataflowError, match="mounted on all machines, not a URL"):
        run(stream, directory="s3://bucket/tmp")
    assert list(tmp_path.iterdir()) == []


def test_dead_letters_of_a_sink_are_left_to_the_job(tmp_path):
    def flow():
        stream = rc.read().generator(rows_of, schema=SCHEMA, rows=ROWS, name="rows")
        counts = stream.key_by("user").aggregate(n=agg.count(), name="counts")
        writer = counts.write.on_failure("dead_letter", path=str(tmp_path / "dead"))
        return writer.parquet(tmp_path / "out", name="out")

    with rc.run_batch(flow(), in_process=InProcess()) as result:
        assert result.output("out").num_rows == 2
    assert not (tmp_path / "dead").exists()
    job = rc.Job("counts", flow(), state=tmp_path / "state").start(in_process=InProcess())
    job.process_all_available()
    job.stop()


def test_what_has_no_end_is_refused(monkeypatch):
    monkeypatch.setattr(finite, "MOST_LOOKS", 20)
    with pytest.raises(SourceError, match=r"'rows' had more rows each of the 20 times.*inputs="):
        run(rc.read().python(EndlessUsers, name="rows"))
    with pytest.raises(DataflowError, match=r"'rows' is handed over by a query.*inputs="):
        run(rc.read().handover(SCHEMA, name="rows"))


def test_an_end_that_goes_backwards_is_not_taken_for_the_end():
    with pytest.raises(
        SourceError,
        match=r"reports the end \{'at': 1\}, which is before its earlier end \{'at': 2\}",
    ):
        run(rc.read().python(LaggingUsers, name="rows"))


def test_rows_of_a_second_timestep_are_an_error(monkeypatch):
    monkeypatch.setattr(finite.FiniteReader, "latest", unbounded)
    with pytest.raises(TimestepError, match=r"one timestep, and sink 'out' is given rows of 2"):
        run(rc.read().python(PagedUsers, name="rows"))


def unbounded(reader: Any, start: dict, stream_ms: int, most: int | None = None) -> dict:
    """A reader that goes on with every look."""
    at = start["to"][-1] if "to" in start else start["from"]
    end = reader._inner.latest(at, stream_ms)
    return start if end == at else {"from": at, "to": [end]}
