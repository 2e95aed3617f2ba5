"""What a timestep leaves must not pile up: runs, files and the manifest over hundreds of timesteps."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.streams.stream import Stream
from rechannel.model.codec import encode
from rechannel.settings import Settings
from rechannel.state.merging import MergePolicy
from rechannel.testing import Harness, script

POLICY = MergePolicy(fan=4, slice_rows=4)
TIMESTEPS = 140


def growth(
    stream: Stream, name: str, push: Callable[[int], None]
) -> Iterator[tuple[int, int, int]]:
    """Runs, files and bytes of the manifest after every timestep."""
    settings = Settings(tasks=1, bins=8, merging=POLICY)
    harness = Harness(stream.write.memory("out"), settings=settings)
    harness.start()
    for timestep in range(1, TIMESTEPS + 1):
        push(timestep)
        harness.process.run()
        manifest = harness.journal_state().manifests[name]
        yield len(manifest.runs), len(manifest.segments()), len(json.dumps(encode(manifest)))
    harness.process.sweep()
    files = list(harness.store.list("segments/"))
    # What only kept versions name may be there too, but not of all the timesteps that were.
    assert len(files) <= 120


def bounded(figures: Iterator[tuple[int, int, int]]) -> None:
    seen = list(figures)
    for early, late in zip(
        map(max, zip(*seen[: TIMESTEPS // 2], strict=True)),
        map(max, zip(*seen[TIMESTEPS // 2 :], strict=True)),
        strict=True,
    ):
        assert late <= 1.5 * early
    assert max(runs for runs, _, _ in seen) <= 80


@pytest.mark.parametrize("keys", [3])
def test_a_join_of_few_keys_stays_at_a_few_runs(keys: int):
    left, right = script("k bigint, v bigint", []), script("k bigint, w bigint", [])
    a, b = rc.read().memory(left, name="left"), rc.read().memory(right, name="right")

    def push(timestep: int) -> None:
        many = [i % keys for i in range(30)]
        left.push(pa.record_batch({"k": pa.array(many, pa.int64()), "v": pa.array(range(30))}))
        right.push(pa.record_batch({"k": pa.array([], pa.int64()), "w": pa.array([], pa.int64())}))

    bounded(growth(a.join(b, "k", how="inner", name="op"), "op", push))


def test_updates_of_few_keys_stay_at_a_few_runs():
    source = script("k bigint, v bigint", [])
    totals = rc.read().memory(source, name="in").key_by("k").aggregate(t=agg.sum("v"), name="op")

    def push(timestep: int) -> None:
        # All keys once, which makes a state that is not written anew with every change; then two at a time.
        some = list(range(400)) if timestep == 1 else [timestep % 7, timestep % 3]
        source.push(pa.record_batch({"k": pa.array(some, pa.int64()), "v": pa.array(some)}))

    bounded(growth(totals, "op", push))
