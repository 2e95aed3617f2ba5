"""Memory that does not suffice: tasks that spill, and time in garbage collection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

import numpy as np

from rechannel.profiling.diagnosis.case import Case, Gain
from rechannel.profiling.diagnosis.change import Change
from rechannel.profiling.diagnosis.schedule import Durations
from rechannel.profiling.diagnosis.stage_names import alike, called, place_of
from rechannel.profiling.diagnosis.task_table import StageKey
from rechannel.profiling.diagnosis.words import duration
from rechannel.profiling.model.finding import Certainty, Evidence, Finding, Place
from rechannel.profiling.model.trace import MS
from rechannel.profiling.model.words import counted, percent, size
from rechannel.profiling.storage.blocks import Rows

SPILL_RATE = 10 << 20
"""Bytes that a task spills and reads again in a second, at least: assumed if all tasks of a stage spill."""
LEAST_SPILL = 32 << 20
"""Bytes on disk below which spilling is not reported."""
REST = 0.1
"""Smallest share of a task's time that is left without spilling."""
COLLECTING = 0.15
"""Share of garbage collection in the time of tasks, from which on it is reported."""
USUAL = 0.03
"""Share of garbage collection that stays with enough memory."""


def spill(case: Case) -> Iterator[Finding]:
    """Find stages whose tasks write what does not fit in memory to disk, and read it again.

    Silent: if a stage spills less than `LEAST_SPILL`.
    """
    for family in case.families:
        if case.sum(family.stages, "spill_disk") < LEAST_SPILL:
            continue
        keys = [key for key in family.stages if case.sum([key], "spill_disk")]
        mended, compared = dict[StageKey, Durations](), False
        for key in keys:
            rows = case.rows(key)
            rate = _rate(rows)
            mended[key] = _unspilled(case.durations(key), rows, rate)
            compared = compared or rate is not None
        gain = case.gain(Change(durations=mended))
        if case.worth(gain):
            yield _spilled(case, keys, gain, compared=compared)


def _rate(rows: Rows) -> float | None:
    """Return the ms per byte read of tasks that did not spill; None if too few did not."""
    read = rows["read_bytes"] + rows["in_bytes"]
    dry = rows[rows["good"] & (rows["spill_disk"] == 0) & (read > 0)]
    if len(dry) < max(2, len(rows) // 20):
        return None
    moved = (dry["read_bytes"] + dry["in_bytes"]).astype(np.float64)
    return float(np.median((dry["finish"] - dry["launch"]) / MS / moved))


def _unspilled(took: Durations, rows: Rows, rate: float | None) -> Durations:
    """Return what the tasks of a stage take if none spills. rate: ms per byte read, if it is known."""
    if len(rows) != len(took):
        return took
    rows = rows[np.argsort(rows["launch"], kind="stable")]
    read = (rows["read_bytes"] + rows["in_bytes"]).astype(np.float64)
    if rate is None:
        # A spilled byte is written and read: twice the work of a byte that is read only.
        moved = read + 2.0 * rows["spill_disk"]
        share = np.divide(read, moved, out=np.zeros(len(rows)), where=moved > 0)
        least = np.maximum(took * share, took - rows["spill_memory"] / SPILL_RATE * 1_000)
    else:
        least = read * rate
    dry = np.clip(least, REST * took, took)
    return np.where(rows["spill_disk"] > 0, dry, took).astype(np.float32)


def _spilled(case: Case, stages: Sequence[StageKey], gain: Gain, *, compared: bool) -> Finding:
    key = max(stages, key=lambda each: case.sum([each], "spill_disk"))
    rows = case.rows(key)
    wet = rows[rows["spill_disk"] > 0]
    disk, memory = case.sum([key], "spill_disk"), case.sum([key], "spill_memory")
    need = float((wet["peak"] + wet["spill_memory"]).max())
    had = float(np.median(wet["peak"]))
    times = need / max(1.0, had)
    had_less = f": a task would need about {size(need)} and had {size(had)}" if had else ""
    assumed = (
        "estimated from tasks that did not spill"
        if compared
        else "an estimate: bytes that are spilled are assumed to be written and read as fast as the input"
    )
    some = "all" if len(wet) == len(rows) else f"{len(wet):,}"
    cut = (
        f"Cut the work into {ceil(times)} times as many tasks with `spark.sql.shuffle.partitions`, or raise"
        if 1 < times < 1_000
        else "Raise"
    )
    return Finding(
        cause="spill",
        text=(
            f"{called(case, key)}{alike(stages)} spills {size(disk)} to disk ({size(memory)} in memory), in"
            f" {some} of its {counted(len(rows), 'task')}{had_less}. The gain is {assumed}."
        ),
        advice=f"{cut} {_memory_setting(case)} or `spark.memory.fraction`.",
        gain=gain.share,
        seconds=gain.seconds,
        certainty=Certainty.LIKELY if compared else Certainty.POSSIBLE,
        place=place_of(case, key),
        evidence=(
            Evidence(name="spilled to disk", value=disk, unit="B"),
            Evidence(name="spilled, in memory", value=memory, unit="B"),
            Evidence(name="tasks that spilled", value=len(wet)),
            Evidence(name="memory that a task needs", value=need, unit="B"),
            Evidence(name="memory that a task had", value=had, unit="B"),
        ),
    )


def _memory_setting(case: Case) -> str:
    """Return the setting of the memory of what runs tasks, with its value."""
    name = "spark.driver.memory" if case.app.local else "spark.executor.memory"
    return f"`{name}` ({case.app.settings.get(name, '1g')} now)"


def garbage(case: Case) -> Iterator[Finding]:
    """Find out whether tasks wait for garbage collection.

    Silent: if it takes less than `COLLECTING` of the time of all tasks.
    """
    sums = case.table.sums
    lasted, gc = float(sums["lasted"].sum()), float(sums["garbage collection"].sum())
    if gc < COLLECTING * lasted:
        return
    share = np.divide(
        sums["garbage collection"],
        sums["lasted"],
        out=np.zeros(len(sums["lasted"])),
        where=sums["lasted"] > 0,
    )
    found = np.flatnonzero(share > USUAL)
    mended = {
        case.table.stages[i]: case.durations(case.table.stages[i])
        * np.float32(1 - share[i] + USUAL)
        for i in found.tolist()
    }
    gain = case.gain(Change(durations=mended))
    if not case.worth(gain):
        return
    worst = case.table.stages[int(sums["garbage collection"].argmax())]
    yield Finding(
        cause="garbage-collection",
        text=(
            f"Tasks spend {percent(gc / lasted)} of their time in garbage collection,"
            f" {duration(gc / MS)} in all, most of it in {_lower(called(case, worst))}: their heap may be nearly full."
        ),
        advice=(
            f"Raise {_memory_setting(case)}, run fewer tasks at a time on an executor (`spark.executor.cores`), or"
            " cut the work into more and smaller tasks; keep less in storage, or store it serialised."
        ),
        gain=gain.share,
        seconds=gain.seconds,
        certainty=Certainty.LIKELY,
        place=place_of(case, worst) if len(found) else Place(),
        evidence=(
            Evidence(name="garbage collection", value=gc / MS / 1_000, unit="s"),
            Evidence(name="share of the tasks' time", value=100 * gc / lasted, unit="%"),
        ),
    )


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
