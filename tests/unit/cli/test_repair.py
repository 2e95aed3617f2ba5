"""`rechannel repair` shows what is wrong and mends it; `rechannel verify` sees the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rechannel as rc
from rechannel.state.keys import HEAD


def found(stopped, rechannel) -> list[str]:
    reaction = rechannel("repair", stopped.directory, "--json")
    ids = [finding["id"] for finding in json.loads(reaction.out)["found"]]
    assert reaction.code == (1 if ids else 0)
    return ids


def test_nothing_is_wrong(stopped, rechannel):
    assert rechannel("repair", stopped.directory).lines == ["Nothing is wrong."]
    assert found(stopped, rechannel) == []
    assert (Path(stopped.directory) / HEAD).is_file()


@pytest.mark.parametrize("many", [1, 3])
def test_deleted_entries_at_the_end_are_seen(stopped, rechannel, many):
    for path in stopped.files("journal")[-many:]:
        path.unlink()
    verified = rechannel("verify", stopped.directory)
    assert verified.code == 1
    assert f"the last {many} entries are gone" in verified.out
    reaction = rechannel("repair", stopped.directory)
    assert reaction.lines[0].startswith("entries-lost: the journal ends with entry ")
    command = f"  rechannel repair {stopped.directory} --do entries-lost  (for you to decide"
    assert any(line.startswith(command) for line in reaction.lines)
    assert rechannel("repair", stopped.directory, "--yes").code == 1
    assert "entries-lost" in found(stopped, rechannel)


def test_a_damaged_record_of_a_change_is_seen_and_mended(clicks, rechannel):
    clicks.push([("ann", 1)])
    clicks.running.reconfigure(rc.changes.rescale("users", 3)).wait(60)
    clicks.running.stop()
    [record] = clicks.files("reconfigurations")
    record.write_bytes(record.read_bytes()[:-5])
    verified = json.loads(rechannel("verify", clicks.directory, "--json").out)
    assert [damage["file"] for damage in verified["damages"]] == ["reconfigurations/r1.json"]
    assert rechannel("history", clicks.directory).code == 2
    reaction = rechannel("repair", clicks.directory, "--yes")
    assert reaction.code == 0
    assert reaction.lines == [
        "record-r1: done (write it again, without its latencies).",
        "Nothing else is wrong.",
    ]
    assert "rescale" in rechannel("history", clicks.directory).out
    assert rechannel("verify", clicks.directory).code == 0


def test_it_does_nothing_while_a_driver_runs(clicks, rechannel):
    clicks.push([("ann", 1)])
    clicks.running.reconfigure(rc.changes.rescale("users", 3)).wait(60)
    record = Path(clicks.directory) / "reconfigurations/r1.json"
    record.write_bytes(b"")
    reaction = rechannel("repair", clicks.directory, "--do", "record-r1")
    assert reaction.code == 2
    assert "the state directory is in use" in reaction.err
    assert record.read_bytes() == b""


def test_what_is_no_finding_is_refused(stopped, rechannel):
    reaction = rechannel("repair", stopped.directory, "--do", "everything")
    assert reaction.code == 2
    assert "there is no finding 'everything'" in reaction.err
