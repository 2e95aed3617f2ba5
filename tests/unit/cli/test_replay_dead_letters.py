"""`rechannel replay-dead-letters`: shown, done, and done once, also by processes that are killed."""

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
import rechannel as rc


def parsed(row):
    return row.k, {number}


rows = rc.read().files("{place}/in", format="parquet", name="in", schema="k STRING, v STRING")
numbers = rows.with_replays("parse").map(parsed, "k STRING, n BIGINT", name="parse", on_error="dead_letter")
sums = numbers.key_by("k").aggregate(n=rc.aggregates.sum("n"), name="sums")
good = sums.write.parquet("{place}/out", name="out")
bad = rc.dead_letters(good).write.json("{place}/bad", name="bad")
job = rc.Job("sums", [good, bad], state="{place}/state")
"""


@pytest.fixture
def file(tmp_path: Path, rechannel: Any) -> Path:
    (tmp_path / "in").mkdir()
    pq.write_table(
        pa.table({"k": ["a", "a", "b"], "v": ["1", "x2", "x3"]}), tmp_path / "in" / "1.parquet"
    )
    made = tmp_path / "job.py"
    for number in ("int(row.v)", "int(row.v.strip('x'))"):
        made.write_text(TEXT.format(place=tmp_path, number=number))
        ran = rechannel("run", made, "--in-process", "--until-idle", "--upgrade")
        assert ran.code == 0, ran.err
    return made


def sums(rechannel: Any, file: Path) -> dict[str, int]:
    found = rechannel("state", file.parent / "state", "sums", "--json")
    return {row["k"]: row["n.sum"] for row in json.loads(found.out)["rows"]}


def test_a_plan_is_shown_and_carried_out_once(rechannel, file):
    command = ("replay-dead-letters", file)
    shown = rechannel(*command, "--plan", "--error", "'x3'")
    assert shown.code == 0, shown.err
    assert shown.lines[0] == "Operator 'parse': 1 dead letter would be tried again; 0 were before."
    assert json.loads(rechannel(*command, "--json").out)["operators"][0]["rows"] == 2
    assert "0 dead letters are input of the job now; 2 were before" in rechannel(*command).out
    assert rechannel("run", file, "--in-process", "--until-idle").code == 0
    assert sums(rechannel, file) == {"a": 3, "b": 3}
    refused = rechannel(*command, "--operator", "pars")
    assert (refused.code, "no operator 'pars'" in refused.err) == (2, True)


@pytest.fixture(scope="module")
def forked() -> Iterator[Commands]:
    with commands() as made:
        yield made


def test_calls_and_drivers_that_are_killed_at_their_writes(rechannel, file, forked, thorough):
    place = file.parent

    def run(*arguments: str, at: int = 0) -> int:
        counted, out = place.with_name("counted"), place.with_name("told")
        command = Command(
            arguments=arguments, below=f"{place}/", out=str(out), counted=str(counted), at=at
        )
        code = forked.end(forked.begin(command))
        assert code in {0, -signal.SIGKILL}, out.read_text()
        return code

    calls = ("replay-dead-letters", str(file))
    killed = 0
    while run(*calls, at=killed + 1):
        killed += 1
    assert killed >= 3
    drives = ("run", str(file), "--in-process", "--until-idle")
    killed = 0
    while killed < (100 if thorough else 8) and run(*drives, at=5 * killed + 3):
        killed += 1
    assert killed >= 3
    assert run(*drives) == 0
    assert sums(rechannel, file) == {"a": 3, "b": 3}
