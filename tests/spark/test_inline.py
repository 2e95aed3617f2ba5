"""Timesteps that the driver runs itself, between timesteps on Spark: rows and state are those of a loop."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import UserFunctionError
from rechannel.telemetry.events import TimestepStarted
from rechannel.testing import script

SIZES = (3, 400, 5, 500, 2, 1, 600, 4)
"""Rows of each timestep: small and large ones in turn."""
SMALL = 50

seen: list[int] = []
"""What a function of a task leaves in its module, and in its process."""


def marked(row: Any) -> Any:
    seen.append(row.v)
    return row.k, row.v, os.getpid()


def test_small_timesteps_run_in_the_driver_and_large_ones_on_spark(spark: Any, tmp_path: Path):
    source = script("k STRING, v BIGINT")
    rows = rc.read(spark).memory(source, name="in")
    keyed = rows.map(marked, "k STRING, v BIGINT, pid BIGINT", name="marked").key_by("k")
    totals = keyed.aggregate(
        n=agg.count(), sum=agg.sum("v"), last_pid=agg.last("pid"), name="totals", tasks=3
    )
    settings = rc.Settings(inline_rows=SMALL)
    job = rc.Job(
        "inline", totals.write.memory("out"), state=tmp_path / "state", settings=settings
    ).start()
    sums, counts, pids, number = Counter[str](), Counter[str](), list[set[int]](), 0
    for size in SIZES:
        given = [{"k": f"k{v % 7}", "v": v} for v in range(number, number + size)]
        number += size
        source.push(given)
        job.process_all_available(240)
        if size == SIZES[3]:
            change = job.reconfigure(rc.changes.rescale("totals", tasks=5))
        for row in given:
            counts[row["k"]] += 1
            sums[row["k"]] += row["v"]
        found = {row["k"]: row for row in job.state("totals").collect()}
        pids.append({found[row["k"]]["last_pid"] for row in given})
    job.stop()
    events = job._parts.hub.recent_events(100)
    begun = [each.inline for each in events if isinstance(each, TimestepStarted)]
    assert change.phase == "done"
    assert begun == [size <= SMALL for size in SIZES]
    assert [os.getpid() in each for each in pids] == begun
    assert {k: (row["n"], row["sum"]) for k, row in found.items()} == {
        k: (counts[k], sums[k]) for k in counts
    }


def test_an_error_of_a_function_names_its_operator_wherever_it_runs(spark: Any, tmp_path: Path):
    source = script("k STRING, v BIGINT")
    rows = rc.read(spark).memory(source, name="in")
    ratios = rows.map(lambda row: (row.k, 1 // row.v), "k STRING, r BIGINT", name="ratios")
    settings = rc.Settings(inline_rows=SMALL)
    job = rc.Job(
        "inline", ratios.write.memory("out"), state=tmp_path / "state", settings=settings
    ).start()
    source.push([{"k": "a", "v": 0}])
    with pytest.raises(UserFunctionError, match="operator 'ratios'"):
        job.process_all_available(240)
