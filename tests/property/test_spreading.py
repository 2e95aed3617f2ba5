"""Tasks share the rows of keys, in random schedules of changes and crashes: results are those of one task.

`RECHANNEL_SEED=n` replays schedule n of every kind alone.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.property.spreading import KINDS, check

FAST = {"inner", "inner windows", "left near", "semi near", "asof left", "lookup left"}

NEEDED = (
    "crashed",
    "task fault",
    "spread",
    "done spread",
    "done gather",
    "done rescale",
    "done move",
    "rows of out",
    "rows of sums-out",
    "rows of state",
)


def schedules(kind: str, count: int) -> Counter[str]:
    """Some schedules of one kind of operator; what happened in them."""
    alone = os.environ.get("RECHANNEL_SEED")
    seeds = [int(alone)] if alone else range(count)
    return sum((check(kind, seed) for seed in seeds), Counter[str]())


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[] if k in FAST else pytest.mark.slow) for k in KINDS]
)
def test_a_key_in_several_tasks_has_the_rows_and_the_state_of_one(
    kind: str, thorough: bool
) -> None:
    happened = schedules(kind, 200 if thorough else 1)
    if thorough:
        missing = [name for name in NEEDED if not happened[name]]
        assert not missing, f"never happened: {missing}"
