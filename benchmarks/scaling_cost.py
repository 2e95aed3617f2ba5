"""What a scaling decision costs: from the tasks that were reported to advice, for many operators of many tasks.

Operators in a row, each with `tasks` tasks in every timestep. Arrival is what the fold of the event stream needs for a
timestep, in the thread of the telemetry; it is spread over the time between timesteps. An evaluation makes the window
of the last `timesteps` timesteps, asks the policy, and steers: everything that happens once per policy interval. There
are `evaluations` windows, and each is evaluated `repeats` times from the same state. The shortest time of each window
is what an evaluation needs; the first one reads the columns of tasks that no cache of the processor holds any more.
"""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any

import numpy as np

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
    from rechannel.telemetry.events import Event
    from rechannel.telemetry.facts import TimestepProgress

TIMESTEP_MS = 2_000


def events(timestep: int, operators: int, tasks: int, random: np.random.Generator) -> list[Event]:
    """Return the events of one timestep: every operator sends what it receives to the next."""
    from rechannel.telemetry.events import TimestepCommitted, TimestepStarted
    from rechannel.telemetry.task_finished import Sent, TaskFinished

    at = timestep * TIMESTEP_MS
    said: list[Event] = [
        TimestepStarted(timestep=timestep, now_ms=at, at_ms=at, offsets={}, configuration=1)
    ]
    for place in range(operators):
        rows = random.integers(50, 150, tasks)
        took = 2.0 + rows * 0.4 * random.uniform(0.95, 1.05, tasks)
        for task in range(tasks):
            sent = Sent(
                operator=f"op{place + 1}", input=0, offered=0, rows=int(rows[task]), keys=1, bytes=1
            )
            said.append(
                TaskFinished(
                    timestep=timestep,
                    operator=f"op{place}",
                    task=task,
                    attempt="a",
                    host="h",
                    started_ms=at,
                    finished_ms=at + float(took[task]),
                    rows_in=int(rows[task]),
                    sent=(sent,) if place + 1 < operators else (),
                )
            )
    said.append(TimestepCommitted(timestep=timestep, at_ms=at + 1_500, duration_ms=1_500.0))
    return said


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Feed timesteps, and evaluate after each window."""
    from rechannel.scaling.measured import Machines, measured_windows
    from rechannel.scaling.policies.registry import policy_named
    from rechannel.scaling.policies.steering import step
    from rechannel.scaling.policies.steering_settings import Steering
    from rechannel.telemetry.progress import fold
    from rechannel.telemetry.recent_tasks import RecentTasks

    random = np.random.default_rng(1)
    length, count, tasks = parameters["timesteps"], parameters["operators"], parameters["tasks"]
    recent, state = RecentTasks(), None
    machines = Machines(executors=250, cores_per_executor=4)
    settings = Steering(warm_up_s=0.0, interval_s=0.0, roll_back=False)
    policy = policy_named(parameters["policy"])
    progress: list[TimestepProgress] = []
    arrival_us, evaluation_ms, window_ms = list[float](), list[float](), list[float]()
    first_ms = list[float]()
    looked = number = 0
    made = [events(place, count, tasks, random) for place in range(1, length + 2)]
    while len(evaluation_ms) < parameters["evaluations"]:
        bench.progress.step(f"evaluation {len(evaluation_ms) + 1}")
        for _ in range(length if progress else length + 1):
            number += 1
            said = [_moved(each, number) for each in made[number % len(made)]]
            began = time.perf_counter()
            recent.see(said)
            arrival_us.append(1e6 * (time.perf_counter() - began) / (count * tasks))
            progress = [*progress[-99:], *fold(said[:1] + said[-1:]).recent_progress]
        gc.collect()
        took = list[tuple[float, float]]()
        for _ in range(parameters["repeats"]):
            began = time.perf_counter()
            window = measured_windows(
                progress,
                recent.recent,
                length_s=length * TIMESTEP_MS / 1e3,
                after=looked,
                machines=machines,
            )[-1]
            between = time.perf_counter()
            _, after = step(settings, policy, window.seen, state)
            ended = time.perf_counter()
            took.append((1e3 * (ended - began), 1e3 * (between - began)))
        state, looked = after, window.last
        first_ms.append(took[0][0])
        evaluation_ms.append(min(each for each, _ in took))
        window_ms.append(min(each for _, each in took))
    evaluation = np.array(evaluation_ms)
    median = float(np.median(evaluation))
    return Result(
        parameters=parameters,
        metrics=tuple(
            Metric(name=name, value=value, unit=unit, variant=f"{count} x {tasks} tasks")
            for name, value, unit in (
                ("evaluation, median", median, "ms"),
                ("evaluation, p99", float(np.quantile(evaluation, 0.99)), "ms"),
                ("of it the window, median", float(np.median(window_ms)), "ms"),
                ("first evaluation, median", float(np.median(first_ms)), "ms"),
                ("arrival of a task, median", float(np.median(arrival_us)), "us"),
            )
        ),
        ratios={"bound_1_ms": 1 / median},
        picture=Picture(
            title=f"{count} operators of {tasks} tasks",
            x_label="evaluation",
            y_label="ms",
            series=(
                Series(
                    label="evaluation",
                    x=tuple(map(float, range(len(evaluation)))),
                    y=tuple(evaluation.tolist()),
                ),
            ),
        ),
    )


def _moved(event: Any, timestep: int) -> Any:
    from dataclasses import replace

    by = (timestep - event.timestep) * TIMESTEP_MS
    moved = {
        name: getattr(event, name) + by
        for name in ("at_ms", "now_ms", "started_ms", "finished_ms")
        if hasattr(event, name)
    }
    return replace(event, timestep=timestep, **moved)


BENCHMARK = Benchmark(
    name="scaling-cost",
    purpose="what a scaling decision costs, from reported tasks to advice, for many operators of many tasks",
    defaults={
        "policy": "ds2-timesteps",
        "operators": 20,
        "tasks": 1_000,
        "timesteps": 5,
        "evaluations": 40,
        "repeats": 9,
    },
    quick={"evaluations": 10, "timesteps": 2},
    run=run,
    goals={"bound_1_ms": 1.0},
)
