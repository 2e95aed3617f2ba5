"""Stages whose work is cut into the wrong number of tasks: fewer than cores, one more than cores, or far too many.

Mended, a stage with too few tasks has its work cut evenly into a multiple of the cores; a stage with
too many tiny tasks has it merged into twice as many tasks as there are cores. Each task keeps a
fixed cost: what the log says is not the work itself (deserialisation, scheduling, returning the
result); of tiny tasks, all that does not grow with the bytes that they read, by linear regression,
and of those that write a file of a few rows each, all that is not CPU time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf

import numpy as np

from rechannel.profiling.diagnosis.case import Case, Gain
from rechannel.profiling.diagnosis.change import Change
from rechannel.profiling.diagnosis.schedule import Durations
from rechannel.profiling.diagnosis.stage_names import alike, called, place_of
from rechannel.profiling.diagnosis.stream_pace import waits
from rechannel.profiling.diagnosis.task_table import GOOD, StageKey
from rechannel.profiling.diagnosis.words import duration
from rechannel.profiling.model.finding import Certainty, Evidence, Finding
from rechannel.profiling.model.trace import MS
from rechannel.profiling.model.words import counted, percent
from rechannel.profiling.spark.application import Stage
from rechannel.profiling.spark.driver import lists_files

LONG_MS = 500
"""Median of the tasks of a stage that is worth cutting up, ms."""
REQUESTED_MS = 30_000
"""The same if dynamic allocation would have to start executors for more tasks, ms."""
EVEN = 2.0
"""How many times as long as their median the longest task is, at most, if tasks are too few and not uneven."""
BUSY = 0.7
"""Share of the cores' time in which they work on a stage, at least, if its tasks fit the cores."""
SHARED = 0.2
"""Share of a stage's time in which others may run, at most, if cores are idle because of its tasks."""
TINY_MS = 200
"""Median of the tasks of a stage that are too many, at most, ms."""
MANY = 8
"""Tasks for each core that are too many, if they are tiny."""
COST = 0.5
"""Share of a fixed cost in the time of tasks that are too many, at least."""
MOST_SPLIT = 1 << 12
"""Tasks into which a stage is cut at most: finer ones gain next to nothing."""
MERGED = 2
"""Tasks for each core, after tiny ones are merged."""
FEW_ROWS = 100
"""Rows of a file, at most, that takes longer to create than to fill."""
_WRITES = ("WriteFiles", "Execute InsertInto")
"""What the nodes that write files begin with."""

_SETTINGS = "spark.sql.shuffle.partitions"
_OF_SCHEMAS = re.compile(
    r"parallelize > mapPartitions(?: \((?:load|orc|parquet|sql|table|createOrReplaceTempView) at .*\))?"
)
"""Matches names of stages in which Spark reads the schemas of files, for a program that opens them."""


def too_few(case: Case) -> Iterator[Finding]:
    """Find stages that leave cores idle because of the number of their tasks.

    Silent: in streams that wait between their batches; if tasks are short or uneven (which is skew),
    or failed; in later attempts of a stage, which run what is missing; if other stages run at the
    same time; if Spark decides on the number of tasks, as where it reads schemas; if a stage has at
    least as many tasks as there are cores, and the cores are busy for most of its time.
    """
    for family in case.families:
        if waits(case, family):
            continue
        mended = {key: new for key in family.stages if (new := split(case, key)) is not None}
        if not mended:
            continue
        allocated = all(_requests(case, key) for key in mended)
        gain = case.gain(Change(durations=mended, allocated=allocated))
        if case.worth(gain):
            yield _few(case, list(mended), gain, streams=case.streams(family))


def split(case: Case, key: StageKey) -> Durations | None:
    """Return the tasks of a stage, cut into twice as many as there are cores or more; None if they fit."""
    good = case.good(key)
    cores = cores_then(case, key)
    if key[1] or not len(good) or float(np.median(good)) < LONG_MS:
        return None
    if good.max() > EVEN * np.median(good) or (len(good) >= cores and busy(case, key) >= BUSY):
        return None
    stage = case.app.stages.get(key)
    if stage is not None and _OF_SCHEMAS.fullmatch(stage.name):
        # Spark decides on their number, and most of their time is the first use of classes.
        return None
    if len(good) < len(case.durations(key)) or not alone(case, key):
        # What failed and was done again kept cores idle, or occupied them; so do other stages.
        return None
    fixed = min(fixed_cost(case, key), float(good.min()))
    count = min(ceil(cores) * ceil(2 * max(1.0, len(good) / cores)), MOST_SPLIT + len(good))
    work = float((good - fixed).sum())
    return np.full(count, work / count + fixed, dtype=np.float32)


def cores_then(case: Case, key: StageKey) -> float:
    """Return the number of cores that a stage could use: the most that there were while it ran, or
    that there ever were if more tasks would have requested more executors.
    """
    if _requests(case, key):
        return max(1.0, case.cores)
    start, end = case.observed.active[case.index[key]].tolist()
    return max(1.0, case.observed.capacity.peak(start, end - 1))


def _requests(case: Case, key: StageKey) -> bool:
    """Return whether dynamic allocation would start executors for more tasks of a stage in time."""
    good = case.good(key)
    return case.app.dynamic and bool(len(good)) and float(np.median(good)) >= REQUESTED_MS


def busy(case: Case, key: StageKey) -> float:
    """Return the share of the cores' time in which they worked on a stage while it ran."""
    start, end = case.observed.active[case.index[key]].tolist()
    took = float(case.good(key).sum())
    return took / max(1.0, float(case.observed.capacity.within(start, end)))


def alone(case: Case, key: StageKey) -> bool:
    """Return whether hardly any other stage ran while a stage did."""
    seen, schedule = case.observed, case.observed.schedule
    group = int(np.searchsorted(schedule.jobs, schedule.job[seen.place[key]], side="right")) - 1
    first, last = schedule.stages[schedule.jobs[[group, group + 1]]]
    spans = seen.active[seen.of_table[first:last]]
    start, end = seen.active[case.index[key]]
    shared = np.clip(np.minimum(spans[:, 1], end) - np.maximum(spans[:, 0], start), 0, None)
    return bool(shared.sum() <= (1 + SHARED) * (end - start))


def fixed_cost(case: Case, key: StageKey) -> float:
    """Return what a task of a stage costs on average that is not its work, ms."""
    rest = max(0.0, case.sum([key], "lasted") - case.run([key]))
    return rest / MS / max(1, len(case.durations(key)))


def _few(case: Case, stages: Sequence[StageKey], gain: Gain, *, streams: bool) -> Finding:
    key = stages[0]
    good, cores = case.good(key), cores_then(case, key)
    few = len(good) < cores
    median = float(np.median(good))
    waves = ceil(len(good) / cores)
    idle = 1 - busy(case, key)
    if few:
        many = len(good) > 1
        each = f"{'they run' if many else 'it runs'}, {duration(median)}{' each' if many else ''}"
        others = "the other cores are idle"
        if _requests(case, key):
            others = "dynamic allocation gives the other cores back, or does not request them,"
        about = f"has {counted(len(good), 'task')} for {cores:.0f} cores: {others} while {each}"
    else:
        last = len(good) - int(cores) * (waves - 1)
        about = (
            f"has {len(good)} tasks of {duration(median)} for {cores:.0f} cores: in the last of its {waves} waves"
            f" {counted(last, 'task runs', 'tasks run')}, so that cores are idle for {percent(idle)} of its time"
        )
    return Finding(
        cause="too-few-partitions" if few else "idle-cores",
        text=f"{called(case, key)}{alike(stages)} {about}.",
        advice=_cut(case, case.app.stages.get(key), len(good), cores, streams=streams),
        gain=gain.share,
        seconds=gain.seconds,
        certainty=Certainty.LIKELY,
        place=place_of(case, key),
        evidence=(
            Evidence(name="tasks", value=len(good)),
            Evidence(name="cores", value=cores),
            Evidence(name="median task", value=median / 1_000, unit="s"),
            Evidence(name="idle cores", value=100 * idle, unit="%"),
            Evidence(name="on twice as many cores", value=case.with_cores(2.0), unit="s"),
            Evidence(name="on half as many cores", value=case.with_cores(0.5), unit="s"),
        ),
    )


def _cut(case: Case, stage: Stage | None, tasks: int, cores: float, *, streams: bool) -> str:
    """Return how a stage gets more tasks."""
    target, asked = ceil(2 * cores), case.app.settings.get(_SETTINGS, "200")
    nodes = "" if stage is None else " ".join(stage.nodes) or stage.name
    if "Window" in nodes and tasks == 1:
        return "Give the window a PARTITION BY: without one, a single task has all rows."
    if stage is not None and any("SinglePartition" in each for each in stage.details):
        return (
            "Avoid what needs all rows in one task, such as coalesce(1) or a global limit:"
            f" {target} tasks would do."
        )
    if streams:
        return (
            f"Let the source make at least {target} partitions (Kafka: `minPartitions`, or more partitions of the"
            " topic; files: more of them in a batch), or repartition after reading. State has as many partitions as"
            f" `{_SETTINGS}` ({asked} now) had when the checkpoint was made: change it with a new checkpoint."
        )
    if "Scan" in nodes:
        return (
            f"Lower `spark.sql.files.maxPartitionBytes`, or repartition after reading, for at least {target} tasks;"
            " a compressed text file, or a Parquet file of one row group, has to be written as several."
        )
    if "Exchange" in nodes:
        return (
            f"Ask for at least {target} partitions: in repartition or coalesce, or with `{_SETTINGS}` ({asked} now);"
            " if adaptive execution merged them, lower `spark.sql.adaptive.advisoryPartitionSizeInBytes`."
        )
    return f"Ask for a multiple of {cores:.0f} partitions, {target} at least, where the data is made or read."


def too_many(case: Case) -> Iterator[Finding]:
    """Find stages of many tiny tasks, most of whose time is what each task costs.

    Silent: if the median of the tasks is not below `TINY_MS`; with fewer than `MANY` tasks for each
    core; if fixed costs are less than `COST` of the tasks' time; if tasks read files, or list them.
    """
    for family in case.families:
        mended = {key: new for key in family.stages if (new := merged(case, key)) is not None}
        if not mended:
            continue
        gain = case.gain(Change(durations={key: new.tasks for key, new in mended.items()}))
        if case.worth(gain):
            yield _many(case, mended, gain)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Merged:
    """Tiny tasks, merged."""

    tasks: Durations
    cost: float
    """What each task costs, ms."""
    share: float
    """Share of that in the time of the tiny tasks."""
    files: bool
    """Whether each of them creates a file of a few rows."""


def merged(case: Case, key: StageKey) -> Merged | None:
    """Return the tasks of a stage, merged; None if they are not too many."""
    good, cores = case.good(key), cores_then(case, key)
    if len(good) < MANY * cores or np.median(good) > TINY_MS or case.sum([key], "in_bytes"):
        return None
    number = case.job_of(key)
    job = None if number is None else case.app.jobs.get(number)
    if job is not None and lists_files(job):
        return None
    work = float(np.clip(good - fixed_cost(case, key), 0, None).sum())
    work = min(work, _work(case, key), _filling(case, key))
    cost = (float(good.sum()) - work) / len(good)
    share = 1 - work / max(1.0, float(good.sum()))
    if share < COST:
        return None
    count = max(1, round(MERGED * cores))
    tasks = np.full(count, work / count + cost, dtype=np.float32)
    return Merged(tasks=tasks, cost=cost, share=share, files=_filling(case, key) < inf)


def _work(case: Case, key: StageKey) -> float:
    """Return the most that tasks of a stage may have worked on what they read, ms; infinity if they read
    nothing, or all the same.

    It is the slope of a linear regression plus two standard errors, times the bytes.
    """
    part = case.table.part(case.index[key])
    read = case.table.amount[part][case.flagged(key, GOOD)].astype(np.float64)
    took = case.good(key).astype(np.float64)
    spread = read.std()
    if not spread:
        return inf
    slope = float(((read - read.mean()) * (took - took.mean())).mean()) / spread**2
    error = took.std() / (spread * np.sqrt(len(read)))
    return float(max(0.0, slope + 2 * error) * read.sum())


def _filling(case: Case, key: StageKey) -> float:
    """Return for how long tasks computed that write a file of a few rows each, ms; infinity for others."""
    stage = case.app.stages.get(key)
    if (
        stage is None
        or stage.functions
        or not any(each.startswith(_WRITES) for each in stage.nodes)
    ):
        return inf
    rows = case.rows(key)
    wrote = rows["out_rows"][rows["good"]]
    if not len(wrote) or not 0 < np.median(wrote) <= FEW_ROWS:
        return inf
    return case.sum([key], "cpu") / MS or inf


def _many(case: Case, mended: Mapping[StageKey, Merged], gain: Gain) -> Finding:
    key = next(iter(mended))
    good, cores = case.good(key), cores_then(case, key)
    asked = case.app.settings.get(_SETTINGS, "200")
    file = " and creating a file of a few rows" if mended[key].files else ""
    return Finding(
        cause="too-many-partitions",
        text=(
            f"{called(case, key)}{alike(mended)} has {len(good):,} tasks for {cores:.0f} cores with a median of"
            f" {duration(float(np.median(good)))}: {percent(mended[key].share)} of their time is what starting and"
            f" ending a task{file} costs, not work."
        ),
        advice=(
            f"Use {len(mended[key].tasks)} to {8 * round(cores)} tasks: lower `{_SETTINGS}` ({asked} now), leave"
            " `spark.sql.adaptive.coalescePartitions.enabled` at true, or call coalesce."
        ),
        gain=gain.share,
        seconds=gain.seconds,
        certainty=Certainty.LIKELY,
        place=place_of(case, key),
        evidence=(
            Evidence(name="tasks", value=len(good)),
            Evidence(name="cores", value=cores),
            Evidence(name="median task", value=float(np.median(good)) / 1_000, unit="s"),
            Evidence(name="fixed cost of a task", value=mended[key].cost / 1_000, unit="s"),
            Evidence(name="share of fixed costs", value=100 * mended[key].share, unit="%"),
        ),
    )
