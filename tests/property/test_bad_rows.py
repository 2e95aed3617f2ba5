"""Bounds on bad rows: whatever happens to drivers, tasks and Configurations, the same timestep is one too many.

The twin adds up, for each timestep, what it and the timesteps before it hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest

import rechannel as rc
from rechannel.errors import RefusedError, TooManyBadRowsError
from rechannel.model.bad_rows import AtMost
from rechannel.settings import Settings
from rechannel.testing import Crash, Fault, FaultKind, Harness, script

Timesteps = list[list[bool]]
"""By timestep, whether each of its rows is bad."""


def first_too_many(timesteps: Timesteps, bound: AtMost) -> int | None:
    """The number of the first timestep that must not be committed."""
    for number in range(1, len(timesteps) + 1):
        window = [bad for rows in timesteps[:number][-bound.timesteps :] for bad in rows]
        rows, bad = len(window), sum(window)
        if bound.rows is not None and bad > bound.rows:
            return number
        if (
            bound.percent is not None
            and rows >= bound.min_rows
            and bad / rows > bound.percent / 100
        ):
            return number
    return None


def random_bound(rng: Random) -> AtMost:
    if rng.random() < 0.5:
        return rc.at_most(rows=rng.randrange(1, 8), timesteps=rng.choice((1, 2, 4)))
    percent, least = rng.choice((10, 25, 50)), rng.choice((1, 10))
    return rc.at_most(percent=percent, timesteps=rng.choice((1, 3, 5)), min_rows=least)


def flows(source: Any, bound: AtMost, *, stateful: bool) -> list[Any]:
    rows = rc.read().memory(source, name="in")
    if stateful:
        keyed = rows.key_by("k")
        judged = keyed.track(kept, state="n BIGINT", name="judge", on_error=bound)
    else:
        judged = rows.map(checked, "k INT", name="judge", on_error=bound)
    out = judged.write.memory("out", name="out")
    return [out, rc.dead_letters(out).write.memory("dead", name="dead")]


def checked(row: Any) -> int:
    if row.bad:
        msg = f"{row.k} is bad"
        raise ValueError(msg)
    return row.k


def kept(key: Any, state: Any, rows: Any) -> int:
    if any(rows["bad"]):
        msg = f"{key} is bad"
        raise ValueError(msg)
    return (state or 0) + len(rows["bad"])


def faults(rng: Random) -> Iterator[Fault | None]:
    while True:
        yield Fault(kind=rng.choice(list(FaultKind)[1:3])) if rng.random() < 0.03 else None


def task_faults(rng: Random) -> Any:
    def fault(operator: str, timestep: int, task: int, attempt: int) -> str | None:
        return rng.choice(("crash", "duplicate")) if not attempt and rng.random() < 0.1 else None

    return fault


class Disturbed:
    """A job that is stopped, killed and changed at random. happened: how often."""

    def __init__(self, rng: Random, harness: Harness, *, stateful: bool) -> None:
        self.rng, self.harness, self.stateful = rng, harness, stateful
        self.crashes = 0

    def until_idle(self) -> None:
        """Run all input. Raises TooManyBadRowsError."""
        while True:
            try:
                if not self.harness.started or self.rng.random() < 0.2:
                    self.start()
                if self.rng.random() < 0.3:
                    with suppress(RefusedError):  # it is as asked for already
                        self.harness.process.reconfigure(self.change())
                self.harness.process.run()
            except Crash:
                self.crashes += 1
                self.start()
            else:
                return

    def start(self) -> None:
        rng = self.rng
        settings = Settings(
            tasks=2, bins=8, in_flight=rng.choice((1, 3)), snapshot_every=rng.choice((1, 2, 50))
        )
        while True:
            try:
                self.harness.start(
                    faults=faults(rng), task_faults=task_faults(rng), settings=settings
                )
            except Crash:
                self.crashes += 1
            else:
                return

    def change(self) -> Any:
        if self.stateful and self.rng.random() < 0.7:
            return rc.changes.rescale("judge", self.rng.randrange(1, 5))
        return rc.changes.set_in_flight(self.rng.randrange(1, 4))


def run(seed: int) -> tuple[int | None, int]:
    """Compare one schedule with the twin. Returns the timestep that was one too many, and how many drivers died."""
    rng = Random(seed)
    bound, stateful = random_bound(rng), rng.random() < 0.5
    share = rng.choice((0.02, 0.1, 0.3))
    timesteps = [
        [rng.random() < share for _ in range(rng.randrange(1, 12))]
        for _ in range(rng.randrange(3, 10))
    ]
    source = script("k INT, bad BOOLEAN")
    harness = Harness(flows(source, bound, stateful=stateful))
    disturbed = Disturbed(rng, harness, stateful=stateful)
    disturbed.start()
    for rows in timesteps:
        source.push([{"k": k, "bad": bad} for k, bad in enumerate(rows)])
    expected = first_too_many(timesteps, bound)
    if expected is None:
        disturbed.until_idle()
        assert harness.journal_state().last_committed == len(timesteps)
    for _ in range(2 if expected else 0):
        with pytest.raises(TooManyBadRowsError, match=f"operator 'judge', timestep {expected}: "):
            disturbed.until_idle()
        assert (harness.journal_state().last_committed or 0) == expected - 1
        disturbed.start()
    return expected, disturbed.crashes


def test_a_bound_stops_every_schedule_at_the_same_timestep(thorough: bool) -> None:
    outcomes = [run(seed) for seed in range(600 if thorough else 16)]
    stopped = [expected for expected, _ in outcomes if expected]
    assert 0 < len(stopped) < len(outcomes)
    assert max(stopped) > 1
    assert sum(crashes for _, crashes in outcomes) > 0
