"""Runs of operators with many tasks, as the journal and its snapshots hold them."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from rechannel.engine.journal.entries import COLUMNS, FORMAT, Committed, Entry
from rechannel.engine.journal.kept import Version
from rechannel.engine.journal.log import _as_read
from rechannel.engine.journal.snapshot import from_bytes, to_bytes
from rechannel.engine.journal.state import JournalState
from rechannel.errors import DamagedStateError
from rechannel.model.hashspace import SPACE, Intervals
from rechannel.state.manifest import Edit, Manifest
from rechannel.state.run import Run
from rechannel.state.run_table import MOST_PARTS, RunTable
from rechannel.state.sealed import seal, unseal

TASKS = 3


def run(seq: int, task: int) -> Run:
    clip = Intervals(((task * SPACE // TASKS, (task + 1) * SPACE // TASKS),))
    return Run(
        segment=f"segments/sums/{seq}-{task}",
        clip=clip,
        seq=seq,
        level=0,
        rows=seq,
        size=9,
        span=clip.width,
    )


def edit(seq: int) -> Edit:
    return Edit(add=RunTable.of([run(seq, task) for task in range(TASKS)]))


def entry(seq: int) -> Entry:
    body = Committed(timestep=seq, edits={"sums": edit(seq)}, offsets={"in": {"n": (1, 2)}})
    return Entry(number=9, epoch=1, body=body)


def test_a_commit_is_read_as_it_was_written():
    written = entry(4).to_bytes()
    assert json.loads(written)["format"] == COLUMNS
    read = Entry.from_bytes(written, name="entry 9")
    assert isinstance(read.body, Committed)
    assert read.body.edits == {"sums": edit(4)}
    assert isinstance(read.body.edits["sums"].add, RunTable)


def test_the_driver_goes_on_with_what_a_restart_would_read():
    written = entry(4)
    data = written.to_bytes()
    assert _as_read(written, data) == Entry.from_bytes(data, name="entry 9")
    assert _as_read(written, data).body.offsets == {"in": {"n": [1, 2]}}  # type: ignore[union-attr]


def test_a_commit_of_few_runs_has_the_format_of_before():
    few = Committed(timestep=4, edits={"sums": Edit(add=tuple(edit(4).add))})
    assert json.loads(Entry(number=9, epoch=1, body=few).to_bytes())["format"] == FORMAT


@pytest.mark.parametrize("arrow", ["", "AAAA", "no base64!", 7])
def test_columns_that_are_none_are_damage(arrow):
    record = unseal(entry(4).to_bytes(), name="entry 9", newest=COLUMNS)
    record["body"]["edits"]["sums"]["add"]["arrow"] = arrow
    with pytest.raises(DamagedStateError, match="entry 9 has its right checksum but invalid"):
        Entry.from_bytes(seal(record), name="entry 9")


def states(count: int) -> JournalState:
    """A state whose kept versions share parts of tables."""
    manifest, versions = Manifest(), {}
    for seq in range(1, count + 1):
        manifest = manifest.apply(edit(seq))
        manifests = {"sums": manifest, "few": Manifest((run(seq, 0),))}
        versions[seq] = Version(manifests=manifests, outbox={}, stream_ms=seq, times={})
    return replace(JournalState(), last_committed=count, versions=versions, keep_versions=64)


def test_a_snapshot_has_each_part_of_a_table_once():
    state = states(5)
    data = to_bytes(state)
    record = json.loads(data)
    assert record["format"] == COLUMNS
    assert len(record["parts"]) == 5  # one for each timestep
    read = from_bytes(data, name="snapshot")
    assert read.versions == state.versions
    newest, before = (read.versions[t].manifests["sums"].runs for t in (5, 4))
    assert isinstance(newest, RunTable)
    assert isinstance(before, RunTable)
    assert set(map(id, before.parts)) < set(map(id, newest.parts))
    assert to_bytes(read) == data


def test_a_table_has_few_parts():
    state = states(2 * MOST_PARTS)
    tables = [version.manifests["sums"].runs for version in state.versions.values()]
    assert all(len(table.parts) <= MOST_PARTS for table in tables)  # type: ignore[attr-defined]
    assert from_bytes(to_bytes(state), name="snapshot").versions == state.versions


def test_a_snapshot_without_tables_has_the_format_of_before():
    few = Version(manifests={"few": Manifest((run(1, 0),))}, outbox={}, stream_ms=1, times={})
    record = json.loads(to_bytes(replace(JournalState(), last_committed=1, versions={1: few})))
    assert record["format"] < COLUMNS
    assert "parts" not in record
    assert "tables" not in record["versions"][0][1]
