from __future__ import annotations

import json
import sys

import pytest

import rechannel as rc
from rechannel.cli.program import find_job, load

pytestmark = pytest.mark.usefixtures("clean_imports")

PROGRAM = """
from __future__ import annotations

import pyarrow as pa

import rechannel as rc


def clicks(start: int, stop: int) -> pa.RecordBatch:
    return pa.record_batch({"user": [f"u{n % 3}" for n in range(start, stop)]})


def renamed(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


stream = rc.read().generator(clicks, schema="user STRING", per_timestep=4, rows=12, name="clicks")
named = stream.map_batches(renamed, schema="user STRING", name="named")
counts = named.key_by("user").aggregate(n=rc.aggregates.count(), name="counts")
job = rc.Job("clicks", counts.write.memory("out", name="out"), state=STATE)
"""

LOGIC = """
import pyarrow as pa

def one(batch):
    return pa.record_batch({"user": ["u0"] * batch.num_rows})
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A program whose job has committed three timesteps, and other logic beside it."""
    path = tmp_path / "clicks.py"
    path.write_text(PROGRAM.replace("STATE", repr(str(tmp_path / "state"))))
    (tmp_path / "clicks_logic.py").write_text(LOGIC)
    running = find_job(load(path), None).start(in_process=rc.InProcess())
    running.process_all_available(60)
    running.stop()
    yield path
    sys.modules.pop("clicks_logic", None)


def test_the_same_logic_ends_with_0(rechannel, program):
    reaction = rechannel("replay", program, "--from", 2, "--to", 3, "--in-process")
    assert (reaction.code, reaction.err) == (0, "")
    assert reaction.lines == [
        "Timesteps 2 to 3 again with same logic: equal.",
        "",
        "timestep  rows of  for sinks  equal  missing  added",
        "       2  counts   out            3        0      0",
        "       3  counts   out            3        0      0",
        "",
        "state of  other keys  equal  missing  added",
        "counts             0      3        0      0",
    ]


def test_other_logic_ends_with_1_and_shows_rows(rechannel, program):
    logic = "named=clicks_logic:one"
    reaction = rechannel("replay", program, "--from", 3, "--in-process", "--logic", logic)
    assert reaction.code == 1
    assert reaction.lines[0] == "Timestep 3 again with other logic in named: different."
    assert "+ user='u0', n=7" in reaction.lines
    few = rechannel(
        *("replay", f"{program}:job", "--from", 3, "--in-process", "--logic", logic),
        *("--examples", 0),
    )
    assert not any(line.startswith(("+", "-")) for line in few.lines)


def test_json_has_all_of_it(rechannel, program, tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    reaction = rechannel(
        *("replay", program, "--from", 1, "--to", 3, "--in-process", "--json"),
        *("--logic", "named=clicks_logic:one", "--directory", place),
    )
    found = json.loads(reaction.out)
    assert (reaction.code, found["equal"], found["other_logic"]) == (1, False, ["named"])
    assert [part["timestep"] for part in found["output"]] == [1, 2, 3]
    assert found["state"][0]["added_rows"] == [{"user": "u0", "n.count": 12}]
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--from", 9), "timestep 9 cannot be replayed: the last committed one is 3"),
        (("--from", 3, "--to", 2), "timesteps without gaps"),
        (("--from", 2, "--logic", "named"), "is not NODE=MODULE:FUNCTION"),
        (("--from", 2, "--logic", "named=nothing:here"), "cannot import 'nothing'"),
        (("--from", 2, "--logic", "nobody=clicks_logic:one"), "has no node 'nobody'"),
    ],
)
def test_what_cannot_be_replayed_ends_with_2(rechannel, program, arguments, message):
    reaction = rechannel("replay", program, "--in-process", *arguments)
    assert (reaction.code, reaction.out) == (2, "")
    assert message in reaction.err
