"""Many schedules on many processes, and what has to have happened in them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TypeAlias

PIECE = 10
"""Schedules that a process runs between two words to its parent."""
BRIEFLY = 0.9
"""The share of what is needed that has to happen in a brief run."""
FAULTS = ("before", "after", "twice", "late")

Schedule: TypeAlias = Callable[[int], "Counter[str]"]
"""Of a seed: how often each thing happened."""


def check_schedules(
    schedule: Schedule,
    seeds: Sequence[int],
    needed: Sequence[str],
    workers: ProcessPoolExecutor,
    faults: Sequence[str] = FAULTS,
    *,
    brief: bool = False,
) -> None:
    """Run them all, or only the one of `RECHANNEL_SEED`; fail where one does, or something never happened.

    faults: of tasks, each of which has to have been injected as often as it was planned.
    brief: so few schedules that the rarest of what is needed may be missing (`BRIEFLY`).
    """
    alone = os.environ.get("RECHANNEL_SEED")
    if alone:
        _run(schedule, [int(alone)])
        return
    pieces = [seeds[start : start + PIECE] for start in range(0, len(seeds), PIECE)]
    happened = sum(workers.map(partial(_run, schedule), pieces), Counter[str]())
    assert happened["schedules"] == len(seeds)
    for kind in faults:
        assert happened[f"injected {kind}"] == happened[f"planned {kind}"] > 0
    missing = [name for name in needed if not happened[name]]
    allowed = (1 - BRIEFLY) * len(needed) if brief else 0
    assert len(missing) <= allowed, f"never happened: {missing}"


def _run(schedule: Schedule, seeds: Sequence[int]) -> Counter[str]:
    happened: Counter[str] = Counter()
    for seed in seeds:
        try:
            happened += schedule(seed)
        except Exception as error:
            msg = f"schedule {seed} fails; RECHANNEL_SEED={seed} replays it"
            raise AssertionError(msg) from error
    return happened
