"""Benchmarks and runs of them, made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.harness import (
    Benchmark,
    Failure,
    Picture,
    Result,
    Series,
    Variant,
    Workbench,
)
from benchmarks.process import Run

PICTURE = Picture(
    title="t", x_label="x", y_label="y", series=(Series(label="a", x=(1.0, 2.0), y=(3.0, 4.0)),)
)


class Silence:
    """Progress that nobody watches; keeps the steps."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def step(self, text: str) -> None:
        self.steps.append(text)

    def detail(self, text: str) -> None:
        pass


def bench(tmp_path: Path, only: frozenset[str] = frozenset()) -> Workbench:
    return Workbench(scratch=str(tmp_path), progress=Silence(), only=only)


def variant(name: str, function: str = "builtins:dict", **parameters: Any) -> Variant:
    return Variant(name=name, function=function, parameters=parameters)


def succeeded(name: str, measurement: dict[str, Any], memory: dict[str, int] | None = None) -> Run:
    return Run(variant=name, measurement=measurement, failure=None, memory=memory or {})


def failed(name: str) -> Run:
    failure = Failure(variant=name, reason="exit code 1", stderr_tail="it broke")
    return Run(variant=name, measurement=None, failure=failure, memory={})


def _never_run(parameters: Any, workbench: Workbench) -> Result:
    raise NotImplementedError


def benchmark(run: Any = None, **fields: Any) -> Benchmark:
    return Benchmark(
        name="toy",
        purpose="to be tested",
        defaults={"size": {"rows": 10, "keys": 5}, "rounds": 2},
        quick={"rounds": 1},
        run=run or _never_run,
        **fields,
    )


def stepped_run(v: Variant) -> dict[str, Any]:
    """A run of `batch-interval` with a timestep per second, whose interval is 500 and then 700 ms."""
    seconds = v.parameters["warmup_seconds"] + v.parameters["seconds"] * len(v.parameters["steps"])
    timesteps = [
        [n + 1, 1_000 * n, 1_000 * n + 400, 400.0, 100 * n, 100 * n + 100] for n in range(seconds)
    ]
    middle = v.parameters["warmup_seconds"] + v.parameters["seconds"] + 3
    return {
        "start_ns": 0,
        "first_interval": 500,
        "changes": [[middle, 700]],
        "timesteps": timesteps,
    }
