"""A simulated day of four loads under a policy, beside an oracle that knows the load.

The engine has instances with a core each, two operators in a row, and changes that stop nothing. A daily wave, bursts
to three times the load for five minutes of every hour, noise of 10 %, and a source that stops for six hours. The oracle
has the least instances for the mean load of every policy interval, and changes for nothing. Every random load is drawn
once for each seed; the worst of the seeds counts.
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
    from rechannel.testing.scaling import Load, Story

DAY_S = 86_400.0
LOADS = ("wave", "bursts", "noise", "stop")
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


def day(name: str, seed: int, parameters: Parameters) -> Story:
    """Return the story of a day."""
    from rechannel.testing.scaling import (
        ContinuousEngine,
        Dataflow,
        Operator,
        Source,
        SteeredPolicy,
        Steering,
        policy_named,
        simulate,
        topology,
    )

    rate = parameters["instance_rate"]
    dataflow = Dataflow(
        topology=topology([("lines", "split"), ("split", "count")]),
        sources={"lines": Source(load=load_of(name, parameters["mean_rate"], seed))},
        operators={
            "split": Operator(rate=rate, selectivity={"count": 4}),
            "count": Operator(rate=2 * rate),
        },
    )
    steering = Steering(**parameters["steering"])
    named: Any = policy_named(parameters["policy"])
    chosen = replace(named, **parameters["settings"])
    policy = SteeredPolicy(policy=chosen, settings=steering)
    every_s = steering.interval_s
    return simulate(
        ContinuousEngine(dataflow), policy, until_s=parameters["seconds"], every_s=every_s
    )


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Simulate every load with every seed; the picture has the cores of the first seed over time."""
    metrics: list[Metric] = []
    series: list[Series] = []
    worst_share, worst_cores = 1.0, 0.0
    for name in LOADS:
        if bench.only and name not in bench.only:
            continue
        stories = []
        for seed in range(parameters["seeds"]):
            bench.progress.step(f"{name}, seed {seed}")
            stories.append(day(name, seed, parameters))
        shares = [100 * each.in_target(LATENCY_S) for each in stories]
        over = [each.over_oracle for each in stories]
        worst_share, worst_cores = min(worst_share, min(shares) / 100), max(worst_cores, *over)
        changes = max(len(each.changes) for each in stories)
        metrics += [
            Metric(name="time in target, least", value=min(shares), unit="%", variant=name),
            Metric(name="core-seconds over the oracle's", value=max(over), unit="x", variant=name),
            Metric(name="changes, most", value=float(changes), unit="changes", variant=name),
        ]
        first = stories[0]
        hours = tuple((first.edges_s[1:] / 3600).tolist())
        series.append(Series(label=name, x=hours, y=tuple(map(float, first.cores.tolist()))))
    return Result(
        parameters=parameters,
        metrics=tuple(metrics),
        ratios={"share_in_target": worst_share, "least_over_paid": 1 / worst_cores},
        picture=Picture(
            title=f"A day under {parameters['policy']}",
            x_label="hours",
            y_label="cores",
            series=tuple(series),
            panels=True,
        ),
    )


BENCHMARK = Benchmark(
    name="scaling-day",
    purpose="a simulated day of four loads under a scaling policy, beside an oracle that knows the load",
    defaults={
        "policy": "ds2",
        "settings": {"utilisation": 0.98, "catch_up_s": 30.0},
        "steering": {
            "interval_s": 10.0,
            "warm_up_s": 0.0,
            "down_delay_s": 40.0,
            "most_changes": 10_000,
        },
        "mean_rate": 1_000.0,
        "instance_rate": 50.0,
        "seconds": DAY_S,
        "seeds": 3,
    },
    quick={"seconds": 7_200.0, "seeds": 1},
    run=run,
    goals={"share_in_target": 0.99, "least_over_paid": 1 / 1.15},
)
