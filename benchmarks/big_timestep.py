"""One timestep that is many times larger than what its tasks may hold: does it end, and in how much memory?"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import (
    Benchmark,
    Measurement,
    Metric,
    Parameters,
    Picture,
    Result,
    Series,
    Variant,
    Workbench,
)
from benchmarks.memory import PROC, processes, resident, role_of
from benchmarks.ours import measure
from benchmarks.trials import MEGABYTE, Trials, run_trials

SCHEMA = pa.schema([("key", pa.int64()), ("value", pa.int64()), ("text", pa.string())])
FILE_ROWS, GROUP_ROWS = 5_000_000, 500_000
TEXTS, TEXT_BYTES = 1_000, 80
"""Bytes of a row's text. Few texts differ: the files are small, the rows are not."""

LOOK_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What the state has to say at the end. weighted: sum of key times value, which tells keys apart."""

    keys: int
    rows: int
    total: int
    weighted: int


@dataclass
class WorkerPeaks:
    """The most memory that any one Python worker held, bytes.

    anonymous: its own; what counts against a limit. resident: with mapped files, which are the page cache.
    """

    anonymous: dict[str, int] = field(default_factory=dict)
    resident: dict[str, int] = field(default_factory=dict)

    def look(self, session: int, proc: Path = PROC) -> None:
        """Look once at every worker."""
        for process in processes(session, proc):
            try:
                if role_of((process / "cmdline").read_bytes()) != "workers":
                    continue
                own, mapped = resident((process / "status").read_text())
            except OSError:
                continue  # it ended while we looked
            name = process.name
            self.anonymous[name] = max(own, self.anonymous.get(name, 0))
            self.resident[name] = max(own + mapped, self.resident.get(name, 0))


@contextmanager
def watched() -> Iterator[WorkerPeaks]:
    """Look at the workers of this session of processes until the block ends."""
    peaks, over = WorkerPeaks(), threading.Event()

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            peaks.look(os.getsid(0))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        over.set()
        thread.join()


def run_rechannel(parameters: Parameters) -> Measurement:
    """Count, sum and last text per key, all of the input in one timestep."""
    return measure("big_timestep", parameters)


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Write the input, then run over it once per round."""
    folder = Path(bench.scratch) / "input"
    bench.progress.step("input")
    truth = write_input(
        folder, rows=parameters["rows"], keys=parameters["keys"], seed=parameters["seed"]
    )
    trials = run_trials(
        [
            Variant(
                name="rechannel",
                function="benchmarks.big_timestep:run_rechannel",
                parameters={**parameters, "input": str(folder)},
            )
        ],
        bench,
        rounds=parameters["rounds"],
        timeout=parameters["timeout_seconds"],
        check=partial(whole, truth),
    )
    return result_of(parameters, trials)


def write_input(folder: Path, *, rows: int, keys: int, seed: int) -> Truth:
    """Parquet files of random keys; `rows` in all. The weighted sum has to stay below 2**63."""
    folder.mkdir(parents=True)
    seen, total, weighted = np.zeros(keys, dtype=np.bool_), 0, 0
    draw = np.random.default_rng(seed)
    texts = pa.array([f"{i:0{TEXT_BYTES}}" for i in range(TEXTS)])
    for number, first in enumerate(range(0, rows, FILE_ROWS)):
        with pq.ParquetWriter(folder / f"part-{number:05d}.parquet", SCHEMA) as writer:
            for start in range(first, min(rows, first + FILE_ROWS), GROUP_ROWS):
                count = min(GROUP_ROWS, rows - start, first + FILE_ROWS - start)
                key, value = draw.integers(0, keys, count), draw.integers(0, 1_000, count)
                text = texts.take(pa.array(draw.integers(0, TEXTS, count)))
                columns = [pa.array(key), pa.array(value), text]
                writer.write_table(pa.Table.from_arrays(columns, schema=SCHEMA))
                seen[key] = True
                total += int(value.sum())
                weighted += int((key * value).sum())
    return Truth(keys=int(seen.sum()), rows=rows, total=total, weighted=weighted)


def whole(truth: Truth, variant: Variant, measurement: Measurement) -> None:
    """Raise ValueError unless one timestep read all rows and the state has the totals of all of them."""
    if measurement["rows"] != [variant.parameters["rows"]]:
        msg = f"timesteps of {measurement['rows']} rows, not one of {variant.parameters['rows']}"
        raise ValueError(msg)
    if measurement["state"] != asdict(truth):
        msg = f"the state has {measurement['state']}, the input {asdict(truth)}"
        raise ValueError(msg)
    if not measurement["workers"]:
        raise ValueError("no worker was seen")


def result_of(parameters: Parameters, trials: Trials) -> Result:
    """Seconds, and the peak of every worker process; `bound_memory` is 1 where a worker held all that it may."""
    runs = trials.of("rechannel")
    metrics = [
        metric
        for number, run in enumerate(runs)
        for metric in (
            Metric(name="timestep", value=run["seconds"][0], unit="s", variant="rechannel"),
            *(
                Metric(
                    name=f"round {number + 1} worker {place + 1} {what}",
                    value=value / MEGABYTE,
                    unit="MB",
                    variant="rechannel",
                )
                for place, worker in enumerate(run["workers"])
                for what, value in zip(("peak", "peak with mapped files"), worker, strict=True)
            ),
        )
    ]
    most = max((worker[0] for run in runs for worker in run["workers"]), default=0)
    limit = parameters["worker_megabytes"] * MEGABYTE
    series = Series(
        label="anonymous",
        x=tuple(float(i + 1) for run in runs for i in range(len(run["workers"]))),
        y=tuple(worker[0] / MEGABYTE for run in runs for worker in run["workers"]),
    )
    return Result(
        parameters=parameters,
        metrics=(*metrics, *trials.memory()),
        ratios={"bound_memory": limit / most} if most else {},
        picture=Picture(
            title="One timestep larger than memory: peak of each worker",
            x_label="worker",
            y_label="MB",
            series=(series,),
        ),
        failures=trials.failures,
    )


BENCHMARK = Benchmark(
    name="big-timestep",
    purpose="one timestep of 50 million rows (5 GB) in 2 tasks under 2 GB per worker",
    defaults={
        "rows": 50_000_000,
        "keys": 25_000_000,
        "rounds": 1,
        "cores": 2,
        "tasks": 2,
        "seed": 1,
        "task_bytes": 1 << 30,
        "worker_megabytes": 2_000,
        "durability": "process",
        "driver_memory": "4g",
        "timeout_seconds": 3_600,
    },
    quick={
        "rows": 1_000_000,
        "keys": 500_000,
        "task_bytes": 64 << 20,
        "worker_megabytes": 500,
    },
    run=run,
    goals={"bound_memory": 1.0},
)
