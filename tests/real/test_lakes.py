"""Rows go to tables of Delta Lake and of Apache Iceberg once, whatever dies."""

from __future__ import annotations

from typing import Any

import pytest

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
