"""Which schema versions of state are stored, while segments come and go."""

from __future__ import annotations

from typing import Any

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.program.stored_versions import stored_schema_versions
from rechannel.errors import MissingFileError
from rechannel.settings import Settings
from rechannel.testing import Harness, script


def running() -> tuple[Harness, Any]:
    rows = script("k string, v bigint")
    keyed = rc.read().memory(rows, name="in").key_by("k")
    sums = keyed.aggregate(total=agg.sum("v"), name="op")
    harness = Harness(sums.write.memory("out"), settings=Settings(tasks=1, keep_versions=1))
    harness.start()
    push(rows, harness)
    return harness, rows


def push(rows: Any, harness: Harness) -> None:
    rows.push([{"k": "a", "v": 1}])
    harness.process.run()


def test_a_segment_that_is_removed_meanwhile_is_not_missed():
    harness, rows = running()
    before = harness.journal_state()
    for _ in range(8):  # some of it is merged
        push(rows, harness)
    harness.process.sweep()
    after = harness.journal_state()
    with pytest.raises(MissingFileError):
        stored_schema_versions(harness.store, lambda: before, "op")
    states = iter([before, after, after, after])
    assert len(stored_schema_versions(harness.store, lambda: next(states), "op")) == 1
