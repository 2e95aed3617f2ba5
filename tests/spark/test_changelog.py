"""Changelogs on Spark: applied timestep by timestep, they are the tables, whatever happened meanwhile."""

from __future__ import annotations

import signal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from tests.spark.programs import (
    ACCOUNTS,
    PATIENCE,
    PER_TIMESTEP,
    entries,
    journal_of,
    session,
    start,
    until,
)

TIMESTEPS = 12


def until_full(key, state, rows):
    """The numbers of an account, until there are seven."""
    seen = (state or 0) + len(rows)
    return None if seen >= 7 else seen


def flows(out, rows=TIMESTEPS * PER_TIMESTEP):
    """An aggregate and a track whose keys end, with changelogs that files keep."""
    source = rc.read().generator(
        entries,
        schema="number BIGINT, account BIGINT, amount DOUBLE",
        rows=rows,
        per_timestep=PER_TIMESTEP,
        partitions=2,
        name="entries",
    )
    keyed = source.key_by("account")
    most = keyed.aggregate(most=agg.max("amount"), name="most")
    open_ = keyed.track(until_full, state="seen BIGINT", timeout="1 hour", name="open")
    return [
        stream.changelog().write.parquet(f"{out}/{stream.name}", name=f"to-{stream.name}")
        for stream in (most, open_)
    ]


def folded(path: Path, key: str = "account") -> tuple[dict, dict[str, int]]:
    """The table that a changelog leads to, and how often each change is in it."""
    table, words = {}, dict.fromkeys(("insert", "update_before", "update_after", "delete"), 0)
    for folder in sorted(path.glob("timestep=*")):
        rows = [r for f in folder.glob("*.parquet") for r in pq.ParquetFile(f).read().to_pylist()]
        known, now = dict(table), dict(table)
        for row in rows:
            change = row.pop("change")
            words[change] += 1
            if change in ("update_before", "delete"):
                assert known[row[key]] == row, f"{folder.name}: {change} of {row}"
                if now.get(row[key]) == row:
                    del now[row[key]]
            else:
                assert (row[key] in known) is (change == "update_after"), f"{folder.name}: {row}"
                now[row[key]] = row
        table = now
    return table, words


def check(out: Path, running) -> None:
    for name in ("most", "open"):
        table, words = folded(out / name)
        columns = ["account", "most" if name == "most" else "seen"]
        shown = [row.asDict() for row in running.state(name).select(columns).collect()]
        assert sorted(map(repr, table.values())) == sorted(map(repr, shown))
        assert words["insert"] >= ACCOUNTS
        assert words["update_before"] == words["update_after"] > 0
        assert bool(words["delete"]) is (name == "open")


def drive(place: str) -> int:
    """Process everything there is. The process is killed somewhere in between."""
    job = start(session(place), flows(f"{place}/out"), f"{place}/state", interval_ms=100)
    job.process_all_available(PATIENCE)
    job.stop(PATIENCE)
    return job.status.timestep or 0


@pytest.mark.slow  # in process, all operators with changelogs are tested so in every run
def test_a_changelog_is_that_of_the_table_over_rescales_and_restarts(spark, child, tmp_path):
    driver = child(drive, place=str(tmp_path))
    state = tmp_path / "state"

    def committed() -> bool:
        assert driver.running, driver.errors()
        return state.exists() and (journal_of(state).last_committed or 0) >= 3

    until(committed, "timesteps commit")
    assert driver.kill() == -signal.SIGKILL
    assert 3 <= journal_of(state).last_committed < TIMESTEPS
    running = start(spark, flows(tmp_path / "out"), state, interval_ms=50)
    for name, tasks in (("most", 3), ("open", 4)):
        change = running.reconfigure(rc.changes.rescale(name, tasks), rc.strategies.fluid(bins=8))
        assert change.wait(PATIENCE).phase == "done"
    running.process_all_available(PATIENCE)
    running.stop(PATIENCE)
    assert running.status.timestep == TIMESTEPS
    check(tmp_path / "out", running)
