"""`rechannel upgrade`: what it shows and does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.usefixtures("clean_imports")

FIRST = """
import rechannel as rc

rows = rc.read().files("{place}/in", format="parquet", name="in")
users = rows.key_by("k").aggregate(n=rc.aggregates.count(), top=rc.aggregates.max("v"), name="users")
job = rc.Job("clicks", users.write.parquet("{place}/out", name="out"), state="{place}/state")
"""

SECOND = """
import rechannel as rc

rows = rc.read().files("{place}/in", format="parquet", name="in")
people = rows.key_by("k").aggregate(n=rc.aggregates.count(), low=rc.aggregates.min("v"), name="people")
job = rc.Job(
    "clicks",
    people.write.parquet("{place}/out", name="out"),
    state="{place}/state",
    {declared}
)
"""

DECLARED = 'renamed={"users": "people"}, migrate={"people": rc.changes.migrate(drop=["top"])}'


@pytest.fixture
def place(tmp_path: Path, rechannel: Any) -> Path:
    (tmp_path / "in").mkdir()
    feed(tmp_path, 1)
    (tmp_path / "first.py").write_text(FIRST.format(place=tmp_path))
    for name, declared in (("second", DECLARED), ("silent", "")):
        text = SECOND.format(place=tmp_path, declared=declared)
        (tmp_path / f"{name}.py").write_text(text)
    ran = rechannel("run", tmp_path / "first.py", "--in-process", "--until-idle")
    assert ran.code == 0, ran.err
    return tmp_path


def feed(place: Path, number: int) -> None:
    pq.write_table(pa.table({"k": ["a"], "v": [number]}), place / "in" / f"{number}.parquet")


def test_it_shows_what_would_happen_and_does_it_on_request(place, rechannel):
    second = place / "second.py"
    shown = rechannel("upgrade", second, "--in-process", "--json")
    plan = json.loads(shown.out)
    assert (plan["base"], plan["version"], plan["done"]) == (1, 2, False)
    (operator,) = (part for part in plan["parts"] if part["kind"] == "operator")
    assert (operator["name"], operator["becomes"]) == ("people", "converted")
    assert "was 'users'; low.min begins empty; top.max is dropped" in operator["detail"]
    assert plan["notes"][0] == "Converted on trial, without an error: all 1 stored rows."

    done = rechannel("upgrade", second, "--in-process", "--yes")
    assert done.code == 0
    assert "Version 2 of the dataflow would take over from version 1:" in done.out
    assert done.out.endswith("Done: version 2 has taken over.\n")
    again = rechannel("upgrade", second, "--in-process", "--yes")
    assert again.out == "Nothing to upgrade: this program is the running one.\n"

    feed(place, 2)
    assert rechannel("run", second, "--in-process", "--until-idle").code == 0
    state = json.loads(rechannel("state", place / "state", "people", "--json").out)
    assert state["rows"] == [{"k": "a", "n.count": 2, "low.min": 2}]


def test_stored_rows_of_the_program_before_are_shown_in_the_new_columns(place, rechannel):
    assert rechannel("upgrade", place / "second.py", "--in-process", "--yes").code == 0
    state = json.loads(rechannel("state", place / "state", "people", "--json").out)
    assert state["rows"] == [{"k": "a", "n.count": 1, "low.min": None}]


def test_run_can_upgrade(place, rechannel):
    second = place / "second.py"
    refused = rechannel("run", second, "--in-process", "--until-idle")
    assert refused.code == 2
    assert "`rechannel upgrade FILE` shows what would become of the state" in refused.err
    feed(place, 2)
    assert rechannel("run", second, "--in-process", "--until-idle", "--upgrade").code == 0
    state = json.loads(rechannel("state", place / "state", "people", "--json").out)
    assert state["rows"] == [{"k": "a", "n.count": 2, "low.min": 2}]


def test_what_would_be_lost_is_refused_with_the_line_to_add(place, rechannel):
    refused = rechannel("upgrade", place / "silent.py", "--in-process", "--yes")
    assert refused.code == 2
    assert "renamed={'users': 'people'}" in refused.err
    assert "to drop it, start with --without users" in refused.err
    dropped = rechannel("upgrade", place / "silent.py", "--in-process", "--without", "users")
    assert "users" in dropped.out
    assert "of state is dropped" in dropped.out


def test_plan_and_yes_contradict_each_other(place, rechannel):
    refused = rechannel("upgrade", place / "second.py", "--plan", "--yes")
    assert (refused.code, "give one of them" in refused.err) == (2, True)
