"""Timesteps on two executors of which one becomes slow: with the controller that places tasks, and without (Trisk).

Both executors are processes of one machine, with a core each. What slows one of them down is not another process but
the function in its tasks: from timestep `calm` on it sleeps `slower` times as long there, so that other work on the
machine matters little. So the figure shows what is decided and what comes of it, and not how fast a network is.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

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
from benchmarks.trials import run_trials

if TYPE_CHECKING:
    import pyarrow as pa

CONTROLLED = "placed"
VARIANTS = {CONTROLLED: "benchmarks.placement:placed", "left alone": "benchmarks.placement:left"}
PUBLISHED = {"before": 73.0, "after": 49.5}
"""Milliseconds, of Trisk (SoCC'21), figure 8."""


def placed(parameters: Parameters) -> Measurement:
    """With the controller, once one executor has been slow for a while."""
    return _run(parameters, controlled=True)


def left(parameters: Parameters) -> Measurement:
    """Without it."""
    return _run(parameters, controlled=False)


class Model:
    """Takes some seconds per row; more on executor 0 from when a file is there."""

    def __init__(self, seconds: float, slower: float, neighbour: Path) -> None:
        self.seconds, self.slower, self.neighbour = seconds, slower, neighbour

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows later. The directory of a worker is called as its executor."""
        slow = Path.cwd().name == "0" and self.neighbour.exists()
        time.sleep(rows.num_rows * self.seconds * (self.slower if slow else 1))
        return rows


def numbered(start: int, stop: int) -> pa.RecordBatch:
    """Every key once per timestep."""
    import pyarrow as pa

    return pa.record_batch({"key": np.arange(start, stop, dtype=np.int64) % 200})


def _run(parameters: Parameters, *, controlled: bool) -> Measurement:
    import rechannel as rc
    from benchmarks.session import session
    from benchmarks.variant import report
    from rechannel import aggregates as agg

    scratch = Path(parameters["scratch"])
    cluster = {
        "spark.master": "local-cluster[2,1,1024]",
        "spark.executor.memory": "512m",
        # Tasks wait for the executor that they are placed on, also when it is slow.
        "spark.locality.wait": "10s",
    }
    spark = session(parameters, cluster)
    numbers = rc.read(spark).generator(
        numbered, schema="key BIGINT", per_timestep=200, partitions=2, name="numbers"
    )
    counts = numbers.key_by("key").aggregate(n=agg.count(), name="counts")
    model = Model(parameters["seconds"], parameters["slower"], scratch / "neighbour")
    job = rc.Job(
        "placement",
        counts.map_batches(model, name="model").write.noop(),
        state=scratch / "state",
        settings=rc.Settings(tasks=parameters["tasks"]),
    ).start()
    seen: dict[int, Any] = {}
    begun = installed = 0
    last = parameters["calm"] + parameters["neighbour"] + parameters["timesteps"]
    while (now := job.status.timestep) < last:
        time.sleep(0.1)
        if not begun and now >= parameters["calm"]:
            (scratch / "neighbour").touch()
            begun = now
        if begun and not installed and now >= begun + parameters["neighbour"]:
            installed = now
            if controlled:
                job.control(rc.control.library.Placement(samples=parameters["samples"]))
        seen.update({p.timestep: p for p in job.recent_progress})
        report(f"timestep {now}")
    history = [(each.first_timestep or 0, each.cause) for each in job.history()]
    job.stop()
    return {
        "begun": begun,
        "installed": installed,
        "placed": [first for first, cause in history if first and ": saves" in cause],
        "causes": [cause for _, cause in history],
        "timesteps": [[p.timestep, p.duration_ms, p.rows_in] for _, p in sorted(seen.items())],
    }


def phases(made: Measurement) -> dict[str, list[list[float]]]:
    """Timesteps while all is calm, with a neighbour, and after the last placement; those in between count nowhere.

    Without the controller, those after the time at which it would be installed are of the last kind.
    """
    begun, steps = made["begun"], made["timesteps"]
    last = max(made["placed"], default=made["installed"])
    return {
        "calm": [t for t in steps if begun - 20 <= t[0] < begun],
        "neighbour": [t for t in steps if begun + 1 < t[0] <= made["installed"]],
        "afterwards": [t for t in steps if t[0] > last + 2],
    }


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Measure both."""
    trials = run_trials(
        [Variant(name=n, function=f, parameters=parameters) for n, f in VARIANTS.items()],
        bench,
        rounds=1,
        timeout=parameters["timeout_seconds"],
        check=check,
    )
    metrics: list[Metric] = [
        Metric(name=f"timestep {when}", value=ms, unit="ms", variant="Trisk, published")
        for when, ms in PUBLISHED.items()
    ]
    ratios: dict[str, float] = {}
    series = []
    for name in trials.variants:
        (made,) = trials.of(name)
        took = {n: found for n, found in phases(made).items() if found}
        for phase, found in took.items():
            rate = 1e3 * sum(t[2] for t in found) / sum(t[1] for t in found)
            ms = median(t[1] for t in found)
            metrics += [
                Metric(name=f"timestep {phase}", value=ms, unit="ms", variant=name),
                Metric(name=f"throughput {phase}", value=rate, unit="rows/s", variant=name),
            ]
        if name == CONTROLLED:
            before, after = (median(t[1] for t in took[n]) for n in ("neighbour", "afterwards"))
            worst = max(t[1] for t in made["timesteps"] if t[0] >= made["placed"][0])
            metrics.append(Metric(name="worst from then on", value=worst, unit="ms", variant=name))
            ratios["shorter_timesteps"] = before / after
        points = [(float(t[0]), float(t[1])) for t in made["timesteps"]]
        series.append(
            Series(label=name, x=tuple(x for x, _ in points), y=tuple(y for _, y in points))
        )
    return Result(
        parameters=parameters,
        metrics=(*metrics, *trials.memory()),
        ratios=ratios,
        picture=Picture(
            title="An executor becomes slow",
            x_label="timestep",
            y_label="milliseconds",
            series=tuple(series),
        ),
        failures=trials.failures,
    )


def check(variant: Variant, made: Measurement) -> None:
    """Raise ValueError for a run in which nothing was placed, or anything without the controller."""
    if bool(made["placed"]) != (variant.name == CONTROLLED):
        msg = f"{variant.name}: placed at {made['placed']}, {made['causes']}"
        raise ValueError(msg)
    if not phases(made)["neighbour"]:
        raise ValueError(f"{variant.name}: no timestep had a neighbour")


BENCHMARK = Benchmark(
    name="placement",
    purpose="timesteps on two executors of which one becomes slow, with and without Placement",
    defaults={
        "calm": 40,
        "neighbour": 30,
        "timesteps": 60,
        "seconds": 0.002,
        "slower": 4,
        "samples": 5,
        "cores": 2,
        "tasks": 4,
        "durability": "process",
        "driver_memory": "1g",
        "timeout_seconds": 900,
    },
    quick={"calm": 25, "neighbour": 15, "timesteps": 45, "samples": 3},
    run=run,
    goals={"shorter_timesteps": 1.3},
)
