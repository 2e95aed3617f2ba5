"""A broadcast input on Spark: what tasks see of it, while both operators change, is what one process sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.job import InProcess

ROWS, TIMESTEPS, KEYS, RULES = 1_000, 10, 30, 4


def numbers(start: int, stop: int) -> pa.RecordBatch:
    rows = range(start, stop)
    return pa.record_batch({"k": [f"k{row % KEYS}" for row in rows], "v": list(rows)})


def changed(start: int, stop: int) -> pa.RecordBatch:
    """Three changes per timestep; a rule with a negative limit ends."""
    rows = range(start, stop)
    limits = [-1 if row % 5 == 4 else row for row in rows]
    return pa.record_batch({"rule": [f"r{row % RULES}" for row in rows], "limit": limits})


def newest(rule: str, before: Any, rows: Any) -> Any:
    return None if rows[-1].limit < 0 else rows[-1].limit


def follow(key: str, rows: Any, context: Any) -> Any:
    total, table = context.value("total"), context.broadcast("rules")
    for row in rows:
        total.set(total.get(0) + sum(rule.limit for rule in table.values()))
        yield row.v, total.get(), ",".join(table)


def flow(reader: Any) -> Any:
    table = reader.generator(
        changed, schema="rule STRING, limit BIGINT", rows=3 * TIMESTEPS, per_timestep=3
    )
    stream = reader.generator(
        numbers, schema="k STRING, v BIGINT", rows=ROWS, per_timestep=ROWS // TIMESTEPS
    )
    followed = stream.key_by("k").process(
        follow,
        schema="v BIGINT, total BIGINT, rules STRING",
        states={"total": rc.states.value_state("total BIGINT")},
        broadcast={"rules": table.key_by("rule").track(newest, state="limit BIGINT", name="rules")},
        name="followed",
    )
    return followed.write.memory("out", name="out")


def rows_of(job: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in job.memory("out").to_pylist())


@pytest.mark.slow  # the simulation has them in every run
def test_tasks_see_the_table_that_one_process_sees(spark: Any, tmp_path: Path) -> None:
    settings = rc.Settings(tasks=2, bins=8, in_flight=3)
    job = rc.Job("rules", flow(rc.read(spark)), state=tmp_path / "state", settings=settings).start()
    changes = [
        job.reconfigure(rc.changes.rescale("followed", tasks=4), at=4),
        job.reconfigure(rc.changes.rescale("rules", tasks=1), at=6),
    ]
    job.process_all_available(240)
    assert [change.phase for change in changes] == ["done", "done"]
    shown, table = rows_of(job), sorted(map(tuple, job.state("rules").collect()))
    job.stop()
    alone = rc.Job("rules", flow(rc.read()), state=tmp_path / "alone", settings=settings)
    reference = alone.start(in_process=InProcess())
    reference.process_all_available()
    expected = reference.state("rules").to_pylist()
    reference.stop()
    assert shown == rows_of(reference)
    assert table == sorted(tuple(row.values()) for row in expected)
    assert len(shown) == ROWS
    assert len({row[-1] for row in shown}) > 3
