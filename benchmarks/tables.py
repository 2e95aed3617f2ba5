"""Rows per second into tables of Delta Lake, Iceberg and PostgreSQL, beside their libraries' own calls.

Each timestep brings `rows` new rows, or `updates` rows of random keys of which the table has `keys`, in turn by the
sink and by the bare call, to a table of each. The bare call makes no promise about repetitions: appending calls of the
libraries, MERGE of Delta Lake, `Table.upsert` of PyIceberg. PostgreSQL has no bare call that replaces rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from benchmarks.harness import (
    Benchmark,
    Metric,
    Parameters,
    Picture,
    Result,
    Series,
    Workbench,
)

if TYPE_CHECKING:
    from rechannel.sinks.outlet import Outlet
    from rechannel.sinks.writer import SinkWriter

SCHEMA = pa.schema([("user", pa.int64()), ("name", pa.string()), ("n", pa.int64())])


def rows_of(users: Any) -> pa.Table:
    """Return one row for each of an array of users."""
    names = pa.array([f"user {user}" for user in users.tolist()])
    return pa.table({"user": users, "name": names, "n": users * 3}, schema=SCHEMA)


@dataclass
class Sink:
    """A writer as a job uses it."""

    outlet: Outlet
    timestep: int = 0
    writer: SinkWriter = field(init=False)

    def __post_init__(self) -> None:
        from rechannel.sinks.outlet import SinkContext

        self.writer = self.outlet.open(SinkContext(job="job", name="out", schema=SCHEMA))
        self.writer.begin()

    def __call__(self, table: pa.Table) -> None:
        """Publish rows as the next timestep."""
        from rechannel.sinks.batch import Batch
        from rechannel.sinks.writer import Rows

        self.timestep += 1
        batch = Batch(timestep=self.timestep, incarnation="i", digest=f"{self.timestep:032x}")
        rows = Rows(tables=lambda: iter(table.to_batches()), schema=SCHEMA)
        self.writer.publish(self.writer.stage(rows, batch), batch)


Write = Callable[[pa.Table], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One way to write, by the sink and by the bare call."""

    name: str
    updates: bool
    sink: Write
    bare: Write | None


def delta(folder: Path) -> Iterator[Case]:
    """Tables in a folder."""
    import deltalake

    from rechannel.sinks.delta.outlet import DeltaOutlet

    def append(table: pa.Table) -> None:
        deltalake.write_deltalake(str(folder / "bare"), table, mode="append")

    def merge(table: pa.Table) -> None:
        there = deltalake.DeltaTable(str(folder / "merged"))
        found = there.merge(table, "o.user = n.user", source_alias="n", target_alias="o")
        found.when_matched_update_all().when_not_matched_insert_all().execute()

    deltalake.DeltaTable.create(str(folder / "merged"), SCHEMA)
    by = DeltaOutlet(path=str(folder / "keyed"), keys=("user",))
    new = Sink(DeltaOutlet(path=str(folder / "new")))
    yield Case(name="Delta Lake, append", updates=False, sink=new, bare=append)
    yield Case(name="Delta Lake, by key", updates=True, sink=Sink(by), bare=merge)


def iceberg(folder: Path) -> Iterator[Case]:
    """Tables of a catalog in SQLite."""
    from pyiceberg.catalog import load_catalog

    from rechannel.sinks.iceberg.outlet import IcebergOutlet

    folder.mkdir()
    options = {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": folder.as_uri(),
    }
    catalog = load_catalog("bench", **options)
    catalog.create_namespace("b")
    bare, merged = (catalog.create_table(f"b.{name}", SCHEMA) for name in ("bare", "merged"))

    def made(name: str, *keys: str) -> Sink:
        return Sink(IcebergOutlet(table=f"b.{name}", catalog="bench", options=options, keys=keys))

    def upsert(table: pa.Table) -> None:
        merged.upsert(table, join_cols=["user"])

    yield Case(name="Iceberg, append", updates=False, sink=made("new"), bare=bare.append)
    yield Case(name="Iceberg, by key", updates=True, sink=made("keyed", "user"), bare=upsert)


def postgres(url: str) -> Iterator[Case]:
    """Tables of a database."""
    import adbc_driver_postgresql.dbapi as driver

    from rechannel.sinks.postgres.outlet import PostgresOutlet

    columns = '("user" bigint {}, name text, n bigint)'
    connection = driver.connect(url)
    with connection.cursor() as cursor:
        for name, kind in (("new", ""), ("bare", ""), ("keyed", "PRIMARY KEY")):
            cursor.execute(f"DROP TABLE IF EXISTS bench_{name}")
            cursor.execute(f"CREATE TABLE bench_{name} {columns.format(kind)}")
        cursor.execute("DROP TABLE IF EXISTS rechannel_marks")
    connection.commit()

    def copy(table: pa.Table) -> None:
        with connection.cursor() as cursor:
            cursor.adbc_ingest("bench_bare", table, mode="append")
        connection.commit()

    new = Sink(PostgresOutlet(url=url, table="bench_new"))
    by = Sink(PostgresOutlet(url=url, table="bench_keyed", keys=("user",)))
    yield Case(name="PostgreSQL, append", updates=False, sink=new, bare=copy)
    yield Case(name="PostgreSQL, by key", updates=True, sink=by, bare=None)
    connection.close()


@contextmanager
def server(url: str) -> Iterator[str]:
    """Give the address of a database: the given one, or one of its own from the tests' components."""
    if url:
        yield url
        return
    from tests.real.components.postgres import Postgres

    started = Postgres()
    started.start()
    try:
        yield started.url
    finally:
        started.remove()


def seconds(write: Write, table: pa.Table) -> float:
    """Return how long it takes to write rows."""
    began = time.perf_counter()
    write(table)
    return time.perf_counter() - began


def rates(
    case: Case, parameters: Parameters, bench: Workbench
) -> Iterator[tuple[float, float | None]]:
    """Yield rows per second of the sink, and of the bare call, timestep after timestep."""
    random = np.random.default_rng(1)
    rows = parameters["updates" if case.updates else "rows"]
    first = rows_of(np.arange(parameters["keys"] if case.updates else rows))
    for write in filter(None, (case.sink, case.bare)):
        write(first)
    for step in range(parameters["timesteps"]):
        bench.progress.detail(f"{case.name}, timestep {step + 1}")
        users = (
            random.choice(parameters["keys"], rows, replace=False)
            if case.updates
            else np.arange(rows) + (step + 1) * rows
        )
        given = rows_of(users)
        mine = rows / seconds(case.sink, given)
        yield mine, None if case.bare is None else rows / seconds(case.bare, given)


def cases(parameters: Parameters, scratch: Path) -> Generator[Case, None, None]:
    """Yield what to measure."""
    for place in parameters["places"]:
        if place == "delta":
            yield from delta(scratch / place)
        elif place == "iceberg":
            yield from iceberg(scratch / place)
        else:
            with server(parameters["url"]) as url:
                yield from postgres(url)


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Write to every place in turn."""
    metrics, ratios, curves = list[Metric](), dict[str, float](), list[Series]()
    with closing(cases(parameters, Path(bench.scratch))) as every:
        for case in every:
            bench.progress.step(case.name)
            found = list(rates(case, parameters, bench))
            mine = [each for each, _ in found]
            its = [each for _, each in found if each is not None]
            metrics.append(
                Metric(name=case.name, value=float(np.median(mine)), unit="rows/s", variant="sink")
            )
            if its:
                metrics.append(
                    Metric(
                        name=case.name, value=float(np.median(its)), unit="rows/s", variant="bare"
                    )
                )
                pairs = [a / b for a, b in found if b is not None]
                ratios[case.name] = float(np.median(pairs))
            curves.append(
                Series(label=case.name, x=tuple(map(float, range(len(mine)))), y=tuple(mine))
            )
    return Result(
        parameters=parameters,
        metrics=tuple(metrics),
        ratios=ratios,
        picture=Picture(
            title=f"timesteps of {parameters['rows']} new rows, and of {parameters['updates']} by key",
            x_label="timestep",
            y_label="rows/s",
            series=tuple(curves),
            log_y=True,
        ),
    )


BENCHMARK = Benchmark(
    name="tables",
    purpose="rows per second into Delta Lake, Iceberg and PostgreSQL, beside their libraries' own calls",
    defaults={
        "places": ["delta", "iceberg", "postgres"],
        "rows": 100_000,
        "updates": 20_000,
        "keys": 1_000_000,
        "timesteps": 10,
        "url": "",
    },
    quick={"rows": 20_000, "updates": 2_000, "keys": 50_000, "timesteps": 3},
    run=run,
)
