"""Rows go to tables of Delta Lake and of Apache Iceberg once, whatever dies."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import rechannel as rc
from rechannel.state.stores.local import LocalStore
from tests.real import kills as killing
from tests.spark.programs import run, session
from tests.unit.sinks.test_lakes import Delta, Iceberg, Lake

LAKES = {"delta": Delta, "iceberg": Iceberg}


def flows(lake: Lake, total: int) -> list[Any]:
    return killing.flows(
        total,
        lambda totals: lake.flow(totals, "totals", keys="user", name="to-totals"),
        lambda copies: lake.flow(copies, "copies", name="to-copies"),
    )


def drive(place: str, kind: str, total: int) -> int:
    """Process everything there is."""
    lake = opened(place, kind)
    job = run(session(place), flows(lake, total), f"{place}/state", name="lake", in_flight=2)
    return job.status.timestep or 0


def opened(place: str, kind: str) -> Lake:
    from pathlib import Path

    return LAKES[kind](Path(place), create=False)


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", LAKES)
def test_drivers_are_killed(child, tmp_path, kind, kills):
    lake, total = LAKES[kind](tmp_path), 15_000 * (kills + 2)
    given = {"place": str(tmp_path), "kind": kind, "total": total}
    state = LocalStore(tmp_path / "state")
    assert killing.kill_drivers(child, drive, given, state, kills=kills) > 0
    copies = lake.read("copies")["n"].to_numpy()
    assert len(copies) == total
    assert sorted(copies) == list(range(total))
    totals = lake.read("totals").to_pylist()
    assert len(totals) == killing.USERS
    found = {row["user"]: (row["count"], row["sum"]) for row in totals}
    assert found == killing.expected(total)


# Changes ---------------------------------------------------------------------------------------------


def spell(frame: Any) -> dict[str, Any]:
    """Rows of a user since it began, and their sum; it ends with a number that three divides."""
    last = frame.last("n", 0)
    return {
        "rows": frame.previous("rows", 0) + frame.count(),
        "total": frame.previous("total", 0) + frame.sum("n"),
        "_drop": last % 3 == 0,
    }


def changing(lake: Lake, total: int) -> list[Any]:
    """Spells of users, as a table and as the changes of one."""
    events = rc.read().generator(
        killing.rate, schema="value bigint", rows=total, per_timestep=1_000
    )
    events = events.map_batches(killing.numbers, schema="user bigint, n bigint", name="events")
    spells = events.key_by("user").track_batches(
        spell, state="rows BIGINT, total BIGINT", name="spells"
    )
    log = spells.changelog(name="log")
    again: Any = {"then": "stop", "attempts": 60, "pause_ms": 200}
    return [
        lake.flow(
            log.write.on_failure(**again), "spells", keys="user", changes="change", name="to-spells"
        ),
        lake.flow(log.write.on_failure(**again), "log", name="to-log"),
    ]


def spells_after(total: int) -> dict[int, tuple[int, int]]:
    """The same in plain Python: a timestep has one row of every user."""
    found: dict[int, tuple[int, int]] = {}
    for number in range(total):
        user = number * 7919 % killing.USERS
        rows, summed = found.pop(user, (0, 0))
        if number % 3:
            found[user] = (rows + 1, summed + number)
    return found


def drive_changing(place: str, kind: str, total: int) -> int:
    """Process everything there is."""
    lake = opened(place, kind)
    job = run(session(place), changing(lake, total), f"{place}/state", name="spells", in_flight=2)
    return job.status.timestep or 0


@pytest.mark.parametrize("kills", [2, pytest.param(15, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", LAKES)
def test_drivers_that_write_and_delete_are_killed(child, tmp_path, kind, kills):
    lake, total = LAKES[kind](tmp_path), 15_000 * (kills + 2)
    given = {"place": str(tmp_path), "kind": kind, "total": total}
    state = LocalStore(tmp_path / "state")
    assert killing.kill_drivers(child, drive_changing, given, state, kills=kills) > 0
    expected = spells_after(total)
    table = lake.read("spells")
    assert table.schema.names == ["user", "rows", "total"]
    assert len(table) == len(expected) < killing.USERS
    found = {row["user"]: (row["rows"], row["total"]) for row in table.to_pylist()}
    assert found == expected
    left: Counter[tuple[Any, ...]] = Counter()
    for user, rows, summed, change in zip(*lake.read("log").to_pydict().values(), strict=True):
        left[user, rows, summed] += 1 if change in ("insert", "update_after") else -1
    assert +left == Counter({(user, *of): 1 for user, of in expected.items()})
    assert not -left
