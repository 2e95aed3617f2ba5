"""Runs of `ds2-nexmark` and `ds2-flink`, made up."""

from __future__ import annotations

from typing import Any

from benchmarks.ds2_flink import COUNT, FLATMAP

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
