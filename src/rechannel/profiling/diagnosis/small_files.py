"""Input in many small files: opening them takes longer than reading them.

Mended, tasks read the same bytes at `READ_RATE`, from files of `GOOD_FILE` or at least one for each
core, and open each of these at the cost that was observed. What the first task of a core takes
longer than later ones (classes are loaded, code is compiled) stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np

from rechannel.profiling.diagnosis.case import Case, Gain
from rechannel.profiling.diagnosis.change import Change
from rechannel.profiling.diagnosis.partitions import cores_then, fixed_cost
from rechannel.profiling.diagnosis.plans import plan_nodes
from rechannel.profiling.diagnosis.schedule import Durations
from rechannel.profiling.diagnosis.stage_names import alike, called, place_of
from rechannel.profiling.diagnosis.stream_pace import waits
from rechannel.profiling.diagnosis.task_table import StageKey
from rechannel.profiling.diagnosis.words import duration
from rechannel.profiling.model.finding import Certainty, Evidence, Finding
from rechannel.profiling.model.words import percent, size
from rechannel.profiling.spark.sql_events import PlanNode

SMALL = 4 << 20
"""Bytes below which a file is small: Spark's default of spark.sql.files.openCostInBytes."""
GOOD_FILE = 128 << 20
"""Bytes of a file that is not: Spark's default of spark.sql.files.maxPartitionBytes."""
MANY = 16
"""Small files for each core, at least."""
READ_RATE = 20e6
"""Bytes that a task reads and decodes in a second, at least: assumed."""
OPENING = 0.5
"""Share of the tasks' time that goes into opening files, at least."""

_FILES, _BYTES = "number of files read", "size of files read"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """What a stage read."""

    count: int
    size: float
    """Bytes."""


def small_files(case: Case) -> Iterator[Finding]:
    """Find stages that read many small files.

    Silent: in streams that wait between their batches; if the log does not say how many files a stage
    reads and its tasks are no small files themselves; if files are not small, or few; if reading
    their bytes explains at least half of the time.
    """
    for family in case.families:
        if waits(case, family):
            continue
        mended: dict[StageKey, tuple[_Files, Durations]] = {}
        for key in family.stages:
            files = _read(case, key)
            if files is not None and (new := _merged(case, key, files)) is not None:
                mended[key] = files, new
        if not mended:
            continue
        gain = case.gain(Change(durations={key: new for key, (_, new) in mended.items()}))
        if case.worth(gain):
            yield _finding(case, {key: files for key, (files, _) in mended.items()}, gain)


def _read(case: Case, key: StageKey) -> _Files | None:
    """Return the files that a stage read: by the metrics of its scans, or one for each task."""
    stage = case.app.stages.get(key)
    read = case.sum([key], "in_bytes")
    if stage is None or not read or case.sum([key], "read_bytes"):
        return None
    place = place_of(case, key)
    execution = case.app.executions.get(-1 if place.execution is None else place.execution)
    scans = (node for node in plan_nodes(execution) if _is_scan(node))
    mine = [node for node in scans if any(_same(node, text) for text in stage.details)]
    if execution is not None and mine:
        values = {
            metric.name: execution.metrics.get(metric.accumulator, 0)
            for node in mine
            for metric in node.metrics
        }
        return _Files(count=values.get(_FILES, 0), size=float(values.get(_BYTES, 0)))
    return _Files(count=len(case.durations(key)), size=read)


def _is_scan(node: PlanNode) -> bool:
    return any(metric.name == _FILES for metric in node.metrics)


def _same(node: PlanNode, text: str) -> bool:
    """Return whether a text describes a node; numbers of columns may differ."""
    return node.text.split("[", 1)[0] == text.split("[", 1)[0]


def _merged(case: Case, key: StageKey, files: _Files) -> Durations | None:
    """Return the tasks of a stage with files of a good size; None if files are not what takes its time."""
    cores, good = cores_then(case, key), case.good(key)
    if files.count < MANY * cores or files.size > SMALL * files.count:
        return None
    took, fixed = float(good.sum()), fixed_cost(case, key)
    reading = files.size / READ_RATE * 1_000
    opening = took - reading - fixed * len(good)
    if opening < OPENING * took:
        return None
    count = max(ceil(cores), ceil(files.size / GOOD_FILE))
    early = case.durations(key)[: ceil(cores)]
    warm_up = max(0.0, float(np.median(early) - np.median(good)))
    task = fixed + warm_up + (reading + opening / files.count * count) / count
    return np.full(count, task, dtype=np.float32)


def _finding(case: Case, mended: Mapping[StageKey, _Files], gain: Gain) -> Finding:
    key, files = next(iter(mended.items()))
    good = case.good(key)
    took = float(good.sum())
    return Finding(
        cause="small-files",
        text=(
            f"{called(case, key)}{alike(mended)} reads {files.count:,} files of {size(files.size / files.count)} on"
            f" average: its tasks take {duration(took)} for {size(files.size)}, {duration(took / files.count)} for each"
            f" file, and {percent(1 - files.size / READ_RATE * 1_000 / took)} of that goes into opening files."
        ),
        advice=(
            f"Merge the files into some of {size(GOOD_FILE)}: compact the table, or repartition before writing it."
            " Until then, raise `spark.sql.files.openCostInBytes` if tasks are uneven."
        ),
        gain=gain.share,
        seconds=gain.seconds,
        certainty=Certainty.LIKELY,
        place=place_of(case, key),
        evidence=(
            Evidence(name="files", value=files.count),
            Evidence(name="bytes", value=files.size, unit="B"),
            Evidence(name="average file", value=files.size / files.count, unit="B"),
            Evidence(name="tasks", value=len(good)),
            Evidence(name="time for each file", value=took / files.count / 1_000, unit="s"),
        ),
    )
