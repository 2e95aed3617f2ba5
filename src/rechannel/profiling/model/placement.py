"""What to place together: tasks of a job that wait for rows of another executor, moved to where these come from.

A task pulls to an executor by the critical participation of what it receives from there. It moves to the one that pulls
most, if that is another one than its own, and its operator has no more tasks there than its share of all executors; if
it has, the task there that loses least goes the other way, if both together gain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from rechannel.profiling.model.summaries import Profile
from rechannel.profiling.model.trace import DATA

LEAST = 0.01
"""The least share of the critical path for which anything is moved."""


@dataclass(frozen=True, slots=True)
class TaskSeat:
    """Where a task runs. moves: whether it can be told to run elsewhere."""

    operator: str
    task: int
    executor: str
    moves: bool


@dataclass(frozen=True, slots=True)
class Placement:
    """A task that should run elsewhere. gain: the share of the critical path of the rows that come from there."""

    operator: str
    task: int
    executor: str
    gain: float

    @property
    def place(self) -> tuple[str, int, str]:
        """What `rc.changes.place` takes."""
        return self.operator, self.task, self.executor

    @property
    def text(self) -> str:
        """What it is for."""
        if self.gain <= 0:
            return f"place {self.operator} {self.task} --executor {self.executor}: in exchange for that"
        return (
            f"place {self.operator} {self.task} --executor {self.executor}: rows that are {self.gain:.0%} of the"
            " critical path would come from its own executor"
        )


def placements(found: Profile, seats: Mapping[str, TaskSeat]) -> list[Placement]:
    """What to place elsewhere, what gains most first. seats: of workers, by their names."""
    pulls = _pulls(found, seats)
    executors = {seat.executor for seat in seats.values()}
    where = {name: seat.executor for name, seat in seats.items()}
    moved: dict[str, float] = {}

    def gain(name: str, executor: str) -> float:
        return pulls[name][executor] - pulls[name][where[name]]

    wanted = [(max(pulls[name], key=pulls[name].__getitem__), name) for name in pulls]
    for executor, name in sorted(wanted, key=lambda pair: (-gain(pair[1], pair[0]), pair[1])):
        won, own = gain(name, executor), where[name]
        if won < LEAST or name in moved:
            continue
        peers = [n for n, seat in seats.items() if seat.operator == seats[name].operator]
        there = [n for n in peers if where[n] == executor]
        if len(there) >= -(-len(peers) // len(executors)):
            others = [n for n in there if n not in moved and seats[n].moves]
            if not others:
                continue
            other = max(others, key=lambda n: (gain(n, own), n))
            if won + gain(other, own) < LEAST:
                continue
            moved[other] = gain(other, own)
            where[other] = own
        moved[name] = won
        where[name] = executor
    return list(_placements(moved, where, seats))


def _pulls(found: Profile, seats: Mapping[str, TaskSeat]) -> dict[str, dict[str, float]]:
    """By task that can be moved, and executor, CP of the rows that come from there."""
    pulls: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    data = pl.col("message") & (pl.col("kind") == found.names.kind(DATA))
    channels = found.by("worker", "peer", where=data).select("worker", "peer", "critical")
    for source, target, critical in channels.iter_rows():
        if source in seats and target in seats and seats[target].moves:
            pulls[target][seats[source].executor] += critical
    return pulls


def _placements(
    moved: Mapping[str, float], where: Mapping[str, str], seats: Mapping[str, TaskSeat]
) -> Iterator[Placement]:
    for name, won in sorted(moved.items(), key=lambda pair: (-pair[1], pair[0])):
        seat = seats[name]
        yield Placement(seat.operator, seat.task, where[name], won)
