"""What a window that slides costs, by how many slides are in it: out of totals, and out of panes.

In this process, without Spark: what is measured is the work of the two tasks. Time is that of the processor, so that it
tells the same on a machine that is shared.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from benchmarks.comparison import check_batches
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
from benchmarks.measurements import BatchMeasurement, steady_seconds
from benchmarks.trials import Trials, run_trials

if TYPE_CHECKING:
    from rechannel.kernels.protocol.logic import AggregateFunction

KINDS = ("totals", "panes")
BOUND = 1.2
"""A timestep of the longest window takes at most so many times as long as one of the shortest."""
PERCENTILES = {"p50": 50.0, "p99": 99.0}
SWEPT_EVERY = 20


def run_rechannel(parameters: Parameters) -> Measurement:
    """One window every second, over ``slides`` seconds, of ``rows`` rows a second and ``keys`` keys."""
    import rechannel as rc
    from rechannel.state.stores.local import Durability, LocalStore
    from rechannel.testing import Harness, script

    schema = pa.schema(
        [("key", pa.int64()), ("value", pa.float64()), ("at", pa.timestamp("us", "UTC"))]
    )
    rows = script(schema)
    stream = rc.read().memory(rows, name="rows").event_time("at")
    window = rc.windows.sliding(timedelta(seconds=parameters["slides"]), timedelta(seconds=1))
    made = aggregates(parameters["kind"])
    harness = Harness(
        stream.key_by("key").window(window).aggregate(made, name="w").write.memory("o", name="o"),
        store=LocalStore(parameters["scratch"], Durability.PROCESS),
        settings=rc.Settings(tasks=parameters["tasks"]),
    )
    harness.start()
    recorder = harness.recorders["o"]
    rng = np.random.default_rng(parameters["seed"])
    seconds = []
    for second in range(parameters["batches"]):
        rows.push(rows_of(rng, schema, second, parameters))
        began = time.process_time()
        harness.process.run()
        seconds.append(time.process_time() - began)
        recorder.forget()
        if second % SWEPT_EVERY == 0:
            harness.process.sweep()
    return dict(BatchMeasurement(seconds=seconds, rows=[parameters["rows"]] * len(seconds)))


def aggregates(kind: str) -> dict[str, AggregateFunction]:
    """Of those that what leaves can be taken out of, or not."""
    from rechannel import aggregates as agg

    if kind == "totals":
        return {"total": agg.sum("value"), "n": agg.count(), "mean": agg.mean("value")}
    return {"least": agg.min("value"), "most": agg.max("value")}


def rows_of(
    rng: np.random.Generator, schema: pa.Schema, second: int, parameters: Parameters
) -> pa.RecordBatch:
    """Rows of one second, in the order of their times."""
    count = parameters["rows"]
    at = second * 1_000_000 + np.sort(rng.integers(0, 1_000_000, count))
    columns = [
        pa.array(rng.integers(0, parameters["keys"], count)),
        pa.array(rng.random(count) * 1_000),
        pa.array(at).cast(schema.field("at").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Measure every number of ``slides``; of panes up to ``most_panes``."""
    variants = [
        variant(parameters, kind, slides)
        for slides in sorted(parameters["slides"])
        for kind in KINDS
        if kind == "totals" or slides <= parameters["most_panes"]
    ]
    trials = run_trials(
        variants,
        bench,
        rounds=parameters["rounds"],
        timeout=parameters["timeout_seconds"],
        check=check_batches,
    )
    warmups = {each.name: each.parameters["warmup"] for each in variants}
    found = {name: percentiles(trials, name, warmups[name]) for name in trials.variants}
    return Result(
        parameters=parameters,
        metrics=(
            *(
                Metric(name=f"timestep {name}", value=value * 1e3, unit="ms", variant=each)
                for each, values in found.items()
                for name, value in values.items()
            ),
            *trials.memory(),
        ),
        ratios=ratios_of(found, parameters["slides"]),
        picture=picture_of(found),
        failures=trials.failures,
    )


def variant(parameters: Parameters, kind: str, slides: int) -> Variant:
    """The windows fill while it warms up."""
    warmup = slides + parameters["warmup"]
    own: dict[str, Any] = {**parameters, "kind": kind, "slides": slides, "warmup": warmup}
    own["batches"] = warmup + parameters["batches"]
    return Variant(
        name=f"{kind}_{slides}", function="benchmarks.sliding:run_rechannel", parameters=own
    )


def percentiles(trials: Trials, name: str, warmup: int) -> dict[str, float]:
    """Percentiles of the time of a timestep over all runs, seconds."""
    seconds = steady_seconds(trials.of(name), warmup)
    return {called: float(np.percentile(seconds, q)) for called, q in PERCENTILES.items()}


def ratios_of(found: dict[str, dict[str, float]], slides: Any) -> dict[str, float]:
    """``bound_p50_600`` is 1 or more if 600 slides cost at most a fifth more than the fewest; also of panes."""
    least = min(slides)
    return {
        f"{'bound' if kind == 'totals' else 'panes'}_{name}_{number}": BOUND
        / (found[f"{kind}_{number}"][name] / value)
        for kind in KINDS
        for name, value in found.get(f"{kind}_{least}", {}).items()
        for number in sorted(slides)
        if number != least and f"{kind}_{number}" in found
    }


def picture_of(found: dict[str, dict[str, float]]) -> Picture:
    """Median time of a timestep over the number of slides."""
    series = []
    for kind in KINDS:
        mine = {int(n.split("_")[1]): v["p50"] for n, v in found.items() if n.startswith(kind)}
        lengths = sorted(mine)
        series.append(
            Series(
                label=kind,
                x=tuple(float(each) for each in lengths),
                y=tuple(mine[each] for each in lengths),
            )
        )
    return Picture(
        title="Windows that slide: processor seconds per timestep",
        x_label="slides in a window",
        y_label="seconds per timestep",
        series=tuple(series),
    )


BENCHMARK = Benchmark(
    name="sliding",
    purpose="the same timestep with windows of 10 to 600 slides, out of totals and out of panes",
    defaults={
        "slides": [10, 60, 600],
        "most_panes": 60,
        "rows": 50_000,
        "keys": 20_000,
        "batches": 60,
        "warmup": 10,
        "rounds": 3,
        "tasks": 2,
        "seed": 1,
        "timeout_seconds": 3_600,
    },
    quick={"slides": [10, 60], "rows": 5_000, "keys": 2_000, "batches": 20, "rounds": 1},
    run=run,
    goals={"bound_p50_600": 1.0, "bound_p99_600": 1.0},
)
