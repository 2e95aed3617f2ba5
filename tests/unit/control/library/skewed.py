"""Streams with a known skew, for tests of controllers."""

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

import rechannel as rc
from rechannel.model.configuration import Combine, Configuration
from rechannel.model.hashing import hash_columns
from rechannel.model.routing import Routing
from rechannel.testing import Harness, script

TASKS = 2


def keys_of(belongs: Callable[[int, int], bool], *, bins: int, count: int) -> list[int]:
    """The first keys for whose (bin, task) `belongs` holds in a stream that has just begun."""
    candidates = list(range(10_000))
    routing = Routing.even(bins=bins, tasks=TASKS)
    hashes = hash_columns([pa.array(candidates, pa.int64())])
    tasks = routing.task_of(hashes)
    found = zip(candidates, hashes.tolist(), tasks.tolist(), strict=True)
    return [k for k, h, task in found if belongs(routing.bin_of(h), task)][:count]


def counting(batches: list[list[int]], *, bins: int) -> Harness:
    """A stream that counts rows by key, one batch per timestep."""
    rows = script("k bigint", [[{"k": k} for k in batch] for batch in batches])
    counts = rc.read().memory(rows).key_by("k").aggregate(n=rc.aggregates.count(), name="counts")
    settings = rc.Settings(tasks=TASKS, bins=bins)
    return Harness(counts.write.memory("out"), settings=settings, configure=uncombined)


def uncombined(configuration: Configuration) -> Configuration:
    """With every row sent to its task, so that a key can be hot."""
    counts = replace(configuration.operators["counts"], combine=Combine.OFF)
    return replace(configuration, operators={**configuration.operators, "counts": counts})
