"""Tables of Delta Lake and of Apache Iceberg, written and read by their own libraries."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import (
    DamagedStateError,
    DataflowError,
    OtherHistoryError,
    RefusedError,
    StorageError,
)
from rechannel.job import InProcess
from rechannel.sinks.claims import Ledger
from rechannel.sinks.delta.outlet import DeltaOutlet
from rechannel.sinks.iceberg.outlet import IcebergOutlet
from rechannel.sinks.marked import ConflictError
from rechannel.sinks.marks import Mark
from rechannel.sinks.outlet import SinkContext
from rechannel.sinks.writer import Rows
from rechannel.testing import script
from tests.publishing import SCHEMA, publish, rows, step


@dataclass
class Delta:
    """Tables in a folder."""

    folder: Path
    create: bool = True

    def outlet(self, name: str, *keys: str, changes: str = "") -> DeltaOutlet:
        return DeltaOutlet(path=str(self.folder / name), keys=keys, changes=changes)

    def flow(self, writer: Any, table: str, **more: Any) -> Any:
        return writer.delta(self.folder / table, **more)

    def make(self, name: str, schema: pa.Schema) -> None:
        import deltalake

        deltalake.DeltaTable.create(str(self.folder / name), schema)

    def append(self, name: str, table: pa.Table) -> None:
        import deltalake

        deltalake.write_deltalake(str(self.folder / name), table, mode="append")

    def read(self, name: str) -> pa.Table:
        import deltalake

        return pa.table(deltalake.DeltaTable(str(self.folder / name)).to_pyarrow_table())

    def exists(self, name: str) -> bool:
        return (self.folder / name).exists()

    def versions(self, name: str) -> int:
        import deltalake

        return deltalake.DeltaTable(str(self.folder / name)).version()


@dataclass
class Iceberg:
    """Tables of a catalog in a file."""

    folder: Path
    create: bool = True

    def __post_init__(self) -> None:
        self.options = {
            "type": "sql",
            "uri": f"sqlite:///{self.folder}/catalog.db",
            "warehouse": self.folder.as_uri(),
        }
        if self.create:
            self.catalog.create_namespace("lake")

    @property
    def catalog(self) -> Any:
        from pyiceberg.catalog import load_catalog

        return load_catalog("test", **self.options)

    def outlet(self, name: str, *keys: str, changes: str = "") -> IcebergOutlet:
        return IcebergOutlet(
            table=f"lake.{name}",
            catalog="test",
            options=self.options,
            keys=keys,
            changes=changes,
        )

    def flow(self, writer: Any, table: str, **more: Any) -> Any:
        return writer.iceberg(f"lake.{table}", catalog="test", options=self.options, **more)

    def make(self, name: str, schema: pa.Schema) -> None:
        self.catalog.create_table(f"lake.{name}", schema)

    def append(self, name: str, table: pa.Table) -> None:
        self.catalog.load_table(f"lake.{name}").append(table)

    def read(self, name: str) -> pa.Table:
        return self.catalog.load_table(f"lake.{name}").scan().to_arrow()

    def exists(self, name: str) -> bool:
        return bool(self.catalog.table_exists(f"lake.{name}"))

    def versions(self, name: str) -> int:
        return len(self.catalog.load_table(f"lake.{name}").history())


Lake = Delta | Iceberg


@pytest.fixture(params=[Delta, Iceberg])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return request.param(tmp_path)


@pytest.fixture
def writer(lake: Lake) -> Iterator[Any]:
    """Open writers; they are closed with the test."""
    opened = []

    def open_one(
        table: str, *keys: str, schema: pa.Schema = SCHEMA, changes: str = "", **context: Any
    ) -> Any:
        context = {"job": "job", "name": "out", "schema": schema, **context}
        opened.append(lake.outlet(table, *keys, changes=changes).open(SinkContext(**context)))
        opened[-1].begin()
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


def sorted_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(zip(*table.to_pydict().values(), strict=True))


def test_a_timestep_is_written_once(lake, writer):
    one = writer("t")
    publish(one, 1, (1, 1), (2, 2))
    publish(one, 1, (1, 1), (2, 2))
    two = writer("t")
    publish(two, 1, (1, 1), (2, 2))
    publish(two, 2, (3, 3))
    publish(two, 3)
    publish(one, 3)
    publish(one, 2, (3, 3))
    publish(one, 4, (4, 4))
    assert sorted_rows(lake.read("t")) == [(1, 1), (2, 2), (3, 3), (4, 4)]


def test_rows_take_the_place_of_those_with_their_keys(lake, writer):
    one = writer("t", "k")
    publish(one, 1, (1, 1), (2, 2), (1, 10), (1, 11))
    publish(one, 2, (2, 20), (3, 30))
    publish(one, 2, (2, 20), (3, 30))
    assert sorted_rows(lake.read("t")) == [(1, 11), (2, 20), (3, 30)]
    with pytest.raises(RefusedError, match="is written by k, and a row has no 'k'"):
        publish(one, 3, (4, 40), (None, 50))
    assert len(lake.read("t")) == 3


TOLD = pa.schema([*SCHEMA, ("change", pa.string())])


def test_changes_are_written_and_removed_by_their_keys(lake, writer):
    one = writer("t", "k", schema=TOLD, changes="change")
    publish(one, 1, (1, 1, "insert"), (2, 2, "insert"), (3, 3, "insert"), schema=TOLD)
    assert lake.read("t").schema.names == ["k", "n"]
    some = (1, 1, "update_before"), (1, 10, "update_after"), (2, 2, "delete"), (9, 9, "delete")
    publish(one, 2, *some, schema=TOLD)
    publish(one, 2, *some, schema=TOLD)
    assert sorted_rows(lake.read("t")) == [(1, 10), (3, 3)]
    publish(one, 3, (3, 3, "delete"), (1, 10, "delete"), schema=TOLD)
    assert sorted_rows(lake.read("t")) == []
    publish(one, 4, (3, 3, "delete"), schema=TOLD)
    publish(one, 5, (3, 30, "insert"), schema=TOLD)
    assert sorted_rows(lake.read("t")) == [(3, 30)]
    with pytest.raises(RefusedError, match="column 'change' of a row is 'gone'"):
        publish(one, 6, (3, 30, "gone"), schema=TOLD)
    wider = pa.schema([*TOLD, ("text", pa.string())])
    some = (3, 30, "delete", "x"), (4, 4, "insert", "y")
    publish(one, 6, *some, schema=wider)
    assert lake.read("t").to_pylist() == [{"k": 4, "n": 4, "text": "y"}]


def test_a_changelog_is_appended_as_it_is(lake, writer):
    publish(writer("log", schema=TOLD), 1, (1, 1, "insert"), (1, 1, "delete"), schema=TOLD)
    assert sorted_rows(lake.read("log")) == [(1, 1, "delete"), (1, 1, "insert")]


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.date32(), pa.timestamp("us", "UTC")])
def test_many_rows_take_the_place_of_others_by_several_keys(lake, writer, kind):
    schema = pa.schema([("of", kind), ("in", pa.string()), ("n", pa.int64())])
    dates = [dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(day) for day in range(50)]
    made = dates if pa.types.is_temporal(kind) else range(50)
    named = [str(each) if pa.types.is_string(kind) else each for each in made]
    keys = [(each, where) for each in named for where in "abcdefg"]
    one = writer("t", "of", "in", schema=schema)
    choose, expected = random.Random(1), {}
    for number in range(1, 8):
        some = choose.sample(keys, 3 if number % 3 == 0 else 260)
        expected |= dict.fromkeys(some, number)
        publish(one, number, *((*key, number) for key in some), schema=schema)
    found = zip(*(lake.read("t")[name].to_pylist() for name in schema.names), strict=True)
    if pa.types.is_date32(kind):
        expected = {(day.date(), where): n for (day, where), n in expected.items()}
    assert sorted(found) == sorted((*key, n) for key, n in expected.items())


def test_rows_of_others_without_a_key_stay(lake, writer):
    one = writer("t", "k")
    lake.append("t", pa.table({"k": [None, 1], "n": [5, 6]}, schema=SCHEMA))
    publish(one, 1, (1, 1), (2, 2))
    assert sorted(lake.read("t")["n"].to_pylist()) == [1, 2, 5]


def test_a_driver_that_comes_second_finds_the_mark(lake, writer):
    slow, fast = writer("t"), writer("t")
    publish(slow, 1, (1, 1))
    publish(fast, 1, (1, 1))
    computed = []

    def late() -> Iterator[pa.RecordBatch]:
        if not computed:
            publish(fast, 2, (2, 2))
        computed.append(None)
        yield pa.record_batch([[2], [2]], schema=SCHEMA)

    held = Rows(tables=late, schema=SCHEMA)
    slow.publish(slow.stage(held, step(2)), step(2))
    assert len(computed) == 1, "the second attempt finds the mark before it computes rows"
    assert sorted_rows(lake.read("t")) == [(1, 1), (2, 2)]


def test_a_place_never_makes_half_of_a_conflict(lake, writer):
    one, two = writer("t"), writer("t")
    publish(one, 1, (1, 1))

    def is_new(_mark: Mark | None) -> bool:
        publish(two, 2, (2, 2))
        return True

    with pytest.raises(ConflictError):
        one._place.write(rows((2, 2)), Mark(2, step(2).digest), is_new=is_new)
    assert sorted_rows(lake.read("t")) == [(1, 1), (2, 2)]
    publish(one, 3, (3, 3))
    assert len(lake.read("t")) == 3


def test_what_others_write_meanwhile_stays(lake, writer):
    one = writer("t")
    publish(one, 1, (1, 1))
    before, others = lake.versions("t"), [pa.table({"k": [100], "n": [100]}, schema=SCHEMA)]

    def late() -> Iterator[pa.RecordBatch]:
        if others:
            lake.append("t", others.pop())
        yield pa.record_batch([[2], [2]], schema=SCHEMA)

    held = Rows(tables=late, schema=SCHEMA)
    one.publish(one.stage(held, step(2)), step(2))
    assert lake.versions("t") == before + 2
    assert sorted_rows(lake.read("t")) == [(1, 1), (2, 2), (100, 100)]


def test_sinks_of_one_table_have_marks_of_their_own(lake, writer):
    publish(writer("t", name="one"), 1, (1, 1))
    publish(writer("t", name="two"), 1, (2, 2))
    publish(writer("t", job="other"), 1, (3, 3))
    assert sorted_rows(lake.read("t")) == [(1, 1), (2, 2), (3, 3)]


def test_another_history_is_recognised(lake, writer):
    publish(writer("t"), 7, (7, 7))

    def open_with(**known: Any) -> Any:
        ledger = Ledger(opening="o", epoch=2, **known)
        return writer("t", ledger=lambda: ledger)

    with pytest.raises(RefusedError, match=r"has timestep 7 .* its last commit is timestep 5"):
        open_with(committed=5)
    with pytest.raises(RefusedError, match="has timestep 7"):
        open_with(committed=9, digests={7: step(7, "e").digest})
    with pytest.raises(OtherHistoryError, match=r"timestep 7 .* is not what this job"):
        publish(open_with(committed=9, digests={7: step(7).digest}), 7, (1, 1), digest="e")
    publish(open_with(committed=5, remove_later=True), 6, (6, 6))
    assert sorted_rows(lake.read("t")) == [(6, 6), (7, 7)]


def test_columns_that_the_table_lacks_are_added(lake, writer):
    publish(writer("t", "k"), 1, (1, 1), (2, 2))
    wider = pa.schema([*SCHEMA, ("text", pa.string())])
    publish(writer("t", "k", schema=wider), 2, (2, 20, "b"), (3, 30, "c"), schema=wider)
    publish(writer("t", "k"), 3, (4, 40))
    found = sorted(lake.read("t").to_pylist(), key=lambda row: row["k"])
    assert [each["text"] for each in found] == [None, "b", "c", None]
    wider = pa.schema([*SCHEMA, ("real", pa.float64())])
    publish(writer("a"), 1, (1, 1))
    publish(writer("a", schema=wider), 2, (2, 2, 0.5), schema=wider)
    assert sorted(lake.read("a")["real"].to_pylist(), key=str) == [0.5, None]


def test_a_column_of_another_type_is_refused_before_any_row(lake, writer):
    lake.make("t", pa.schema([("k", pa.string()), ("n", pa.int64())]))
    with pytest.raises(
        RefusedError, match=r"column 'k' is (large_)?string in table .*int64 in the rows"
    ):
        writer("t")
    assert len(lake.read("t")) == 0


def test_values_are_those_of_the_rows(lake, writer):
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 678_999, tzinfo=dt.UTC)
    schema = pa.schema(
        [
            ("flag", pa.bool_()),
            ("whole", pa.int32()),
            ("float", pa.float64()),
            ("exact", pa.decimal128(20, 3)),
            ("text", pa.string()),
            ("raw", pa.binary()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", "UTC")),
            ("local", pa.timestamp("us")),
            ("list", pa.list_(pa.int64())),
            ("object", pa.struct([("a", pa.int64()), ("b", pa.string())])),
        ]
    )
    values = (True, -7, 1e300, Decimal("-1.250"), "ä", b"\0\xff", at.date(), at)
    values += (at.replace(tzinfo=None), [1, None], {"a": 1, "b": None})
    publish(writer("t", schema=schema), 1, values, (None,) * len(values), schema=schema)
    found, nulls = sorted(
        (tuple(each.values()) for each in lake.read("t").to_pylist()),
        key=lambda row: row[1] is None,
    )
    assert found == values
    assert nulls == (None,) * len(values)


def test_a_job_goes_on_where_it_was(lake, tmp_path):
    source = script("user string, n bigint")

    def run(*records: tuple[str, int]) -> None:
        read = rc.read().memory(source, name="read")
        totals = read.key_by("user").aggregate(sum=agg.sum("n"), name="totals")
        flows = [
            lake.flow(totals.write, "totals", keys="user", name="to-totals"),
            lake.flow(read.write, "copies", name="to-copies"),
        ]
        job = rc.Job("lakes", flows, state=tmp_path / "state").start(in_process=InProcess())
        for user, n in records:
            source.push([{"user": user, "n": n}])
        job.process_all_available()
        job.stop()

    run(("ann", 1), ("bob", 2), ("ann", 3))
    assert sorted_rows(lake.read("totals")) == [("ann", 4), ("bob", 2)]
    run(("bob", 5), ("cid", 6))
    assert sorted_rows(lake.read("totals")) == [("ann", 4), ("bob", 7), ("cid", 6)]
    assert len(lake.read("copies")) == 5


def test_a_table_is_divided_by_a_column_that_is_a_key_too(tmp_path):
    outlet = DeltaOutlet(path=str(tmp_path / "t"), keys=("k", "n"), partitions=("n",))
    opened = outlet.open(SinkContext(job="job", name="out", schema=SCHEMA))
    opened.begin()
    publish(opened, 1, (1, 1), (2, 1), (1, 2))
    publish(opened, 2, (1, 1))
    assert sorted_rows(Delta(tmp_path).read("t")) == [(1, 1), (1, 2), (2, 1)]
    assert [*(tmp_path / "t").glob("n=1/*.parquet")]


def test_the_password_of_a_catalog_is_not_shown():
    options = {"uri": "postgresql://me:secret@db:5432/lake?password=secret"}
    outlet = IcebergOutlet(table="a.t", options=options)
    assert outlet.place == "iceberg postgresql://db:5432/lake a.t"
    assert "secret" not in outlet.describe()


def test_a_type_that_delta_does_not_have_is_named(tmp_path):
    schema = pa.schema([("k", pa.uint64())])
    with pytest.raises(
        DataflowError, match="Delta Lake has no type for column 'k', which is uint64"
    ):
        Delta(tmp_path).outlet("t").open(SinkContext(job="job", schema=schema))


def test_a_namespace_that_does_not_exist_is_named(tmp_path):
    lake = Iceberg(tmp_path)
    outlet = IcebergOutlet(table="sea.t", catalog="test", options=lake.options)
    opened = outlet.open(SinkContext(job="job", schema=SCHEMA))
    with pytest.raises(RefusedError, match="its namespace does not exist"):
        opened.begin()
    with pytest.raises(DataflowError, match=r"'t' is no table: give namespace\.name"):
        IcebergOutlet(table="t")


def test_a_catalog_that_is_not_there_is_a_failure_that_is_tried_again():
    options = {"type": "rest", "uri": "http://127.0.0.1:1"}
    opened = IcebergOutlet(table="a.t", options=options).open(SinkContext(job="job", schema=SCHEMA))
    with pytest.raises(StorageError):
        opened.begin()


@pytest.mark.parametrize("keys", [(), ("k",)])
def test_a_column_that_changes_its_type_meanwhile_is_refused(lake, writer, keys):
    one = writer("t", *keys)
    publish(one, 1, (1, 1))
    other = pa.schema([("k", pa.int64()), ("n", pa.float64())])
    with pytest.raises(RefusedError, match="n"):
        publish(one, 2, (2, 2.7), schema=other)
    assert sorted_rows(lake.read("t")) == [(1, 1)]


def test_a_sink_that_is_added_while_the_job_runs_makes_its_table(lake, tmp_path):
    source = script("user string, n long", [[{"user": "ann", "n": 1}]])
    rows_in = rc.read().memory(source, name="in")
    totals = rows_in.key_by("user").aggregate(n=agg.sum("n"), name="totals")
    job = rc.Job("j", totals.write.memory("m", name="m"), state=tmp_path / "state")
    running = job.start(in_process=InProcess())
    running.process_all_available(60)
    live = running.stream("totals")
    change = rc.changes.add(lake.flow(live.write, "late", keys="user", name="late"))
    running.plan(change)
    assert not lake.exists("late")
    running.reconfigure(change).wait(60)
    source.push([{"user": "bob", "n": 2}])
    running.process_all_available(60)
    running.stop()
    assert sorted_rows(lake.read("late"))[-1] == ("bob", 2)


def test_a_sink_whose_table_does_not_fit_is_not_added(lake, tmp_path):
    lake.make("late", pa.schema([("user", pa.string()), ("n", pa.string())]))
    source = script("user string, n long", [[{"user": "ann", "n": 1}]])
    rows_in = rc.read().memory(source, name="in")
    totals = rows_in.key_by("user").aggregate(n=agg.sum("n"), name="totals")
    job = rc.Job("j", totals.write.memory("m", name="m"), state=tmp_path / "state")
    running = job.start(in_process=InProcess())
    live = running.stream("totals")
    with pytest.raises(RefusedError, match="n"):
        running.reconfigure(rc.changes.add(lake.flow(live.write, "late", keys="user", name="late")))
    running.process_all_available(60)
    running.stop()


def test_an_error_of_the_rows_keeps_its_class(lake, writer):
    one = writer("t")
    publish(one, 1, (1, 1))

    def damaged() -> Iterator[pa.RecordBatch]:
        yield from rows((2, 2)).tables()
        raise DamagedStateError("a segment is damaged")

    batch = step(2)
    with pytest.raises(DamagedStateError, match="a segment"):
        one.publish(one.stage(Rows(tables=damaged, schema=SCHEMA), batch), batch)
    publish(one, 2, (2, 2))
    assert sorted_rows(lake.read("t")) == [(1, 1), (2, 2)]


def test_manifests_of_an_iceberg_table_do_not_pile_up(tmp_path: Path) -> None:
    """Each timestep replaces the file of one key: no manifest of what earlier ones deleted is read again."""
    lake = Iceberg(tmp_path)
    context = SinkContext(job="job", name="out", schema=SCHEMA)
    writer = lake.outlet("t", "k").open(context)
    writer.begin()
    counts = []
    for timestep in range(45):
        publish(writer, timestep, (timestep % 3, timestep))
        snapshot = lake.catalog.load_table("lake.t").current_snapshot()
        counts.append(len(snapshot.manifests(lake.catalog.load_table("lake.t").io)))
    writer.close()
    assert sorted(lake.read("t").to_pylist(), key=lambda row: row["k"]) == [
        {"k": 0, "n": 42}, {"k": 1, "n": 43}, {"k": 2, "n": 44},
    ]  # fmt: skip
    assert max(counts) <= 5


def test_manifests_of_an_iceberg_table_are_merged(tmp_path: Path) -> None:
    """Each timestep adds a key and replaces none, or replaces the first one."""
    lake = Iceberg(tmp_path)
    writer = lake.outlet("t", "k").open(SinkContext(job="job", name="out", schema=SCHEMA))
    writer.begin()
    counts = []
    for timestep in range(60):
        publish(writer, timestep, (0, timestep), (timestep + 1, timestep))
        table = lake.catalog.load_table("lake.t")
        counts.append(len(table.current_snapshot().manifests(table.io)))
    writer.close()
    found = {row["k"]: row["n"] for row in lake.read("t").to_pylist()}
    assert found == {0: 59, **{timestep + 1: timestep for timestep in range(60)}}
    assert max(counts) <= 21
