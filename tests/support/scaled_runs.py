"""Runs of `ds2-nexmark`, `ds2-flink`, `ds2-heron`, `scale-logs`, `autopilot` and `simulator-error`, made up."""

from __future__ import annotations

from typing import Any

from benchmarks.autopilot.events import SECOND
from benchmarks.ds2_flink import COUNT, FLATMAP
from benchmarks.ds2_heron_rates import LEAST

Plan = dict[str, int]


def timesteps(plans: list[Plan], *, rows: int = 100, every_ms: int = 1_000) -> list[dict[str, Any]]:
    """One timestep for each plan, that end at equal distances."""
    return [
        {
            "number": n,
            "looked_ms": n * every_ms,
            "done_ms": (n + 2) * every_ms,
            "took_ms": 2.0 * every_ms,
            "rows": rows,
            "tasks": plan,
        }
        for n, plan in enumerate(plans)
    ]


def measured(plans: list[Plan]) -> dict[str, Any]:
    """A query from two starts, of which 28 tasks are the least."""
    runs = {str(start): {"timesteps": timesteps(plans), "decisions": []} for start in (8, 28)}
    return {"runs": runs, "offered": 100.0, "target": 276.0, "slot_rate": 10.0}


def word_count() -> dict[str, Any]:
    """A second per timestep: up at once, and down after 100 s."""
    up, high, low = ({FLATMAP: a, COUNT: b} for a, b in ((10, 5), (19, 11), (10, 6)))
    steps = timesteps([up] * 3 + [high] * 97 + [high] * 2 + [low] * 10)
    for step in steps[100:]:
        step["rows"] = 50
    return {"timesteps": steps, "decisions": [], "rate": 100.0, "slots": {FLATMAP: 5.3, COUNT: 9.3}}


def heron_run(**other: Any) -> dict[str, Any]:
    """A run: two timesteps of 80 sentences, then three of 1,600 every 9.6 s, with one decision after 20 s."""
    decided = {"outcome": "changed", "timestep": 2}
    return {
        "decisions": [decided, {"outcome": "enough", "timestep": 4}],
        "tasks": dict(LEAST),
        "rate": 1_600 / 9.6,
        "every": 1_600,
        "fixed_s": 0.4,
        "interval_s": 9.6,
        "timesteps": [
            [1, 1_000_000, 1_010_000, 80, 10_000.0],
            [2, 1_010_000, 1_020_000, 80, 10_000.0],
            [3, 1_020_000, 1_040_000, 1_600, 20_000.0],
            [4, 1_029_600, 1_049_600, 1_600, 20_000.0],
            [5, 1_039_200, 1_059_200, 1_600, 20_000.0],
        ],
        **other,
    }


def advised_run(
    ms: float, cores: int = 4, partitions: int = 3, predicted: float = 2_000.0
) -> dict[str, Any]:
    """A stream of `scale-logs`: batches of `ms`, and its advice."""
    told = {"cores": cores, "partitions": partitions, "batch_ms": predicted}
    return {
        "batches": 9,
        "measured_ms": ms,
        "advised": {**told, "low_ms": 1_500.0, "high_ms": 2_500.0},
        "stages": [{"tasks_ms": 100.0, "busy": 0.9}, {"tasks_ms": 300.0, "busy": 0.5}],
    }


def flown() -> dict[str, Any]:
    """A minute of `autopilot`, committed at its end: two executors, and no change."""
    start, rows = 1_700_000_000 * SECOND, 9_000
    return {
        "start_ns": start,
        "commits": [(0, rows, start + 61 * SECOND)],
        "executors": [(start, 2)],
        "changes": [],
        "decisions": [],
        "rows": rows,
        "views": rows,
    }


def recorded_run(*, cores: int = 4, slower: float = 1.0) -> dict[str, Any]:
    """A run of `simulator-error` that takes what the model says; from the third phase on, `slower` times that."""
    steps: list[dict[str, Any]] = []
    for phase, (rows, tasks) in enumerate([(40, 1), (300, 2), (600, 4), (160, 4), (400, 8)]):
        ms = (80.0 + 4.0 * rows / tasks) * (slower if phase > 1 else 1.0)
        turns = 2.0 + ms * -(-tasks // cores)
        operators = {
            "in": {"rows": [rows], "ms": [2.0]},
            "counts": {"rows": [rows // tasks] * tasks, "ms": [ms] * tasks},
        }
        steps += [
            {
                "phase": phase,
                "now_ms": 0,
                "took_ms": 50.0 + turns,
                "turns_ms": turns,
                "launch_ms": None,
                "operators": operators,
            }
        ] * 6
    return {"interval_ms": 2_000, "timesteps": steps}
