"""A simulated day of four loads under a policy, beside an oracle that knows the load, on both kinds of engine.

Two operators in a row, and a daily wave, bursts to three times the load for five minutes of every hour, noise of 10 %,
and a source that stops for six hours. `continuous`: instances with a core each, and changes that stop nothing.
`micro-batches`: timesteps on executors of one core, which arrive `startup_s` after they were requested; a timestep
reads at most what `most_rate` brings in an interval. The oracle has the least instances, or executors, for the mean
load of every policy interval, at once and for nothing. Every random load is drawn once for each seed; the worst counts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

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
    from rechannel.testing.scaling import Engine, Load, Story

DAY_S = 86_400.0
LOADS = ("wave", "bursts", "noise", "stop")
RANDOM = ("bursts", "noise")
EDGES = [("lines", "split"), ("split", "count")]
LATENCY_S = 10.0


def load_of(name: str, mean: float, seed: int) -> Load:
    """Return a load, in records per second."""
    from rechannel.testing.scaling import Bursts, Constant, Noise, Stopped, Wave

    match name:
        case "wave":
            return Wave(mean=mean, swing=0.6 * mean)
        case "bursts":
            return Bursts(load=Constant(rate=mean), seed=seed)
        case "noise":
            return Noise(load=Constant(rate=mean), seed=seed)
        case _:
            return Stopped(load=Constant(rate=mean), from_s=DAY_S / 4, until_s=DAY_S / 2)


def continuous(load: Load, given: Parameters) -> Engine:
    """Return an engine whose instances have a core each."""
    from rechannel.testing.scaling import ContinuousEngine, Dataflow, Operator, Source, topology

    rate = given["instance_rate"]
    dataflow = Dataflow(
        topology=topology(EDGES),
        sources={"lines": Source(load=load)},
        operators={
            "split": Operator(rate=rate, selectivity={"count": 4}),
            "count": Operator(rate=2 * rate),
        },
    )
    return ContinuousEngine(dataflow)


def micro_batches(load: Load, given: Parameters) -> Engine:
    """Return an engine of timesteps, whose rows cost what they cost the other engine."""
    from rechannel.testing.scaling import (
        BatchOperator,
        Cluster,
        Dataflow,
        MicroBatchEngine,
        Pace,
        Source,
        topology,
    )

    row_ms, fixed_ms = 1e3 / given["instance_rate"], given["fixed_ms"]
    dataflow = Dataflow(
        topology=topology(EDGES),
        sources={"lines": Source(load=load, limit=given["most_rate"])},
        operators={
            "split": BatchOperator(row_ms=row_ms, fixed_ms=fixed_ms, selectivity={"count": 4}),
            "count": BatchOperator(row_ms=row_ms / 2, fixed_ms=fixed_ms),
        },
    )
    pace = Pace(
        interval_ms=given["interval_ms"], driver_ms=given["driver_ms"], launch_ms=given["launch_ms"]
    )
    count: int = given["executors"]
    cluster = Cluster(startup_s=given["startup_s"])
    tasks = dict.fromkeys(dataflow.operators, count)
    return MicroBatchEngine(dataflow, pace, tasks, executors=count, cluster=cluster)


ENGINES = {"continuous": continuous, "micro-batches": micro_batches}


def day(name: str, seed: int, kind: str, parameters: Parameters) -> Story:
    """Return the story of a day on a kind of engine."""
    from rechannel.testing.scaling import SteeredPolicy, Steering, policy_named, simulate

    given = parameters["engines"][kind]
    steering = Steering(**given["steering"])
    named: Any = policy_named(given["policy"])
    policy = SteeredPolicy(policy=replace(named, **given["settings"]), settings=steering)
    engine = ENGINES[kind](load_of(name, parameters["mean_rate"], seed), given)
    return simulate(engine, policy, until_s=parameters["seconds"], every_s=steering.interval_s)


def told(label: str, stories: list[Story]) -> tuple[tuple[Metric, ...], Series]:
    """Return the worst figures of the seeds of a load, and the cores of the first over time."""
    shares = [100 * each.in_target(LATENCY_S) for each in stories]
    over = [each.over_oracle for each in stories]
    changes = max(len(each.changes) for each in stories)
    hours = tuple((stories[0].edges_s[1:] / 3600).tolist())
    cores = tuple(map(float, stories[0].cores.tolist()))
    return (
        Metric(name="time in target, least", value=min(shares), unit="%", variant=label),
        Metric(name="core-seconds over the oracle's", value=max(over), unit="x", variant=label),
        Metric(name="changes, most", value=float(changes), unit="changes", variant=label),
    ), Series(label=label, x=hours, y=cores)


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Simulate every load with every seed on both engines."""
    metrics: list[Metric] = []
    series: list[Series] = []
    ratios: dict[str, float] = {}
    for kind in ENGINES:
        share, over = 1.0, 0.0
        for name in LOADS:
            if bench.only and name not in bench.only and kind not in bench.only:
                continue
            stories = []
            for seed in range(parameters["seeds"] if name in RANDOM else 1):
                bench.progress.step(f"{kind}, {name}, seed {seed}")
                stories.append(day(name, seed, kind, parameters))
            found, curve = told(f"{name}, {kind}", stories)
            metrics += found
            series.append(curve)
            share = min(share, found[0].value / 100)
            over = max(over, found[1].value)
        if over:
            ratios |= {f"share_in_target_{kind}": share, f"least_over_paid_{kind}": 1 / over}
    return Result(
        parameters=parameters,
        metrics=tuple(metrics),
        ratios=ratios,
        picture=Picture(
            title="A day under a policy",
            x_label="hours",
            y_label="cores",
            series=tuple(series),
            panels=True,
        ),
    )


STEERING = {"warm_up_s": 0.0, "down_delay_s": 40.0, "most_changes": 100_000}

BENCHMARK = Benchmark(
    name="scaling-day",
    purpose="a simulated day of four loads under a scaling policy, beside an oracle that knows the load",
    defaults={
        "engines": {
            "continuous": {
                "policy": "ds2",
                "settings": {"utilisation": 0.98, "catch_up_s": 30.0},
                "steering": {"interval_s": 10.0} | STEERING,
                "instance_rate": 50.0,
            },
            "micro-batches": {
                "policy": "ds2-timesteps",
                "settings": {"utilisation": 0.97, "catch_up_s": 20.0},
                "steering": {"interval_s": 5.0} | STEERING,
                "instance_rate": 50.0,
                "interval_ms": 2_000.0,
                "driver_ms": 50.0,
                "launch_ms": 0.5,
                "fixed_ms": 5.0,
                "executors": 60,
                "startup_s": 10.0,
                "most_rate": 4_000.0,
            },
        },
        "mean_rate": 1_000.0,
        "seconds": DAY_S,
        "seeds": 3,
    },
    quick={"seconds": 7_200.0, "seeds": 1},
    run=run,
    goals={
        goal: figure
        for kind in ENGINES
        for goal, figure in (
            (f"share_in_target_{kind}", 0.99),
            (f"least_over_paid_{kind}", 1 / 1.15),
        )
    },
)
