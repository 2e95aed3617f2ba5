"""What is found wrong in a state directory, and what becomes of it when somebody says so."""

from __future__ import annotations

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.journal.entries import Note
from rechannel.engine.journal.head import write_head
from rechannel.engine.journal.incarnations import SINKS, incarnation
from rechannel.engine.journal.lease import Holder, Lease, recorded_head
from rechannel.engine.journal.quarantine import put_in, quarantined
from rechannel.engine.journal.state import JournalState
from rechannel.engine.repair.doing import Hand, found, repair
from rechannel.engine.repair.evidence import Evidence
from rechannel.engine.repair.findings import findings
from rechannel.errors import RefusedError, StateInUseError
from rechannel.settings import Settings
from rechannel.state.keys import (
    HEAD,
    JOURNAL,
    LEASE,
    SEGMENTS,
    SNAPSHOTS,
    entry_key,
    number_of,
    segment_key,
)
from rechannel.testing import Harness, MemoryStore, Recorder, script

NOW = 1_000_000
HAND = Hand(
    holder=Holder(host="here", pid=7, started_ms=1, epoch=0, heartbeat_ms=0),
    id="hand",
    clock=lambda: NOW,
    started=lambda pid: 1 if pid == 7 else None,
)


def bench(store: MemoryStore, rows: int = 4, **options: object) -> Harness:
    """A sum by key over as many timesteps."""
    connector = script("k long, v long", [[{"k": 1, "v": n}] for n in range(rows)])
    stream = rc.read().memory(connector, name="in")
    sums = stream.key_by("k").aggregate(total=agg.sum("v"), name="sums")
    settings = Settings(tasks=1, bins=4, snapshot_every=2)
    return Harness(sums.write.memory("out", name="out"), store=store, settings=settings, **options)  # type: ignore[arg-type]


def done() -> MemoryStore:
    """A state directory of a job that was stopped, with a change in its history."""
    store = MemoryStore()
    process = bench(store).start()
    process.run()
    process.reconfigure(rc.changes.rescale("sums", 2))
    process.run()
    process.stop()
    write_head(store, process.journal.state.number)
    return store


def ids(store: MemoryStore) -> list[str]:
    return [finding.id for finding in found(store, HAND)]


def tear(store: MemoryStore, key: str) -> None:
    store.put(key, bytes(store.read(key))[:-20])


def state(store: MemoryStore) -> JournalState:
    return bench(store).journal_state()


def test_nothing_is_wrong_with_a_job_that_was_stopped():
    assert ids(done()) == []


def test_nothing_is_wrong_with_a_job_that_runs():
    store = MemoryStore()
    process = bench(store).start()
    while not any(True for _ in store.list(SEGMENTS)):
        process.step()
    Lease.acquire(store, holder(), clock=HAND.clock, started=HAND.started)
    assert ids(store) == []
    with pytest.raises(RefusedError, match="there is no finding 'open-timesteps'"):
        repair(store, HAND, ["open-timesteps"])


def holder(host: str = "there", pid: int = 9, entry: int = 0) -> Holder:
    return Holder(host=host, pid=pid, started_ms=1, epoch=0, heartbeat_ms=NOW, entry=entry)


def begun(drivers: int) -> MemoryStore:
    """As many drivers began the first timestep and died."""
    store = MemoryStore()
    for _ in range(drivers):
        process = bench(store).start()
        while not process.journal.state.open_intents:
            process.step()
    return store


def test_timesteps_that_were_begun_again_and_again_are_withdrawn():
    store = begun(3)
    (finding,) = found(store, HAND)
    assert (finding.id, finding.advised) == ("open-timesteps", True)
    assert "timestep 1 was planned and not committed; the first was begun 3 times" in finding.what
    assert [f.id for f in repair(store, HAND, None)] == ["open-timesteps"]
    assert ids(store) == []
    after = state(store)
    assert (after.open_intents, after.closed) == ((), True)
    harness = bench(store)
    harness.start().run()
    assert harness.state("sums").to_pylist() == [{"k": 1, "total": 6}]


def test_whether_to_withdraw_after_one_attempt_is_for_somebody_to_decide():
    store = begun(1)
    (finding,) = found(store, HAND)
    assert not finding.advised
    assert repair(store, HAND, None) == ()
    assert state(store).open_intents
    assert repair(store, HAND, ["open-timesteps"])
    assert not state(store).open_intents


def test_whoever_repairs_is_no_attempt():
    store = done()
    Harness.start(bench(store, rows=9)).step()
    before = state(store)
    assert before.open_intents
    store.put(LEASE, b"torn")
    tear(store, "reconfigurations/r1.json")
    assert [f.id for f in repair(store, HAND, ["record-r1"])] == ["record-r1"]
    assert state(store).attempts == before.attempts


def test_output_of_a_sink_that_is_gone_is_given_up():
    store = MemoryStore()
    harness = bench(store, recorders={"out": Recorder()})
    process = harness.start()
    while process.journal.state.last_committed != 2:
        process.driver.step()
        while len(process.executor):
            process.executor.run(0)
    notes = process.journal.state.notes["incarnations"]
    assert list(notes["sinks"]) == ["out"]
    assert set(process.journal.state.unpublished) == {1, 2}
    without = {**notes, "sinks": {}}
    process.journal.append(Note(kind="incarnations", body=without))
    left = {finding.id: finding for finding in found(store, HAND)}
    finding = left["unpublished-out"]
    assert "timesteps 1 to 2 (2 in all)" in finding.what
    assert not finding.advised
    repair(store, HAND, ["unpublished-out"])
    assert state(store).unpublished == {}


def test_a_damaged_record_of_a_change_is_written_again():
    store = done()
    whole = bytes(store.read("reconfigurations/r1.json"))
    tear(store, "reconfigurations/r1.json")
    assert ids(store) == ["record-r1"]
    repair(store, HAND, None)
    assert ids(store) == []
    assert len(bytes(store.read("reconfigurations/r1.json"))) > len(whole) // 2


def test_a_damaged_record_that_the_journal_has_forgotten_is_removed():
    store = done()
    store.put("reconfigurations/r99.json", b"nothing")
    assert ids(store) == ["record-r99"]
    repair(store, HAND, None)
    assert "reconfigurations/r99.json" not in set(store.list("reconfigurations/"))


def test_a_record_under_another_name_is_damaged():
    store = done()
    store.put("reconfigurations/r9.json", bytes(store.read("reconfigurations/r1.json")))
    (finding,) = found(store, HAND)
    assert "holds the record of r1" in finding.what


def test_records_that_were_never_written_are():
    store = done()
    store.delete("reconfigurations/r1.json")
    assert ids(store) == ["records-missing"]
    repair(store, HAND, None)
    assert ids(store) == []


def test_missing_files_are_named_and_nothing_can_be_done():
    store = done()
    gone = min(key for key in state(store).latest.files() if key.startswith(SEGMENTS))
    store.delete(gone)
    (finding,) = found(store, HAND)
    assert (finding.id, finding.action) == ("files-missing", None)
    assert gone in finding.what
    with pytest.raises(RefusedError, match="nothing can be done about 'files-missing' here"):
        repair(store, HAND, ["files-missing"])


def test_the_lease_of_a_dead_process_is_removed():
    store = done()
    Lease.acquire(store, holder("here", 5), clock=HAND.clock, started=HAND.started)
    assert ids(store) == ["lease"]
    repair(store, HAND, None)
    assert LEASE not in set(store.list(""))


def test_nobody_repairs_beside_a_driver():
    store = done()
    tear(store, "reconfigurations/r1.json")
    Lease.acquire(store, holder(), clock=HAND.clock, started=HAND.started)
    with pytest.raises(StateInUseError):
        repair(store, HAND, None)


def test_what_a_driver_has_written_between_the_look_and_the_lease_is_not_repaired():
    class Late(MemoryStore):
        """A driver runs, and stops, just before somebody takes the lease."""

        ran = False

        def put(self, key, data):
            if key == LEASE and not self.ran:
                self.ran = True
                process = bench(self, rows=6).start()
                process.run()
                process.stop()
            super().put(key, data)

    store, before = Late(), done()
    for key in before.list(""):
        store.put(key, bytes(before.read(key)))
    tear(store, "reconfigurations/r1.json")
    torn = bytes(store.read("reconfigurations/r1.json"))
    with pytest.raises(StateInUseError, match="nothing was changed: ask again"):
        repair(store, HAND, None)
    assert store.ran
    assert bytes(store.read("reconfigurations/r1.json")) == torn
    assert LEASE not in set(store.list(""))


def test_a_damaged_snapshot_is_removed_as_long_as_the_journal_can_be_read():
    store = done()
    newest = max(store.list(SNAPSHOTS))
    before = state(store)
    tear(store, newest)
    assert ids(store) == [f"snapshot-{number_of(newest)}"]
    repair(store, HAND, None)
    assert ids(store) == []
    assert state(store).last_committed == before.last_committed


def test_without_any_snapshot_only_a_copy_helps():
    store = done()
    for key in list(store.list(SNAPSHOTS)):
        tear(store, key)
    kinds = found(store, HAND)
    assert all(finding.action is None for finding in kinds)
    assert "journal" in [finding.id for finding in kinds]


def last_entry(store: MemoryStore) -> int:
    return max(number_of(key) or 0 for key in store.list(JOURNAL))


def test_a_torn_last_entry_is_removed_only_by_name():
    store = done()
    number = last_entry(store)
    tear(store, entry_key(number))
    (finding,) = found(store, HAND)
    assert (finding.id, finding.advised) == (f"entry-{number}", False)
    repair(store, HAND, None)
    assert ids(store) == [f"entry-{number}"]
    repair(store, HAND, [f"entry-{number}"])
    assert state(store).number == number - 1
    assert ids(store) == ["entries-lost"]  # the head had told of it


def test_a_damaged_entry_in_the_middle_needs_a_copy():
    store = done()
    number = last_entry(store)
    tear(store, entry_key(number - 1))
    assert [(f.id, f.action) for f in found(store, HAND)] == [(f"entry-{number - 1}", None)]


def test_a_gap_in_the_journal_needs_a_copy():
    store = done()
    store.delete(entry_key(last_entry(store) - 1))
    (finding,) = found(store, HAND)
    assert (finding.id, finding.action) == ("journal", None)
    assert "is missing" in finding.what


@pytest.mark.parametrize("told_by", [HEAD, LEASE])
def test_entries_that_are_gone_at_the_end_are_missed(told_by):
    store = done()
    number = last_entry(store)
    if told_by == LEASE:
        store.delete(HEAD)
        lease = Lease.acquire(store, holder("here", 5), clock=HAND.clock, started=HAND.started)
        lease.watch(lambda: number)
        lease.renew(lambda: None)
    store.delete(entry_key(number))
    store.delete(entry_key(number - 1))
    finding = next(f for f in found(store, HAND) if f.id == "entries-lost")
    assert f"{told_by} says so): the last 2 entries are gone" in finding.what
    assert not finding.advised
    repair(store, HAND, ["entries-lost"])
    assert "entries-lost" not in ids(store)


def test_a_lease_tells_of_the_journal_when_it_is_given_back():
    store = MemoryStore()
    lease = Lease.acquire(store, holder("here", 7), clock=HAND.clock, started=HAND.started)
    assert recorded_head(store) == 0
    lease.watch(lambda: 12)
    lease.renew(lambda: None)
    assert recorded_head(store) == 12
    lease.watch(lambda: 15)
    lease.release()
    assert recorded_head(store) == 15
    store.put(HEAD, b"torn")
    assert recorded_head(store) == 0


def test_files_of_timesteps_that_nobody_knows_of_are_told():
    store = done()
    known = state(store).last_committed or 0
    store.put(segment_key(operator="sums", timestep=known + 2, task=0, attempt="a"), b"x")
    (finding,) = found(store, HAND)
    assert (finding.id, finding.action) == ("later-files", None)


def test_files_of_withdrawn_timesteps_are_nothing_to_tell_of():
    store = begun(2)
    store.put(segment_key(operator="sums", timestep=1, task=0, attempt="a"), b"x")
    repair(store, HAND, None)
    assert ids(store) == []


def test_every_kind_looks_at_evidence_and_nothing_else():
    assert findings(Evidence(state=JournalState())) == ()
    assert [f.id for f in findings(Evidence(state=None, problem="gone"))] == ["journal"]


def owing() -> tuple[MemoryStore, Harness]:
    """Two sinks; one owes timesteps 1 and 2."""
    store = MemoryStore()
    harness = bench(store)
    process = harness.start()
    while process.journal.state.last_committed != 2:
        process.driver.step()
        while len(process.executor):
            process.executor.run(0)
    assert set(process.journal.state.unpublished) == {1, 2}
    return store, harness


def test_what_a_sink_owes_is_given_up_if_somebody_says_so():
    store, _ = owing()
    finding = next(f for f in found(store, HAND) if f.id == "owed-out")
    assert "timesteps 1 to 2 (2 in all)" in finding.what
    assert not finding.advised
    repair(store, HAND, None)
    assert set(state(store).unpublished) == {1, 2}
    repair(store, HAND, ["owed-out"])
    assert state(store).unpublished == {}


def test_sinks_in_quarantine_are_released_one_by_one():
    store, harness = owing()
    journal = harness.process.journal
    who = incarnation(journal.state.notes, SINKS, "out")
    note = put_in({}, who, sink="out", timestep=1, reason="no room")
    note = put_in({"quarantine": note}, "sink-99", sink="other", timestep=2, reason="no way")
    journal.append(Note(kind="quarantine", body=note))
    seen = {finding.id: finding for finding in found(store, HAND)}
    assert "since timestep 1: no room" in seen["quarantine-out"].what
    assert "it owes 2 timesteps" in seen["quarantine-out"].consequence
    repair(store, HAND, ["quarantine-out", "quarantine-other"])
    after = state(store)
    assert quarantined(after.notes) == {}
    assert set(after.unpublished) == {1, 2}
    again = bench(store)
    again.start().run()
    assert state(store).unpublished == {}


def test_files_that_are_nobodys_are_passed_over():
    store = done()
    store.put(f"{JOURNAL}README", b"x")
    store.put(f"{SNAPSHOTS}copy.json.bak", b"x")
    assert ids(store) == []
