from __future__ import annotations

import json

import pytest

from rechannel.cli.inspect import damage
from rechannel.cli.inspect.directory import open_directory
from rechannel.state.keys import entry_key


def flip(path, at: int) -> None:
    """One bit of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


def needed_segments(clicks):
    """Segments that the journal names."""
    from rechannel.engine.journal.reading import read_only

    store = open_directory(clicks.directory).store
    versions = read_only(store).versions.values()
    return {key for version in versions for key in version.files() if key.startswith("segments")}


def verified(clicks, rechannel):
    reaction = rechannel("verify", clicks.directory, "--json")
    facts = json.loads(reaction.out)
    assert reaction.code == (0 if facts["intact"] else 1)
    return facts


def test_everything_is_read(stopped, rechannel):
    facts = verified(stopped, rechannel)
    assert facts["intact"]
    assert facts["complete"]
    assert facts["files"]["journal"] == len(stopped.files("journal"))
    assert facts["files"]["segments"] == len(needed_segments(stopped))
    assert facts["files"]["outbox"] == len(stopped.files("outbox"))
    sizes = sum(path.stat().st_size for path in stopped.files("journal"))
    assert facts["bytes"]["journal"] == sizes


def test_a_running_job_is_intact(clicks, rechannel):
    for number in range(10):
        clicks.push([("ann", number), ("bob", number)])
        assert verified(clicks, rechannel)["intact"]


@pytest.mark.parametrize("part", [0.0, 0.3, 0.6, 0.999])
def test_a_flipped_bit_anywhere_in_a_segment_is_named(stopped, rechannel, part):
    for key in sorted(needed_segments(stopped)):
        path = stopped.directory / key
        whole = path.read_bytes()
        flip(path, int(part * len(whole)))
        facts = verified(stopped, rechannel)
        assert [found["file"] for found in facts["damages"]] == [key]
        path.write_bytes(whole)
    assert verified(stopped, rechannel)["intact"]


def test_all_damage_is_named_at_once(clicks, rechannel):
    for number in range(6):
        clicks.push([("ann", number), ("bob", number)])
    clicks.running.stop()
    snapshot, outbox = clicks.files("snapshots")[-1], clicks.files("outbox")[-1]
    segment = clicks.directory / min(needed_segments(clicks))
    for path in (snapshot, segment):
        flip(path, path.stat().st_size // 2)
    outbox.unlink()
    facts = verified(clicks, rechannel)
    wrong = [path.relative_to(clicks.directory).as_posix() for path in (snapshot, segment, outbox)]
    assert [found["file"] for found in facts["damages"]] == wrong
    assert facts["complete"]  # a damaged snapshot costs nothing: the entries behind it say the same
    shown = rechannel("verify", clicks.directory)
    assert shown.code == 1
    assert all(any(name in line for line in shown.lines) for name in wrong)


def test_a_damaged_entry_is_named_once_and_segments_are_still_read(stopped, rechannel):
    flip(stopped.directory / entry_key(3), 30)
    segment = stopped.directory / sorted(needed_later := stopped.files("segments"))[0]
    flip(segment, segment.stat().st_size // 2)
    facts = verified(stopped, rechannel)
    assert not facts["complete"]
    assert [found["file"] for found in facts["damages"]] == [
        entry_key(3),
        segment.relative_to(stopped.directory).as_posix(),
    ]
    assert facts["files"]["segments"] == len(needed_later) - 1
    assert "The journal cannot be read" in rechannel("verify", stopped.directory).out


def test_a_missing_entry_is_damage(stopped, rechannel):
    (stopped.directory / entry_key(3)).unlink()
    [found] = verified(stopped, rechannel)["damages"]
    assert entry_key(3) in found["problem"]
    assert "is missing" in found["problem"]


def test_an_entry_under_another_number_is_damage(stopped, rechannel):
    names = stopped.files("journal")
    names[-1].with_name(f"{len(names) + 1:020d}.json").write_bytes(names[-1].read_bytes())
    files = [found["file"] for found in verified(stopped, rechannel)["damages"]]
    assert entry_key(len(names) + 1) in files


@pytest.mark.parametrize("cut", [0, 10, 100])
def test_a_torn_outbox_file_is_damage(stopped, rechannel, cut):
    path = stopped.files("outbox")[-1]
    path.write_bytes(path.read_bytes()[:cut])
    [found] = verified(stopped, rechannel)["damages"]
    assert found["file"] == path.relative_to(stopped.directory).as_posix()


def test_a_damaged_record_of_a_source_is_named(stopped, rechannel):
    from rechannel.state.sealed import seal

    place = stopped.directory / "sources" / "clicks"
    place.mkdir(parents=True)
    (place / "schema.json").write_bytes(seal({"format": 1, "columns": "a INT"}))
    assert verified(stopped, rechannel)["files"]["sources"] == 1
    flip(place / "schema.json", 5)
    [found] = verified(stopped, rechannel)["damages"]
    assert found["file"] == "sources/clicks/schema.json"


def test_what_nobody_needs_may_be_anything(stopped, rechannel):
    place = stopped.directory / "segments" / "users"
    (place / "00000000000000000001-00000-zzz.arrow").write_bytes(b"left by a crash")
    facts = verified(stopped, rechannel)
    assert facts["intact"]
    assert facts["unreferenced"] >= 1


def test_a_file_that_goes_while_it_is_needed_no_more_is_no_damage(clicks, rechannel, monkeypatch):
    clicks.push([("ann", 1)])
    real = damage.verify_segment
    gone = []

    def swept(store, key, digest=None):
        if not gone:
            gone.append(key)
            for number in range(8):
                clicks.push([("ann", number)])
            (clicks.directory / key).unlink(missing_ok=True)
        return real(store, key, digest)

    monkeypatch.setattr(damage, "verify_segment", swept)
    facts = verified(clicks, rechannel)
    assert gone
    assert gone[0] not in needed_segments(clicks)
    assert facts["intact"]


def test_progress_is_told(stopped):
    told = []
    directory = open_directory(stopped.directory)
    damage.verify_everything(directory, lambda *facts: told.append(facts))
    assert {kind for kind, _, _ in told} == {"journal", "segments", "outbox"}
    assert all(done < total for _, done, total in told)
