"""DS2's table 4 on Spark: six queries of NEXMark from six numbers of tasks each, over slots that wait.

A run begins with too few or too many tasks of the query's main operator, and scales itself with `AutoScale`. It counts
how often the main operator was given other tasks, whether the stream keeps its rate in the end, and what it has beyond
the least: the tasks that keep the rate by the nominal rate of a slot. All runs of a query share a session.

A slot waits for the share 1 - `own` of what a row costs nominally. The rest is for what a task costs that no operator
is useful in: its launch, its fetch, the way from one timestep to the next, and the rows that hashing gives the heaviest
task beyond the mean. DS2 does not see these costs, and is given the same share as the utilisation to aim at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.ds2_judge import Judged, fits, judged, least_tasks
from benchmarks.ds2_loads import LOADS, STARTS
from benchmarks.harness import (
    Benchmark,
    Measurement,
    Metric,
    Parameters,
    Picture,
    Result,
    Series,
    UnknownNameError,
    Variant,
    Workbench,
)
from benchmarks.trials import run_trials

ONE_STEP = 1


def on_spark(parameters: Parameters) -> Measurement:
    """Run a query from every start; see `ds2_side`, which is imported only in the process that measures."""
    from benchmarks.ds2_side import run_query

    return run_query(parameters)


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Run every query."""
    variants = [
        Variant(
            name=name,
            function="benchmarks.ds2_nexmark:on_spark",
            parameters={**parameters, "query": name},
        )
        for name in asked(parameters)
    ]
    trials = run_trials(
        variants, bench, rounds=1, timeout=parameters["timeout_seconds"], check=check
    )
    found = {name: trials.of(name)[0] for name in trials.variants}
    every = [
        (name, start, judgement(name, made, start))
        for name, made in found.items()
        for start in made["runs"]
    ]
    metrics = [
        metric
        for name, start, one in every
        for metric in (*figures(name, start, one, found[name]), *published(name, start))
    ]
    return Result(
        parameters=parameters,
        metrics=tuple(metrics),
        ratios=ratios([(one, least(found[name]), int(start)) for name, start, one in every]),
        picture=picture(found),
        failures=trials.failures,
    )


def asked(parameters: Parameters) -> list[str]:
    """The queries to run. Raises UnknownNameError."""
    unknown = [name for name in parameters["queries"] if name not in LOADS]
    if unknown:
        raise UnknownNameError(f"no query {unknown[0]!r}; known here: {', '.join(LOADS)}")
    return list(parameters["queries"])


def least(made: Measurement) -> int:
    """Return the least tasks of a query's main operator that keep its rate, by the nominal rates."""
    return least_tasks(made["target"], made["slot_rate"])


def judgement(name: str, made: Measurement, start: str) -> Judged | None:
    """Return how the run from a start went; None if too little of it was under its last plan."""
    try:
        return judged(made["runs"][start]["timesteps"], LOADS[name].main, made["offered"])
    except ValueError:
        return None


def figures(name: str, start: str, one: Judged | None, made: Measurement) -> Iterator[Metric]:
    """Yield the figures of one run."""
    variant = f"{name} from {start}"
    fewest = least(made)
    yield Metric(name="settled", value=float(one is not None), unit="runs", variant=variant)
    if one is None:
        return
    yield Metric(name="steps", value=one.steps, unit="steps", variant=variant)
    yield Metric(name="tasks", value=one.last, unit="tasks", variant=variant)
    yield Metric(name="tasks, least", value=fewest, unit="tasks", variant=variant)
    yield Metric(name="rate kept", value=100 * one.rate, unit="%", variant=variant)
    yield Metric(name="settled after", value=one.settled_s, unit="s", variant=variant)


def published(name: str, start: str) -> Iterator[Metric]:
    """Yield the paper's figures of the same run, if it has one."""
    path = LOADS[name].steps.get(int(start))
    variant = f"{name} from {start}"
    if path is not None:
        yield Metric(name="steps, Flink", value=len(path), unit="steps", variant=variant)
        yield Metric(name="tasks, Flink", value=path[-1], unit="tasks", variant=variant)


def ratios(every: list[tuple[Judged | None, int, int]]) -> dict[str, float]:
    """Return the share of runs that did as asked. every: how a run went, the least tasks, and where it began.

    A run that begins where it should end needs no step; one that was not settled did nothing as asked.
    """
    if not every:
        return {}
    done = [(one, fewest, start) for one, fewest, start in every if one is not None]
    one_step = [
        one.steps == ONE_STEP or (one.steps == 0 and fits(start, fewest))
        for one, fewest, start in done
    ]
    return {
        "bound_one_step": sum(one_step) / len(every),
        "bound_least_tasks": sum(fits(one.last, fewest) for one, fewest, _ in done) / len(every),
        "bound_rate": sum(one.kept for one, _, _ in done) / len(every),
    }


def picture(found: Mapping[str, Measurement]) -> Picture:
    """Draw the main operator's tasks over timesteps, a panel for each query; of the run from the fewest tasks."""
    series = []
    for name, made in found.items():
        start = min(made["runs"], key=int)
        steps: list[Any] = made["runs"][start]["timesteps"]
        began_ms = steps[0]["looked_ms"]
        x = tuple((each["done_ms"] - began_ms) / 1e3 for each in steps)
        y = tuple(float(each["tasks"][LOADS[name].main]) for each in steps)
        series.append(Series(label=f"{name} from {start}", x=x, y=y))
    return Picture(
        title="NEXMark over slots that wait: tasks of the main operator",
        x_label="seconds",
        y_label="tasks",
        series=tuple(series),
        panels=True,
    )


def check(variant: Variant, made: Measurement) -> None:
    """Raise ValueError for a query of which every run was too short to be judged."""
    if all(judgement(variant.name, made, start) is None for start in made["runs"]):
        raise ValueError(f"{variant.name}: no run was settled in time")


BENCHMARK = Benchmark(
    name="ds2-nexmark",
    purpose="queries of NEXMark that find their tasks from six starts each, beside DS2 on Flink",
    defaults={
        "queries": list(LOADS),
        "starts": list(STARTS),
        "scale": 1.0,
        "short": 0.4,
        "own": 0.15,
        "interval_ms": 4_000,
        "slack": 0.02,
        "quiet": 4,
        "warm": 3,
        "most_seconds": 150,
        "scaled": True,
        "policy": "ds2",
        "steering": {
            "interval_s": 4.0,
            "warm_up_s": 3.5,
            "down_delay_s": 0.0,
            "ignore_down": 1,
            "roll_back": False,
        },
        "bins": 1_680,
        "cores": 44,
        "tasks": 1,
        "durability": "process",
        "driver_memory": "2g",
        "timeout_seconds": 1_800,
    },
    quick={"queries": ["q1", "q11"], "starts": [16]},
    run=run,
    goals={"bound_one_step": 1.0, "bound_least_tasks": 1.0, "bound_rate": 1.0},
)
