"""Findings about the state of streams: commits that take long, state that only grows, late rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from rechannel.profiling.diagnosis.driver_time import DriverTime
from rechannel.profiling.diagnosis.stream_facts import StreamFacts
from rechannel.profiling.diagnosis.words import duration, stream_name
from rechannel.profiling.model.finding import Certainty, Evidence, Finding, Place
from rechannel.profiling.model.words import capitalised, counted, percent, size
from rechannel.profiling.spark.application import Batch
from rechannel.profiling.spark.busy import Floats

SLOW = 0.25
"""Share of the tasks' time that commits of state take if the state store is slow."""
LEAST_BATCHES = 5
"""Batches from which the growth of state is judged."""
DOUBLED = 2.0
"""How many times as large as at first a state that only grows has become."""
STEADY = 0.3
"""Share of the growth that the second half of the batches has at least: it does not level off."""
LATE = 0.01
"""Share of rows that come too late from which they are mentioned."""

_STORE = "spark.sql.streaming.stateStore"
PROVIDER = f"{_STORE}.providerClass"
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG = f"{_STORE}.rocksdb.changelogCheckpointing.enabled"
COMPACT = f"{_STORE}.rocksdb.compactOnCommit"


def slow_state(time: DriverTime, facts: StreamFacts) -> Iterator[Finding]:
    """Find commits of state that take most of the tasks' time."""
    commit = np.array([batch.state_commit_ms for batch in facts.batches], dtype=np.float64)
    part = np.divide(commit, facts.core, out=np.zeros_like(commit), where=facts.core > 0)
    wall = np.minimum(1.0, part) * facts.on_core
    saved = float(wall.sum())
    if not saved or saved < SLOW * float(facts.on_core.sum()):
        return
    last = facts.batches[-1]
    share = saved / float(facts.lasted.sum())
    of_tasks = float(np.minimum(commit, facts.core).sum() / facts.core.sum())
    yield time.finding(
        "slow-state-store",
        saved,
        f"The state store of {stream_name(facts.query)} is slow: the tasks of a batch together spend"
        f" {duration(float(commit.mean()))} on committing state, {percent(of_tasks)} of their time,"
        f" which is {percent(share)} of the time of batches. The state has {counted(last.state_rows, 'row')}"
        f" and takes {size(last.state_bytes)}. If commits cost nothing, the run would be"
        f" {duration(saved)} ({percent(saved / time.length)}) shorter.",
        _store_advice(time),
        place=Place(batch=last.number),
        evidence=(
            Evidence(
                name="commit of state per batch",
                value=float(commit.mean()) / 1_000,
                unit="core seconds",
            ),
            Evidence(name="state", value=last.state_bytes, unit="B"),
            Evidence(name="rows of state", value=last.state_rows, unit="rows"),
        ),
    )


def _store_advice(time: DriverTime) -> str:
    settings = time.app.settings
    changes = []
    if "RocksDB" not in settings.get(PROVIDER, ""):
        changes.append(f"set `{PROVIDER}={ROCKS}`")
    if settings.get(CHANGELOG) != "true":
        changes.append(f"set `{CHANGELOG}=true`, so that a commit writes changes instead of files")
    if settings.get(COMPACT) == "true":
        changes.append(f"set `{COMPACT}=false`")
    changes.append(
        "put the checkpoint on faster storage, or use fewer partitions of state"
        " (`spark.sql.shuffle.partitions`, with a new checkpoint)"
    )
    return f"{capitalised('; '.join(changes))}."


def grows_for_ever(time: DriverTime, facts: StreamFacts) -> Iterator[Finding]:
    """Find state from which nothing is ever removed."""
    batches = facts.batches
    rows = np.array([batch.state_rows for batch in batches], dtype=np.float64)
    if len(rows) < LEAST_BATCHES or not grows(rows):
        return
    saved = _grown_ms(batches, rows, facts.lasted)
    first, last = batches[0], batches[-1]
    water = "no watermark removes rows" if not last.watermark else "the watermark removes nothing"
    cost = (
        f" Batches get slower with it: a state that stays as it was at first would make the run"
        f" {duration(saved)} ({percent(saved / time.length)}) shorter."
        if time.worth(saved)
        else " This does not slow batches down yet."
    )
    finding = time.finding(
        "watermark",
        saved,
        f"The state of {stream_name(facts.query)} only grows, from {first.state_rows:,} to"
        f" {counted(last.state_rows, 'row')} ({size(last.state_bytes)}) in"
        f" {len(batches)} batches, as far as this log goes, because {water}.{cost}",
        "Set `withWatermark` on the time column and use that column in the key, the window or the"
        " join condition; choose a delay not much longer than rows are late. Without event time,"
        " set a timeout in the stateful function.",
        certainty=Certainty.POSSIBLE if last.watermark else Certainty.LIKELY,
        place=Place(batch=last.number),
        evidence=(
            Evidence(name="rows of state at first", value=first.state_rows, unit="rows"),
            Evidence(name="rows of state at last", value=last.state_rows, unit="rows"),
            Evidence(name="state", value=last.state_bytes, unit="B"),
        ),
    )
    yield finding if time.worth(saved) else replace(finding, gain=None, seconds=None, share=None)


def grows(rows: Floats) -> bool:
    """Return whether a state only grows, and goes on growing."""
    steps = np.diff(rows)
    if rows[0] <= 0 or (steps < 0).any() or rows[-1] < DOUBLED * rows[0]:
        return False
    return bool(steps[len(steps) // 2 :].sum() >= STEADY * steps.sum())


def _grown_ms(batches: Sequence[Batch], state: Floats, lasted: Floats) -> float:
    """Return by how many ms batches are longer than with the state of the first, by a linear
    regression of their length on the rows of state and the rows that they read.
    """
    read = np.array([batch.rows for batch in batches], dtype=np.float64)
    columns = [np.ones_like(read), state - state[0]]
    if np.ptp(read) > 0:
        columns.append(read - read.mean())
    fitted, *_ = np.linalg.lstsq(np.column_stack(columns), lasted, rcond=None)
    return max(0.0, float(fitted[1] * (state - state[0]).sum()))


def too_late(time: DriverTime, facts: StreamFacts) -> Iterator[Finding]:
    """Mention rows that were dropped because they came after the watermark."""
    del time
    late = sum(batch.late_rows for batch in facts.batches)
    rows = sum(batch.rows for batch in facts.batches)
    if late < LATE * rows or not late:
        return
    worst = max(facts.batches, key=lambda batch: batch.late_rows)
    share = f" ({percent(late / rows)})" if rows else ""
    yield Finding(
        cause="late-rows",
        text=f"{capitalised(stream_name(facts.query))} drops {counted(late, 'row')}{share} that"
        f" came after the watermark, most of them in batch {worst.number}.",
        advice="If they are needed, use a longer delay in `withWatermark`; state then stays longer.",
        gain=None,
        certainty=Certainty.CERTAIN,
        place=Place(batch=worst.number),
        evidence=(Evidence(name="late rows", value=late, unit="rows"),),
    )
