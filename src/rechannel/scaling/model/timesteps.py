"""What parallelism means where operators take turns: cores and tasks of a micro-batch engine.

A timestep comes every T milliseconds and brings operator i  n_i = target rate * T  rows. Its p_i tasks take together
p_i f_i + n_i r_i  milliseconds of cores (f: fixed part of a task, r: part of a row, see `costs.py`). The heaviest of
them receives the share h_i / p_i of the rows (h = 1: all are equal), and the driver starts tasks one by one, d
milliseconds each. On C cores the operator's turn takes

    S_i(p) = ceil(p / C) (f_i + n_i r_i h_i / p) + d p

With up to C tasks, more tasks make a turn shorter up to p = sqrt(n r h / d); with more than C, each is paid for and
nothing is gained. So the shortest turn has  p_i* = min(C, sqrt(n_i r_i h_i / d))  tasks, rounded to the better
neighbour, and the shortest timestep is the sum of the turns plus what the driver needs for itself, D.

An interval is kept at a utilisation u if, with k timesteps in flight,

    D + sum_i S_i <= k u T      each timestep is done before the k-th after it begins
    S_i           <= u T        an operator runs its timesteps one after the other
    sum_i (p_i f_i + n_i r_i) <= u T C      the cores do the work

The least number of cores is the least C for which the tasks p_i* satisfy all three (`cores.py` finds it; S_i falls with
C up to p_i*). With T given, this is what DS2 computes where f = d = D = 0 and every task has a core of its own:
p_i = n_i r_i / (u T) = target rate / true rate, and the cores are their sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from rechannel.errors import RefusedError
from rechannel.scaling.model.costs import TaskCost
from rechannel.scaling.model.optimal import SLACK

NEGLIGIBLE_MS = 1e-9
"""To launch a task in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one operator has to do in every timestep."""

    rate: float
    """Rows per second that arrive."""
    cost: TaskCost
    heaviest: float = 1.0
    """Rows of the heaviest task over the mean of the tasks."""
    most_tasks: int = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What the timesteps have to keep."""

    interval_ms: float
    utilisation: float = 0.8
    """Share of the interval that may be used."""
    in_flight: int = 1
    """Timesteps that may run at the same time."""
    driver_ms: float = 0.0
    """What the driver needs for a timestep, tasks apart."""
    launch_ms: float = 0.0
    """What the driver needs for each task."""

    def __post_init__(self) -> None:
        """Check that it makes sense. Raises RefusedError."""
        given = (self.interval_ms, self.driver_ms, self.launch_ms)
        if not all(map(math.isfinite, given)) or self.interval_ms <= 0 or min(given) < 0:
            raise RefusedError(f"{self}: give finite times, and an interval above 0 ms")
        if not 0 < self.utilisation <= 1 or self.in_flight < 1:
            raise RefusedError(
                f"{self}: give 0 < utilisation <= 1, and at least one timestep in flight"
            )

    @property
    def room_ms(self) -> float:
        """Milliseconds of an interval that may be used."""
        return self.utilisation * self.interval_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What a number of cores can do."""

    cores: int
    tasks: Mapping[str, int]
    turns_ms: Mapping[str, float]
    """How long each operator's turn takes."""
    timestep_ms: float
    work_ms: float
    """Milliseconds of cores in a timestep."""
    keeps: bool
    """Whether the interval is kept at the utilisation."""
    binds: str
    """What is nearest to its bound: "cores", "timestep", or the name of an operator."""
    used: float
    """Share of that bound that is used: above 1 if the interval is not kept."""


def turn_ms(turn: Turn, pace: Pace, tasks: int, cores: int) -> float:
    """Return how long a turn takes, in milliseconds."""
    work = turn.rate / 1e3 * pace.interval_ms * turn.cost.row_ms * turn.heaviest
    waves = math.ceil(tasks / cores)
    return waves * (turn.cost.fixed_ms + work / tasks) + pace.launch_ms * tasks


def best_tasks(turn: Turn, pace: Pace, cores: int) -> int:
    """Return the number of tasks of the shortest turn."""
    most = min(cores, turn.most_tasks)
    work = turn.rate / 1e3 * pace.interval_ms * turn.cost.row_ms * turn.heaviest
    if not work:
        return 1
    if pace.launch_ms < NEGLIGIBLE_MS:
        return most
    best = math.sqrt(work / pace.launch_ms)
    around = {min(max(1, math.floor(best)), most), min(max(1, math.ceil(best)), most)}
    return min(around, key=lambda tasks: (turn_ms(turn, pace, tasks, cores), tasks))


def fit(turns: Mapping[str, Turn], pace: Pace, cores: int) -> Fit:
    """Return the shortest timestep on a number of cores, and whether it keeps the interval."""
    tasks = {name: best_tasks(turn, pace, cores) for name, turn in turns.items()}
    return fit_of(turns, pace, cores, tasks)


def fit_of(turns: Mapping[str, Turn], pace: Pace, cores: int, tasks: Mapping[str, int]) -> Fit:
    """Return what a number of cores does with given tasks of each operator."""
    took = {name: turn_ms(turn, pace, tasks[name], cores) for name, turn in turns.items()}
    rows = pace.interval_ms / 1e3
    work = sum(
        tasks[name] * turn.cost.fixed_ms + rows * turn.rate * turn.cost.row_ms
        for name, turn in turns.items()
    )
    whole = pace.driver_ms + sum(took.values())
    room = pace.room_ms
    used = {name: ms / room for name, ms in took.items()}
    used |= {"timestep": whole / (pace.in_flight * room), "cores": work / (room * cores)}
    binds = max(used, key=lambda name: used[name])
    return Fit(
        cores=cores,
        tasks=tasks,
        turns_ms=took,
        timestep_ms=whole,
        work_ms=work,
        keeps=used[binds] <= 1 + SLACK,
        binds=binds,
        used=used[binds],
    )
