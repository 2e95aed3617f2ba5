"""Streams that go on for long, under any policy of merging: what is there stays within the formulas of `growth.py`."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.kernels.lsm.merge import slices_of
from rechannel.kernels.lsm.runs import OpenRuns
from rechannel.kernels.tasks import storing
from rechannel.settings import Settings
from rechannel.state.keys import SEGMENTS
from rechannel.state.manifest import Edit
from rechannel.state.merging import Merge, MergePolicy
from rechannel.testing import Harness, script
from tests.property.growth import (
    check_files,
    check_journal,
    check_manifest,
    check_runs,
    deepest,
)

EVERY = 16
"""Timesteps between two looks."""
SNAPSHOT_EVERY = 8
PER_COMMIT = 4
"""Entries of the journal: intent, commit, and what two sinks have shown."""


def stream(seed: int, timesteps: int) -> int:
    """A join and an aggregate of few or many keys; how many runs there were at most."""
    rng = Random(seed)
    fan, keys = rng.choice((2, 2, 3, 4)), rng.choice((1, 2, 3, 10, 200))
    per, tasks = rng.choice((1, 5, 40)), rng.randint(1, 3)
    policy = MergePolicy(fan=fan, slice_rows=rng.choice((1, 2, 8, 64)))
    left, right = script("k bigint, v bigint"), script("k bigint, w bigint")
    rows = rc.read().memory(left, name="left")
    joined = rows.join(rc.read().memory(right, name="right"), "k", how="inner", name="joined")
    counted = rows.key_by("k").aggregate(n=agg.count(), name="counted")
    harness = Harness(
        [joined.write.memory("a", name="a"), counted.write.memory("b", name="b")],
        settings=Settings(
            tasks=tasks,
            bins=rng.choice((1, 7)),
            keep_versions=1,
            snapshot_every=SNAPSHOT_EVERY,
            merging=policy,
        ),
    )
    process, numbers, most = harness.start(), np.random.default_rng(seed), 0
    for timestep in range(1, timesteps + 1):
        given = {"k": numbers.integers(0, keys, per), "v": np.arange(per)}
        left.push(pa.record_batch({name: pa.array(column) for name, column in given.items()}))
        process.run()
        if timestep % EVERY:
            continue
        for recorder in harness.recorders.values():
            recorder.forget()
        process.sweep()
        state = process.journal.state
        for name, manifest in state.manifests.items():
            check_manifest(name, manifest, timestep, fan)
            check_runs(name, manifest, keys, tasks, deepest(timestep, fan))
            most = max(most, len(manifest.runs))
        rows_held = sum(run.rows for run in state.manifests["counted"].state)
        in_runs = deepest(timestep, fan)
        assert rows_held <= keys * in_runs, f"{rows_held} rows for {keys} keys"
        check_files(harness.store, state)
        check_journal(harness.store, SNAPSHOT_EVERY, PER_COMMIT, others=4)
        size = sum(harness.store.size(key) for key in harness.store.list(SEGMENTS + "counted"))
        assert size <= keys * in_runs * ROW_BYTES + most * FILE_BYTES, f"{size} bytes"
    return most


ROW_BYTES, FILE_BYTES = 64, 8_192
"""What a key of an aggregate takes at most, and what a file has beside its rows."""


def test_a_stream_that_goes_on_does_not_grow(thorough: bool, workers: ProcessPoolExecutor) -> None:
    seeds, timesteps = (range(80), 640) if thorough else (range(3), 96)
    assert max(workers.map(stream, seeds, [timesteps] * len(seeds))) > 1


def streams() -> None:
    for seed in range(40):
        stream(seed, 192)


@pytest.mark.slow
def test_runs_that_stay_in_empty_slices_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault is put back: a merge of a slice without rows retires nothing."""
    merges = storing.Storing.merges

    def only_rows(self: storing.Storing) -> Edit:
        state = self.step.tasks[self.task]
        runs = OpenRuns(self.program, state.runs)

        def has_rows(merge: Merge) -> bool:
            met = (i for i, run in enumerate(state.runs) if run.seq in merge.seqs)
            return any(slices_of(runs[i], merge.where) for i in met)

        tasks = list(self.step.tasks)
        tasks[self.task] = replace(state, merges=tuple(filter(has_rows, state.merges)))
        self.step = replace(self.step, tasks=tuple(tasks))
        return merges(self)

    monkeypatch.setattr(storing.Storing, "merges", only_rows)
    with pytest.raises(AssertionError, match="runs"):
        streams()
