"""`rechannel reset`: a source begins again at another place."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rechannel.cli.reset import place_of
from rechannel.errors import RefusedError

pytestmark = pytest.mark.usefixtures("clean_imports")

TEXT = """
import rechannel as rc

rows = rc.read().files("{place}/in", format="parquet", name="in")
users = rows.key_by("k").aggregate(n=rc.aggregates.count(), name="users")
job = rc.Job("clicks", users.write.parquet("{place}/out", name="out"), state="{place}/state")
"""


@pytest.fixture
def file(tmp_path: Path, rechannel: Any) -> Path:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"k": ["a"], "v": [1]}), tmp_path / "in" / "1.parquet")
    made = tmp_path / "job.py"
    made.write_text(TEXT.format(place=tmp_path))
    ran = rechannel("run", made, "--in-process", "--until-idle")
    assert ran.code == 0, ran.err
    return made


def test_files_are_read_again_once_that_is_accepted(rechannel, file):
    state = file.parent / "state"
    refused = rechannel("reset", file, "in", "--in-process")
    assert refused.code == 2
    assert "give --accept-repeats-and-gaps" in refused.err
    done = rechannel("reset", file, "in", "--in-process", "--accept-repeats-and-gaps", "--json")
    assert json.loads(done.out) == {"source": "in", "moved": True}
    again = rechannel("reset", file, "in", "--in-process", "--accept-repeats-and-gaps")
    assert again.lines == ["Source 'in' is there already."]
    assert rechannel("run", file, "--in-process", "--until-idle").code == 0
    rows = json.loads(rechannel("state", state, "users", "--json").out)["rows"]
    assert [row["n.count"] for row in rows] == [2]
    [act] = json.loads(rechannel("history", state, "--json").out)["acts"]
    assert (act["kind"], act["cause"]) == ("reset", "asked for on the command line")


def test_places_on_the_command_line():
    assert place_of(None) is None
    assert place_of("2026-01-31T12:00:00+00:00") == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert place_of('{"clicks": {"0": 7}}') == {"clicks": {0: 7}}
    for wrong in ("yesterday", '{"clicks": 7}', "{"):
        with pytest.raises(RefusedError, match="write a time with its zone"):
            place_of(wrong)
