"""A job over rows that a test pushes, on a clock that the test moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.job import InProcess, Job
from rechannel.running import RunningJob
from rechannel.sources.connectors import MemoryConnector

COLUMNS = "user STRING, ms BIGINT"
SECONDS = 1_700_000_000


def keep_until_negative(user: Any, state: int | None, rows: Any) -> int | None:
    """A running total that ends with the first negative number."""
    total: int = (state or 0) + sum(rows["ms"])
    return None if min(rows["ms"]) < 0 else total


@dataclass
class Clicks:
    """A job over rows that a test pushes; every push is a timestep."""

    directory: Path | str
    out: Path
    clock: list[float] = field(default_factory=lambda: [SECONDS * 1000.0])
    rows: MemoryConnector = field(
        default_factory=lambda: MemoryConnector(schema=COLUMNS, partitions=2, per_timestep=1)
    )
    running: RunningJob | None = None
    allow: tuple[str, ...] = ()
    """Modules whose controllers the job allows."""

    @property
    def job_running(self) -> RunningJob:
        """The job, which a test has started."""
        assert self.running is not None
        return self.running

    def job(self) -> Job:
        stream = rc.read().memory(self.rows, name="clicks")
        users = stream.key_by("user").aggregate(
            n=agg.count(), mean=agg.mean("ms"), name="users", tasks=2
        )
        totals = stream.key_by("user").track(
            keep_until_negative, state="total BIGINT", name="totals", tasks=2
        )
        settings = rc.Settings(durability=rc.Durability.PROCESS, keep_versions=3, snapshot_every=4)
        return rc.Job(
            "clicks",
            [users.write.parquet(self.out, name="out"), totals],
            state=self.directory,
            settings=settings,
            allow=self.allow,
        )

    def start(self) -> RunningJob:
        names = count()
        self.running = self.job().start(
            in_process=InProcess(names=lambda: f"a{next(names)}"), clock=lambda: self.clock[0]
        )
        return self.running

    def push(self, rows: list[tuple[str | None, int]]) -> None:
        """One timestep: rows, and a second later."""
        users, numbers = zip(*rows, strict=True)
        self.rows.push(pa.record_batch({"user": pa.array(users, pa.string()), "ms": numbers}))
        self.job_running.process_all_available(60)
        self.clock[0] += 1000

    def files(self, kind: str) -> list[Path]:
        return sorted(path for path in (Path(self.directory) / kind).rglob("*") if path.is_file())
