"""A process function on Spark: its states and its side output, while its tasks change, are those of a loop."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

import rechannel as rc

ROWS, KEYS = 1_000, 30


def numbers(start: int, stop: int) -> pa.RecordBatch:
    rows = range(start, stop)
    return pa.record_batch({"k": [f"k{row % KEYS}" for row in rows], "v": list(rows)})


def follow(key: str, rows: Any, context: Any) -> Any:
    total, seen = context.value("total"), context.map("seen")
    for row in rows:
        total.set(total.get(0) + row.v)
        seen[row.v % 7] = seen.get(row.v % 7, 0) + 1
        if row.v % 100 == 0:
            context.side_output("round", (row.v,))
    yield total.get(), sum(n for _, n in seen.items())


def test_states_and_side_outputs_are_those_of_a_loop(spark: Any, tmp_path: Path) -> None:
    stream = rc.read(spark).generator(
        numbers, schema="k STRING, v BIGINT", rows=ROWS, per_timestep=100
    )
    followed = stream.key_by("k").process(
        follow,
        schema="total BIGINT, n BIGINT",
        states={
            "total": rc.states.value_state("total BIGINT"),
            "seen": rc.states.map_state("seventh BIGINT", "n BIGINT"),
        },
        side_outputs={"round": "v BIGINT"},
        name="followed",
        tasks=2,
    )
    ends = [
        followed.write.parquet(tmp_path / "out", name="out"),
        followed.side_output("round").write.dataset(tmp_path / "round", name="round"),
    ]
    job = rc.Job("follow", ends, state=tmp_path / "state").start()
    change = job.reconfigure(rc.changes.rescale("followed", tasks=4), at=4)
    job.process_all_available(240)
    job.stop()
    assert change.phase == "done"
    totals, counts = Counter[str](), Counter[str]()
    for row in range(ROWS):
        totals[f"k{row % KEYS}"] += row
        counts[f"k{row % KEYS}"] += 1
    last: dict[str, tuple[int, int, int]] = {}
    for row in spark.read.parquet(str(tmp_path / "out")).collect():
        last[row.k] = max(last.get(row.k, (0, 0, 0)), (row.timestep, row.total, row.n))
    assert {key: values[1:] for key, values in last.items()} == {
        key: (totals[key], counts[key]) for key in totals
    }
    found = rc.read_output(tmp_path / "round").table().column("v").to_pylist()
    assert sorted(found) == list(range(0, ROWS, 100))
