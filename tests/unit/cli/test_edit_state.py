"""`rechannel edit-state`: shown, done, in the history, and done once by processes that are killed."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.killed import Command, Commands, commands

pytestmark = pytest.mark.usefixtures("clean_imports")

TEXT = """
import pyarrow.compute as pc
import rechannel as rc

rows = rc.read().files("{place}/in", format="parquet", name="in")
users = rows.key_by("k").aggregate(n=rc.aggregates.count(), name="users")
job = rc.Job("clicks", users.write.parquet("{place}/out", name="out"), state="{place}/state")


def doubled(rows):
    return rows.set_column(1, rows.schema.field(1), pc.multiply(rows["n.count"], 2))
"""


@pytest.fixture
def file(tmp_path: Path, rechannel: Any) -> Path:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"k": ["a", "b", "b"]}), tmp_path / "in" / "1.parquet")
    made = tmp_path / "job.py"
    made.write_text(TEXT.format(place=tmp_path))
    ran = rechannel("run", made, "--in-process", "--until-idle")
    assert ran.code == 0, ran.err
    return made


def state(rechannel: Any, file: Path) -> dict[str, int]:
    found = rechannel("state", file.parent / "state", "users", "--json")
    return {row["k"]: row["n.count"] for row in json.loads(found.out)["rows"]}


def test_a_plan_is_shown_and_carried_out_and_in_the_history(rechannel, file):
    command = ("edit-state", file, "users", "doubled", "--in-process")
    shown = rechannel(*command, "--plan")
    assert shown.out == (
        "State of 'users' as of timestep 1 would be edited: 2 rows changed, 0 added, 0 removed, 0 as before.\n"
    )
    needed = rechannel(*command)
    assert (needed.code, "an edit needs a --reason" in needed.err) == (2, True)
    done = rechannel(*command, "--reason", "ticket 7", "--json")
    assert json.loads(done.out)["done"] is True
    assert state(rechannel, file) == {"a": 2, "b": 4}
    acts = json.loads(rechannel("history", file.parent / "state", "--json").out)["acts"]
    assert [(act["kind"], act["cause"]) for act in acts] == [("edit", "ticket 7")]
    again = rechannel(*command, "--reason", "ticket 7")
    assert (again.code, "this edit was made already" in again.err) == (2, True)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("nothing", "has no function 'nothing'"),
        ("no_such_module_here:doubled", "there is no module 'no_such_module_here'"),
        (":doubled", "there is no module ''"),
        (".job:doubled", "there is no module '.job'"),
    ],
)
def test_a_function_that_is_not_there(rechannel, file, function, said):
    refused = rechannel("edit-state", file, "users", function, "--plan", "--in-process")
    assert (refused.code, said in refused.err) == (2, True)


@pytest.fixture(scope="module")
def forked() -> Iterator[Commands]:
    with commands() as made:
        yield made


def test_edits_that_are_killed_at_each_of_their_writes(rechannel, file, forked):
    place, killed = file.parent, 0
    while True:
        told = place.with_name("told")
        command = Command(
            arguments=(
                *("edit-state", str(file), "users", "doubled"),
                *("--reason", "ticket 7", "--in-process"),
            ),
            below=f"{place}/",
            out=str(told),
            counted=str(place.with_name("counted")),
            at=killed + 1,
        )
        code = forked.end(forked.begin(command))
        if code != -signal.SIGKILL:
            break
        killed += 1
        assert state(rechannel, file) in ({"a": 1, "b": 2}, {"a": 2, "b": 4})
    assert killed > 5
    assert code == 0 or "this edit was made already" in told.read_text()
    pq.write_table(pa.table({"k": ["a"]}), place / "in" / "2.parquet")
    assert rechannel("run", file, "--in-process", "--until-idle").code == 0
    assert state(rechannel, file) == {"a": 3, "b": 4}
