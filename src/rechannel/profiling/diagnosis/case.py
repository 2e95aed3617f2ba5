"""What detectors look at: the facts of an application, its tasks by stage, and the replay that computes gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rechannel.profiling.diagnosis.change import Change
from rechannel.profiling.diagnosis.driver_spans import DriverSpan, driver_spans
from rechannel.profiling.diagnosis.observed import Observed, Spans, observed
from rechannel.profiling.diagnosis.replay import lengths
from rechannel.profiling.diagnosis.schedule import (
    Durations,
    Floats,
    Ints,
    Schedule,
    Variant,
    unchanged,
)
from rechannel.profiling.diagnosis.task_table import GOOD, StageKey, TaskTable
from rechannel.profiling.spark.application import Application
from rechannel.profiling.spark.driver import IDLE
from rechannel.profiling.spark.rows import TASK_STEPS
from rechannel.profiling.spark.stage_tasks import tasks_of
from rechannel.profiling.storage.blocks import Rows

WORTH = 0.03
"""Share of the run below which nothing is reported."""
LEAST = 1_000
"""ms below which nothing is reported."""
MOST_FAMILIES = 32
"""Families of stages that are looked at. There are more only if they run side by side."""


_RUN = [name for name in TASK_STEPS if name not in {"deserialization", "serialization"}]


def worth(ms: float, length: float) -> bool:
    """Return whether a gain is reported. length: of the run, ms."""
    return ms >= max(LEAST, WORTH * length)


class Gain(NamedTuple):
    """What a change gains."""

    share: float
    """Of the length of the run."""
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Family:
    """Attempts of stages with the same name: what a stream or a loop does again and again."""

    name: str
    stages: Sequence[StageKey]
    """The longest first."""
    seconds: float
    """For how long they ran, one after the other."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """An application to diagnose. What is derived from its facts is computed when it is first needed."""

    app: Application

    @cached_property
    def table(self) -> TaskTable:
        """All tasks, by stage."""
        return TaskTable.of(self.app.tasks)

    @cached_property
    def observed(self) -> Observed:
        """What was observed, as a schedule."""
        return observed(self.app, self.table)

    @cached_property
    def families(self) -> Sequence[Family]:
        """Stages of the same name that ran for at least `WORTH` of the run, the longest first."""
        seen, named = self.observed.active, dict[str, list[int]]()
        for i, key in enumerate(self.table.stages):
            stage = self.app.stages.get(key)
            named.setdefault(stage.name if stage else f"stage {key[0]}", []).append(i)
        found = []
        for name, stages in named.items():
            took = seen[stages, 1] - seen[stages, 0]
            order = np.argsort(-took, kind="stable").tolist()
            found.append(
                Family(
                    name=name,
                    stages=[self.table.stages[stages[i]] for i in order],
                    seconds=float(took.sum()) / 1_000,
                )
            )
        least = WORTH * self.length
        worth = (one for one in found if one.seconds >= least)
        return sorted(worth, key=lambda one: (-one.seconds, one.name))[:MOST_FAMILIES]

    def worth(self, gain: Gain) -> bool:
        """Return whether a gain is reported."""
        return worth(1_000 * gain.seconds, self.run_ms)

    def sum(self, stages: Sequence[StageKey], *names: str) -> float:
        """Return the sum of columns of `TaskTable.sums` over some stages."""
        at = [self.index[key] for key in stages]
        return float(sum(self.table.sums[name][at].sum() for name in names))

    def run(self, stages: Sequence[StageKey]) -> float:
        """Return how long the tasks of some stages ran, ns: without deserialising them and sending
        their results.
        """
        return self.sum(stages, *_RUN)

    @cached_property
    def run_ms(self) -> float:
        """How long the run took, ms: from its start to its end, without the time in which a session
        waited for its user. All gains are shares of it.
        """
        start, end = self._span
        return max(1.0, end - start - float((self._pauses[:, 1] - self._pauses[:, 0]).sum()))

    @property
    def length(self) -> float:
        """The same in seconds."""
        return self.run_ms / 1_000

    @cached_property
    def core_ms(self) -> float:
        """Core milliseconds that there were in that time."""
        capacity = self.observed.capacity
        paused = capacity.within(self._pauses[:, 0], self._pauses[:, 1]).sum()
        return float(capacity.within(*self._span) - paused)

    @cached_property
    def cores(self) -> float:
        """The most cores that there were at any time, as tasks use them."""
        return self.observed.capacity.most

    def job_of(self, key: StageKey) -> int | None:
        """Return the job that ran a stage; None if the log does not say."""
        number = self.observed.numbers[self.observed.schedule.job[self.observed.place[key]]]
        return number if number >= 0 else None

    def streams(self, family: Family) -> bool:
        """Return whether stages belong to batches of a stream."""
        job = self.app.jobs.get(-1 if (number := self.job_of(family.stages[0])) is None else number)
        return job is not None and (job.batch is not None or bool(job.query))

    def rows(self, key: StageKey) -> Rows:
        """Return the tasks of a stage as rows of `TASK_ROW`, in the order of the log; a sample if there
        are more than a million.
        """
        return tasks_of(self.app, *key)

    def durations(self, key: StageKey) -> Durations:
        """Return what the attempts of tasks of a stage took, in the order of their launches, ms."""
        return self.table.durations[self.table.part(self.index[key])]

    def good(self, key: StageKey) -> Durations:
        """Return the same of the attempts that were of use."""
        return self.durations(key)[self.flagged(key, GOOD)]

    def read(self, key: StageKey) -> Durations:
        """Return the bytes of input and of shuffle blocks that those attempts read."""
        part = self.table.part(self.index[key])
        return self.table.amount[part][self.flagged(key, GOOD)]

    def flagged(self, key: StageKey, flag: int) -> npt.NDArray[np.bool_]:
        """Return which attempts of tasks of a stage have a flag, in the order of their launches."""
        found: npt.NDArray[np.bool_] = (
            self.table.flags[self.table.part(self.index[key])] & flag
        ) > 0
        return found

    @cached_property
    def index(self) -> Mapping[StageKey, int]:
        """Where stages are in the table of tasks."""
        return {key: i for i, key in enumerate(self.table.stages)}

    def gain(self, change: Change) -> Gain:
        """Return what a change gains.

        Every group of jobs is replayed with and without it. The ratio of the two, times what the
        group was observed to take, is what it would take: so an error of the model that is the same
        in both cancels out. A negative gain is a loss.
        """
        schedule = self.observed.schedule
        groups = self._changed(change)
        if change.allocated:
            schedule = self._allocated(change, groups)
        took = self.observed.groups[groups, 1] - self.observed.groups[groups, 0]
        before = self.unchanged(groups)
        after = lengths(schedule, self._variant(change), groups)
        ratio = np.divide(after, before, out=np.ones(len(groups)), where=before > 0)
        saved = float((took * (1 - ratio)).sum())
        return Gain(share=saved / 1_000 / self.length, seconds=saved / 1_000)

    def with_cores(self, factor: float) -> float:
        """Return how long the run would take with other numbers of cores, seconds. Infinity leaves its
        critical path.
        """
        if factor not in self._lengths:
            self._lengths[factor] = self.length - self.gain(Change(cores=factor)).seconds
        return self._lengths[factor]

    @cached_property
    def _lengths(self) -> dict[float, float]:
        return {}

    @cached_property
    def _known(self) -> Floats:
        """How long the replay of each group of the unchanged application takes, ms; nan until it is needed."""
        return np.full(len(self.observed.groups), np.nan)

    def unchanged(self, groups: Ints) -> Floats:
        """Return how long the replay of some groups of jobs takes without a change, ms."""
        schedule, new = self.observed.schedule, groups[np.isnan(self._known[groups])]
        self._known[new] = lengths(schedule, unchanged(schedule), new)
        found: Floats = self._known[groups]
        return found

    @cached_property
    def _span(self) -> tuple[float, float]:
        """Start and end, Unix ms. A log without its beginning starts with the first event that it has."""
        groups = self.observed.groups
        last = max(self.app.end, float(groups[:, 1].max(initial=0.0)))
        begun = min((each.start for each in self.spans), default=last)
        first = self.app.start or min(begun, float(groups[:, 0].min(initial=last)))
        return float(min(first, last)), float(last)

    @cached_property
    def spans(self) -> Sequence[DriverSpan]:
        """What the driver did from the start to the end."""
        return driver_spans(self.app)

    @cached_property
    def _pauses(self) -> Spans:
        """When a session waited for its user. A stream that waits for input is running."""
        spans = [] if self.app.batches else self.spans
        found = [(one.start, one.end) for one in spans if one.kind == IDLE]
        return np.array(found, dtype=np.float64).reshape(-1, 2)

    def _changed(self, change: Change) -> Ints:
        """Return the groups of jobs in which something is different."""
        schedule, seen = self.observed.schedule, self.observed
        if change.cores != 1.0:
            return np.arange(len(schedule.jobs) - 1, dtype=np.int64)
        stages = [seen.place[key] for key in change.durations]
        jobs = schedule.job[np.array(stages, dtype=np.int64)]
        found: Ints = np.unique(np.searchsorted(schedule.jobs, jobs, side="right") - 1)
        return found

    def _allocated(self, change: Change, groups: Ints) -> Schedule:
        """Return the schedule with all cores in some groups, from the first changed stage on."""
        seen, schedule = self.observed, self.observed.schedule
        keys = np.array([self.index[key] for key in change.durations], dtype=np.int64)
        begins = np.sort(seen.active[keys, 0])
        steps, added = schedule.steps.copy(), []
        for group in groups.tolist():
            start = seen.groups[group, 0]
            begin = begins[np.searchsorted(begins, start)] - start
            rows = steps[schedule.step[group] : schedule.step[group + 1]]
            later = rows[:, 0] >= begin
            rows[later, 1] = 0.0
            added.append((begin, self.cores - rows[:, 1].sum()))
        before = np.searchsorted(groups, np.arange(len(schedule.step)))
        return schedule._replace(
            steps=np.insert(steps, schedule.step[groups + 1], added, axis=0),
            step=schedule.step + before,
        )

    def _variant(self, change: Change) -> Variant:
        """Return the change as a variant of the schedule."""
        seen = self.observed
        same = unchanged(seen.schedule)
        place, counts = same.place.copy(), same.counts.copy()
        parts, at = [same.durations], 0
        for key, durations in change.durations.items():
            place[seen.place[key]], counts[seen.place[key]] = at, len(durations)
            parts.append(np.asarray(durations, dtype=np.float32))
            at += len(durations)
        return same._replace(
            place=place, counts=counts, durations=np.concatenate(parts), cores=change.cores
        )
