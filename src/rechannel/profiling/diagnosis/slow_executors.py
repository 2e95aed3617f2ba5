"""Executors that are slower than others.

Mended, their tasks take as long as tasks of the same stages elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from rechannel.profiling.diagnosis.case import Case, Gain
from rechannel.profiling.diagnosis.change import Change
from rechannel.profiling.diagnosis.schedule import Durations
from rechannel.profiling.diagnosis.task_table import COPY, GOOD, StageKey
from rechannel.profiling.diagnosis.words import duration
from rechannel.profiling.model.finding import Certainty, Evidence, Finding, Place
from rechannel.profiling.model.words import counted

SLOW = 1.6
"""How many times as long tasks of a slow executor take, at least."""
SAME_DATA = 1.3
"""How many times as many bytes as elsewhere they read, at most."""
LEAST_TASKS = 4
"""Tasks of an executor, and of others, from which on they are compared."""
LEAST_STAGE = 2
"""The same of one stage."""
LEAST_MS = 50
"""Median of a stage's tasks that are compared, at least, ms."""


@dataclass(slots=True, eq=False)
class _Compared:
    """The tasks of an executor in stages that other executors ran, too."""

    tasks: int = 0
    took: float = 0.0
    expected: float = 0.0
    """What they took, and would have taken elsewhere, ms."""
    moved: float = 0.0
    expected_moved: float = 0.0
    """Bytes that they read, and that as many tasks read elsewhere."""
    stages: list[StageKey] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """How many times as long they took."""
        return self.took / max(1.0, self.expected)

    @property
    def data(self) -> float:
        """How many times as many bytes they read."""
        return self.moved / self.expected_moved if self.expected_moved else 1.0


def slow_executor(case: Case) -> Iterator[Finding]:
    """Find executors whose tasks take longer than those of others in the same stages.

    Silent: with one executor; if its tasks read more; with fewer than `LEAST_TASKS` tasks to compare;
    if most executors are alike slow.
    """
    names = {number: name for name, number in case.app.tasks.executors.items()}
    if len(names) < 2:
        return
    for number, seen in _compared(case).items():
        if seen.tasks < LEAST_TASKS or seen.ratio < SLOW or seen.data > SAME_DATA:
            continue
        gain = case.gain(Change(durations={key: _sped(case, key, number) for key in seen.stages}))
        if case.worth(gain):
            yield _slow(case, names[number], seen, gain)


def _compared(case: Case) -> dict[int, _Compared]:
    """Return the executors, compared with the others."""
    found: dict[int, _Compared] = {}
    for family in case.families:
        for key in family.stages:
            part = case.table.part(case.index[key])
            good = (case.table.flags[part] & (GOOD | COPY)) == GOOD
            took, moved = case.table.durations[part][good], case.table.amount[part][good]
            who = case.table.executor[part][good]
            if not len(took) or np.median(took) < LEAST_MS:
                continue
            executors, counts = np.unique(who, return_counts=True)
            for number in executors[counts >= LEAST_STAGE].tolist():
                mine = who == number
                if (~mine).sum() < LEAST_STAGE:
                    continue
                seen = found.setdefault(number, _Compared())
                count = int(mine.sum())
                seen.tasks += count
                seen.took += float(took[mine].sum())
                seen.expected += count * float(np.median(took[~mine]))
                seen.moved += float(moved[mine].sum())
                seen.expected_moved += count * float(np.mean(moved[~mine]))
                seen.stages.append(key)
    return found


def _sped(case: Case, key: StageKey, executor: int) -> Durations:
    """Return what the tasks of a stage take if one executor is as fast as the others."""
    part = case.table.part(case.index[key])
    mine = case.table.executor[part] == executor
    good, took = case.flagged(key, GOOD), case.durations(key)
    ratio = max(1.0, float(np.median(took[mine & good]) / np.median(took[~mine & good])))
    return np.where(mine, took / ratio, took).astype(np.float32)


def _slow(case: Case, name: str, seen: _Compared, gain: Gain) -> Finding:
    executor = case.app.executors.get(name)
    host = executor.host if executor else ""
    on = f" on host {host}" if host else ""
    each = seen.took / seen.tasks
    return Finding(
        cause="slow-executor",
        text=(
            f"Executor {name}{on} is slow: its {counted(seen.tasks, 'task')} took {duration(each)} on average,"
            f" {seen.ratio:.1f} times as long as those of other executors in the same stages, although they read no"
            " more data."
        ),
        advice=(
            "Look at what else runs on that host, its disks and its network; set `spark.excludeOnFailure.enabled` or"
            " remove the host if it stays slow. `spark.speculation` copies the tasks that it delays."
        ),
        gain=gain.share,
        seconds=gain.seconds,
        certainty=Certainty.LIKELY,
        place=Place(executor=name, host=host, stage=seen.stages[0][0], attempt=seen.stages[0][1]),
        evidence=(
            Evidence(name="tasks", value=seen.tasks),
            Evidence(name="average task", value=each / 1_000, unit="s"),
            Evidence(name="elsewhere", value=seen.expected / seen.tasks / 1_000, unit="s"),
            Evidence(name="ratio", value=seen.ratio, unit="x"),
            Evidence(name="data read, compared with elsewhere", value=seen.data, unit="x"),
        ),
    )
