"""How far the simulator of micro-batches is from a real run: the time of every timestep, and the cores that it needs.

A stream runs on Spark whose tasks wait for themselves and for every row, so that a busy machine matters little. Its
load and its tasks change from phase to phase. What tasks and the driver cost is fitted to the first two phases; then
every phase is simulated with the rows that each timestep had, and each simulated timestep is put beside the measured
one. Of the later phases, the simulator has seen nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

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

FITTED = 2
"""Phases that costs are fitted to."""
SETTLING = 2
"""Timesteps of each phase that are left out: they may have rows of the phase before."""
GOAL = 0.1
"""How far a timestep of a later phase may be off, in the median."""
NAME = "on Spark"


def on_spark(parameters: Parameters) -> Measurement:
    """Record it; see `simulator_error_side`, which is imported only in the process that measures."""
    from benchmarks.simulator_error_side import run as recorded

    return recorded(parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What was fitted, in milliseconds: by operator, the fixed part of a task and a row; and the driver's."""

    fixed_ms: Mapping[str, float]
    row_ms: Mapping[str, float]
    driver_ms: float
    launch_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A recorded run beside the same run in the simulator."""

    measured_ms: tuple[float, ...]
    simulated_ms: tuple[float, ...]
    unseen: tuple[bool, ...]
    """Whether costs were fitted without that timestep."""
    cores: tuple[tuple[float, float], ...]
    """By phase: milliseconds of cores per millisecond, as measured and as simulated."""

    def errors(self, *, unseen: bool) -> tuple[float, ...]:
        """Return how far simulated times are from measured ones, as shares of these. unseen: only of later phases."""
        pairs = zip(self.measured_ms, self.simulated_ms, self.unseen, strict=True)
        return tuple(abs(b / a - 1) for a, b, new in pairs if new or not unseen)

    def cores_errors(self) -> tuple[float, ...]:
        """Return how far the cores that later phases need are off, as shares."""
        return tuple(abs(b / a - 1) for a, b in self.cores[FITTED:])


def compared(recorded: Measurement, cores: int) -> Compared:
    """Simulate a recorded run, phase by phase. Raises ValueError for a phase of less than three timesteps."""
    steps: Sequence[Any] = recorded["timesteps"]
    interval_ms = float(recorded["interval_ms"])
    phases = [
        [each for each in steps if each["phase"] == phase][SETTLING:]
        for phase in range(steps[-1]["phase"] + 1)
    ]
    if min(map(len, phases)) < 3:
        raise ValueError(f"phases of {list(map(len, phases))} timesteps: give each more seconds")
    costs = costs_of([each for of in phases[:FITTED] for each in of])
    measured, simulated, unseen, needs = [], [], [], []
    for number, of in enumerate(phases):
        took, worked = simulated_phase(of, interval_ms, costs, cores)
        measured += [float(each["took_ms"]) for each in of]
        simulated += took
        unseen += [number >= FITTED] * len(of)
        room = len(of) * interval_ms
        work = sum(sum(o["ms"]) for each in of for o in each["operators"].values())
        needs.append((work / room, worked / room))
    return Compared(
        measured_ms=tuple(measured),
        simulated_ms=tuple(simulated),
        unseen=tuple(unseen),
        cores=tuple(needs),
    )


def costs_of(steps: Sequence[Any]) -> Costs:
    """Return what tasks and the driver cost in some timesteps."""
    from rechannel.scaling.model.fits import ESTIMATE, task_costs

    fixed, row = dict[str, float](), dict[str, float]()
    for name in steps[0]["operators"]:
        rows, ms = (
            np.concatenate([each["operators"][name][what] for each in steps])[None, :].astype(float)
            for what in ("rows", "ms")
        )
        found = task_costs(rows, ms, ms > 0)
        fixed[name], row[name] = (
            float(found.fixed_ms[ESTIMATE, 0]),
            float(found.row_ms[ESTIMATE, 0]),
        )
    launches = [each["launch_ms"] for each in steps if each["launch_ms"] is not None]
    return Costs(
        fixed_ms=fixed,
        row_ms=row,
        driver_ms=float(np.median([each["took_ms"] - each["turns_ms"] for each in steps])),
        launch_ms=float(np.median(launches)) if launches else 0.0,
    )


def simulated_phase(
    steps: Sequence[Any], interval_ms: float, costs: Costs, cores: int
) -> tuple[list[float], float]:
    """Return what the timesteps of one phase take in the simulator, and the milliseconds of cores of all of them."""
    from rechannel.testing.scaling import (
        BatchOperator,
        Cluster,
        Dataflow,
        MicroBatchEngine,
        Pace,
        Source,
        Steps,
        topology,
    )

    names = list(steps[0]["operators"])
    rows = {name: [sum(each["operators"][name]["rows"]) for each in steps] for name in names}
    every_s = interval_ms / 1e3
    load = Steps(
        rates=tuple((n * every_s, each / every_s) for n, each in enumerate(rows[names[0]]))
    )
    operators = {
        name: BatchOperator(
            fixed_ms=costs.fixed_ms[name],
            row_ms=costs.row_ms[name],
            selectivity={
                to: sum(rows[to]) / sum(rows[name]) for to in names[place + 1 : place + 2]
            },
        )
        for place, name in enumerate(names)
    }
    edges = [("arrivals", names[0]), *pairwise(names)]
    dataflow = Dataflow(
        topology=topology(edges), sources={"arrivals": Source(load=load)}, operators=operators
    )
    pace = Pace(interval_ms=interval_ms, driver_ms=costs.driver_ms, launch_ms=costs.launch_ms)
    tasks = {name: len(steps[-1]["operators"][name]["rows"]) for name in names}
    cluster = Cluster(cores_per_executor=cores)
    engine = MicroBatchEngine(dataflow, pace, tasks, executors=1, cluster=cluster)
    seen = engine.advance((len(steps) + 1.5) * every_s).seen
    took = [] if seen.cores is None else list(seen.cores.durations_ms[: len(steps)])
    if len(took) < len(steps):
        raise ValueError(
            f"{len(took)} of {len(steps)} timesteps were simulated: a phase is too slow"
        )
    worked = sum(
        len(each["operators"][name]["rows"]) * costs.fixed_ms[name]
        + sum(each["operators"][name]["rows"]) * costs.row_ms[name]
        for each in steps
        for name in names
    )
    return took, worked


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Record a run, simulate it, and compare."""
    spark = Variant(
        name=NAME, function="benchmarks.simulator_error:on_spark", parameters=parameters
    )
    trials = run_trials(
        [spark], bench, rounds=1, timeout=parameters["timeout_seconds"], check=check
    )
    metrics: tuple[Metric, ...] = ()
    ratios, series = dict[str, float](), tuple[Series, ...]()
    for made in trials.of(NAME) if NAME in trials.variants else ():
        found = compared(made, parameters["cores"])
        metrics, series = figures(found), curves(found)
        ratios["bound_10_percent"] = GOAL / max(1e-3, float(np.median(found.errors(unseen=True))))
    return Result(
        parameters=parameters,
        metrics=metrics,
        ratios=ratios,
        picture=Picture(
            title="Timesteps, measured and simulated",
            x_label="timestep",
            y_label="milliseconds",
            series=series,
        ),
        failures=trials.failures,
    )


def check(variant: Variant, made: Measurement) -> None:
    """Raise ValueError for a run that is too short to be compared."""
    compared(made, variant.parameters["cores"])


def figures(found: Compared) -> tuple[Metric, ...]:
    """Return errors in percent."""
    every, later = found.errors(unseen=False), found.errors(unseen=True)
    told = (
        ("error of a timestep, median", float(np.median(every))),
        ("error of a timestep, worst", max(every)),
        ("error in later phases, median", float(np.median(later))),
        ("error in later phases, worst", max(later)),
        ("error of needed cores in later phases, worst", max(found.cores_errors())),
    )
    return tuple(
        Metric(name=name, value=100 * value, unit="%", variant=NAME) for name, value in told
    )


def curves(found: Compared) -> tuple[Series, ...]:
    """Return both times of every timestep."""
    numbers = tuple(map(float, range(len(found.measured_ms))))
    return (
        Series(label="measured", x=numbers, y=found.measured_ms),
        Series(label="simulated", x=numbers, y=found.simulated_ms),
    )


BENCHMARK = Benchmark(
    name="simulator-error",
    purpose="how far the simulator is from a real run: times of timesteps, and the cores that are needed",
    defaults={
        "interval_ms": 2_000,
        "fixed_ms": 80.0,
        "row_ms": 4.0,
        "phases": [[20, 1], [150, 2], [300, 4], [80, 4], [200, 8]],
        "phase_s": 30.0,
        "bins": 64,
        "cores": 4,
        "tasks": 1,
        "durability": "process",
        "driver_memory": "1g",
        "timeout_seconds": 600,
    },
    quick={"phase_s": 14.0},
    run=run,
    goals={"bound_10_percent": 1.0},
)
