"""The code of today continues a state directory of an earlier commit exactly as that commit did, byte for byte.

`begun/` is what a driver left that died with two timesteps and a reconfiguration under way; `expected/` is what the
code of that commit made of it (see `make.py`). `story.py` injects clock, names of attempts and ids of openings. Masked
are host and process id, which the test kit does not write, and the version of the library in `opened` entries.

If one of these tests fails, the change breaks state directories that exist. Edit `program.py`, `story.py` and
`samples.py` only to follow names of the API, and no file of `begun/` and `expected/` at all.
"""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rechannel.cli.app import app
from rechannel.engine.journal.entries import FORMAT, LASTING
from rechannel.state.sealed import seal
from rechannel.testing import MemoryStore
from tests.golden import early, samples, story

HERE = Path(__file__).parent
MADE = json.loads((HERE / "made-with.json").read_text())
SAME_PYTHON = MADE["python"] == story.made_with()["python"]
OTHERS = {name: there for name, there in story.made_with().items() if MADE[name] != there}

same_python = pytest.mark.skipif(
    not SAME_PYTHON, reason=f"digests hold within Python {MADE['python']}"
)
same_libraries = pytest.mark.skipif(
    bool(OTHERS), reason=f"other libraries write other bytes: {OTHERS}"
)


@cache
def went_on(*, facts_of_then: bool = True) -> dict[str, str]:
    """What today's code makes of it. facts_of_then: tell no more of stored state than that commit did."""
    world = story.load(HERE / "begun")
    with story.facts_of_then() if facts_of_then else nullcontext():
        story.go_on(world)
    results: dict[str, str] = story.results(world)
    return results


def expected(name: str) -> str:
    return (HERE / "expected" / name).read_text()


def as_of_then(data: bytes) -> bytes:
    """A sealed file as the earlier format had it: openings stay in the journal since format 4 (ADR 0054)."""
    record = json.loads(data)
    if record["format"] != LASTING:
        return data
    del record["xxh3"]
    known = record.pop("opened_at", [])
    assert known == sorted(known)
    return seal({**record, "format": FORMAT})


def journal_as_of_then() -> list[str]:
    lines = [line.split(" ", 1) for line in went_on()["journal.txt"].splitlines()]
    return [f"{key} {as_of_then(text.encode()).decode()}" for key, text in lines]


def differences(name: str) -> list[str]:
    """Names whose values are not the expected ones."""
    then, now = json.loads(expected(name)), json.loads(went_on(facts_of_then=False)[name])
    return sorted(key for key in then.keys() | now.keys() if then.get(key) != now.get(key))


def test_the_directory_was_left_in_the_middle():
    state = story.load(HERE / "begun").harness(changed=True).journal_state()
    assert len(state.open_intents) == 2
    moving, waiting = state.coordination.open
    assert moving.taken
    assert moving.left
    assert not waiting.taken


@same_python
@pytest.mark.parametrize("name", ["sinks.json", "state.json"])
def test_rows_and_state_are_the_same(name):
    assert differences(name) == []


@same_python
@same_libraries
def test_journal_entries_are_the_same_bytes():
    then, now = expected("journal.txt").splitlines(), journal_as_of_then()
    for one, two in zip(then, now, strict=False):
        assert one == two
    assert len(then) == len(now)


@same_python
def test_what_it_tells_beyond_that_is_one_entry():
    then, now = (went_on(facts_of_then=each)["journal.txt"] for each in (True, False))
    assert len(now.splitlines()) == len(then.splitlines()) + 1


@same_python
@same_libraries
def test_segments_snapshots_sink_buffers_and_histories_are_the_same_bytes():
    then, now = json.loads(expected("files.json")), json.loads(went_on()["files.json"])
    snapshots = json.loads(went_on()["snapshots.json"])
    assert snapshots
    now |= {key: story.digest(as_of_then(text.encode())) for key, text in snapshots.items()}
    assert now == then
    assert went_on()["kept.txt"] == expected("kept.txt")


@pytest.fixture
def directory(tmp_path):
    """A copy, for what may write to it."""
    return shutil.copytree(HERE / "begun" / "state", tmp_path / "state")


def asked(*arguments: str) -> Any:
    found = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return json.loads(found.output)


def test_verify_finds_everything_intact(directory):
    found = asked("verify", str(directory))
    assert found["intact"]
    assert found["files"]["segments"] > 100


def test_the_command_line_reads_it(directory):
    state = story.load(HERE / "begun").harness(changed=True).journal_state()
    history = asked("history", str(directory))["reconfigurations"]
    assert [told["id"] for told in history] == [r.id for r in state.coordination.records]
    assert asked("status", str(directory))["name"] == "test"


@same_python
def test_digests_and_fingerprints_of_every_kind_of_operator_are_the_same():
    then = json.loads((HERE / "digests.json").read_text())
    now = json.loads(json.dumps(samples.samples()))
    assert now.keys() == then.keys()
    for name, sample in then.items():
        assert now[name] == sample, name


def test_a_directory_with_a_journal_of_format_1_is_continued():
    store = early.load()
    formats = {json.loads(store.read(key).tobytes())["format"] for key in store.list("journal/")}
    assert formats == {1}
    batches = early.BEFORE + early.AFTER
    continued = early.harness(store, batches, names=map("third{}".format, count()))
    assert continued.journal_state().open_intents
    continued.start().run()
    whole = early.harness(MemoryStore(), batches)
    whole.start().run()
    assert continued.journal_state().last_committed == batches
    for name in ("totals", "windows", "spent"):
        assert continued.state_table(name) == whole.state_table(name)
        late, all_ = continued.outputs(f"{name}-out"), whole.outputs(f"{name}-out")
        assert set(range(early.BEFORE + 1, batches + 1)) <= late.keys()
        for timestep, rows in late.items():  # in another order: the rescale goes on
            assert sorted(map(str, rows.to_pylist())) == sorted(
                map(str, all_[timestep].to_pylist())
            )
