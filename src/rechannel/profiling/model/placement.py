"""Which tasks should run on the same executor: tasks of a job that wait for rows of another one.

An executor attracts a task by the critical participation of the messages that the task receives
from there. The task moves to the executor that attracts it most, if that is not its own and its
operator has no more tasks there than an even share. If it has, the task there that loses least
moves the other way, provided that both moves together gain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from rechannel.profiling.model.summaries import Profile
from rechannel.profiling.model.trace import DATA
from rechannel.profiling.model.words import percent

LEAST = 0.01
"""The smallest share of the critical path for which a task is moved."""


@dataclass(frozen=True, slots=True)
class TaskSeat:
    """Where a task runs."""

    operator: str
    task: int
    executor: str
    moves: bool
    """Whether the task can be placed elsewhere."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A task that should run on another executor."""

    operator: str
    task: int
    executor: str
    """The executor that it should run on."""
    gain: float
    """Share of the critical path of the rows that come from that executor."""

    @property
    def place(self) -> tuple[str, int, str]:
        """The arguments of `rc.changes.place`."""
        return self.operator, self.task, self.executor

    @property
    def text(self) -> str:
        """The change as an argument of `rechannel reconfigure`, with its reason."""
        if self.gain <= 0:
            return f"place {self.operator} {self.task} --executor {self.executor}: in exchange"
        return (
            f"place {self.operator} {self.task} --executor {self.executor}: rows that are {percent(self.gain)} of the"
            " critical path would come from its own executor"
        )


def placements(found: Profile, seats: Mapping[str, TaskSeat]) -> list[Placement]:
    """Return the tasks to place elsewhere, largest gain first. seats: by the name of the worker."""
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
    """Return CP of the rows that each movable task receives, by task and executor."""
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
