from __future__ import annotations

import threading
from concurrent.futures import Executor, Future

import pytest

from rechannel.control.events import Called, Installed
from rechannel.engine.journal import log as journal_module
from rechannel.engine.journal.entries import (
    COLUMNS,
    Closed,
    Committed,
    Controlling,
    Entry,
    Intent,
    Note,
    Opened,
)
from rechannel.engine.journal.log import Journal
from rechannel.engine.journal.reading import (
    CONTROL_BYTES_PER_COMMIT,
    CONTROLS_PER_COMMIT,
    kept_entries,
    read_only,
)
from rechannel.errors import DamagedStateError, FencedError, NewerFormatError, StorageError
from rechannel.model.configuration import Configuration
from rechannel.state.keys import entry_key, snapshot_key
from rechannel.state.sealed import seal
from rechannel.state.stores.faulty import Fault, FaultKind, FaultyStore
from rechannel.state.stores.local import Durability, LocalStore
from rechannel.state.stores.memory import MemoryStore
from tests.support.elsewhere import Elsewhere


@pytest.fixture(params=[MemoryStore, Elsewhere])
def store(request):
    """Entries of a store on other hosts are read several at a time."""
    return request.param()


def opened(pid: int = 1) -> Opened:
    return Opened(host="here", pid=pid, time_ms=0, fingerprint="f", version="0")


def start(store, *, pid: int = 1, snapshot_every: int = 1000, keep_versions: int = 3) -> Journal:
    journal, _ = Journal.open(store, keep_versions=keep_versions, snapshot_every=snapshot_every)
    journal.append(opened(pid))
    return journal


def commit(journal: Journal, times: int = 1) -> None:
    """Run empty timesteps: two entries each."""
    for _ in range(times):
        last = journal.state.last_intended
        timestep = 1 if last is None else last + 1
        journal.append(
            Intent(
                timestep=timestep,
                sources={},
                configuration_version=1,
                stream_ms=0,
                configuration=None if last else Configuration(),
            )
        )
        journal.append(Committed(timestep=timestep, offsets={"s": timestep}))


def names(store, prefix: str) -> list[int]:
    return [int(key[len(prefix) :].removesuffix(".json")) for key in store.list(prefix)]


def damage(store, key: str) -> None:
    store.put(key, bytes(store.read(key))[:-1] + b"]")


def test_opening_reads_and_writes_nothing(store):
    journal, state = Journal.open(store, keep_versions=4, snapshot_every=10)
    assert (state.number, state.keep_versions) == (0, 4)
    assert journal.state is state
    assert list(store.list("")) == []


def test_entries_are_numbered_files(store):
    journal = start(store)
    state = journal.append(Note(kind="a", body=(1, 2)))
    assert state is journal.state
    assert names(store, "journal/") == [1, 2]
    entry = Entry.from_bytes(store.read(entry_key(2)), name="x")
    assert (entry.number, entry.epoch, entry.body) == (2, 1, Note(kind="a", body=[1, 2]))


def test_the_state_while_running_is_the_state_after_a_restart(store):
    journal = start(store)
    journal.append(Note(kind="a", body=(1, {"b": (2,)})))
    commit(journal, 5)
    _, state = Journal.open(store, keep_versions=3, snapshot_every=10)
    assert state == journal.state == read_only(store)
    assert state.notes == {"a": [1, {"b": [2]}]}


def test_what_the_rules_forbid_is_not_written(store):
    journal = start(store)
    with pytest.raises(ValueError, match="cannot be committed"):
        journal.append(Committed(timestep=1))
    with pytest.raises(TypeError):
        journal.append(Note(kind="a", body={1, 2}))
    assert names(store, "journal/") == [1]


def test_readers_keep_as_many_versions_as_the_driver(store):
    commit(start(store, keep_versions=2), 5)
    assert list(read_only(store).versions) == [4, 5]
    _, state = Journal.open(store, keep_versions=1, snapshot_every=1)
    assert list(state.versions) == [5]


def test_snapshots_are_rarer_where_sinks_owe_much(store, monkeypatch):
    monkeypatch.setattr(journal_module, "OWED_PER_COMMIT", 2)
    journal = start(store, snapshot_every=4)
    taken, known = [], []
    for number in range(1, 61):
        journal.append(
            Intent(
                timestep=number,
                sources={},
                configuration_version=1,
                stream_ms=0,
                configuration=None if number > 1 else Configuration(),
            )
        )
        journal.append(Committed(timestep=number, staged={"out": {}}))
        if names(store, "snapshots/") != known:
            known = names(store, "snapshots/")
            taken.append(number)
    # After 4 commits, and one more for every two timesteps that are owed by then: 7, 7 + 14, 21 + 28.
    assert taken == [8, 22, 50]
    assert read_only(store) == journal.state
    assert len(journal.state.unpublished) == 60


def test_snapshots_are_taken_and_what_lies_behind_them_goes(store):
    journal = start(store, snapshot_every=3)
    commit(journal, 3)
    assert names(store, "snapshots/") == []
    commit(journal)
    assert names(store, "snapshots/") == [7]
    assert names(store, "journal/") == list(range(1, 10))
    commit(journal, 3)
    assert names(store, "snapshots/") == [7, 13]
    assert names(store, "journal/") == [1, *range(8, 16)]  # the opening stays
    commit(journal, 3)
    assert names(store, "snapshots/") == [13, 19]
    assert names(store, "journal/") == [1, *range(14, 22)]
    assert read_only(store) == journal.state
    assert [entry.number for entry in kept_entries(store)] == [*range(14, 22)]


def test_a_restart_goes_on_counting_commits(store):
    commit(start(store, snapshot_every=3), 2)
    journal = start(store, snapshot_every=3)
    commit(journal, 1)
    journal.append(Closed(time_ms=0))
    assert names(store, "snapshots/") == [8]


def test_snapshot_every_is_at_least_one(store):
    with pytest.raises(ValueError, match="at least 1 commit"):
        Journal.open(store, keep_versions=1, snapshot_every=0)


def test_a_driver_that_was_replaced_cannot_write(store):
    old = start(store, pid=1)
    commit(old)
    new = start(store, pid=2)
    for _ in range(2):
        with pytest.raises(FencedError, match=r"host here with process id 2 took over in epoch 2"):
            old.append(Note(kind="a", body=1))
    commit(new)
    with pytest.raises(FencedError, match="process id 2"):
        commit(old)
    assert read_only(store) == new.state


def test_a_driver_that_slept_through_snapshots_cannot_write(store):
    old = start(store, pid=1)
    new = start(store, pid=2, snapshot_every=1)
    commit(new, 5)
    assert names(store, "journal/")[:3] == [1, old.state.next_number, 9]
    with pytest.raises(FencedError, match="process id 2 took over in epoch 2"):
        old.append(Note(kind="a", body=1))
    assert read_only(store) == new.state


def test_every_driver_that_slept_through_all_others_is_fenced_by_its_successor(store):
    drivers = []
    for pid in range(1, 5):
        drivers.append(start(store, pid=pid, snapshot_every=1))
        commit(drivers[-1], 4)
    entries = names(store, "journal/")
    assert entries[:4] == [1, 10, 19, 28]  # openings, and nothing else, up to the older snapshot
    assert entries[4] > 29
    for old in drivers[:-1]:
        assert entry_key(old.state.next_number) in store.list("journal/")
        with pytest.raises(FencedError, match="process id 4 took over in epoch 4"):
            old.append(Note(kind="a", body=1))
    assert names(store, "journal/") == entries
    assert read_only(store) == drivers[-1].state
    assert drivers[-1].state.opened_at == (1, 10, 19, 28)


def test_an_opening_at_a_number_that_was_deleted_is_taken_back(store):
    commit(start(store, pid=1, snapshot_every=1), 1)
    late, _ = Journal.open(store, keep_versions=3, snapshot_every=1)
    driver = start(store, pid=2, snapshot_every=1)
    driver.append(Note(kind="a", body=1))
    commit(driver, 6)
    overslept = late.state.next_number + 1
    late._state = driver.state.__class__(
        number=overslept - 1, epoch=late.state.epoch
    )  # read by an early reader
    assert overslept not in names(store, "journal/")
    state = late.append(opened(3))
    assert (state.epoch, state.last_committed) == (3, 7)
    assert overslept not in names(store, "journal/")
    assert read_only(store) == state


def test_an_opening_that_another_driver_has_gone_on_from_stays(store, monkeypatch):
    """The driver that opened slept before it asked whether its number was a deleted one."""
    zombie = start(store, pid=1, snapshot_every=2)
    commit(zombie)
    late, _ = Journal.open(store, keep_versions=3, snapshot_every=2)
    asked = Journal._may_be_late
    newest = []

    def slept(journal, number):
        if journal is late and not newest:
            newest.append(start(store, pid=3, snapshot_every=2))
            commit(newest[0], 6)
        return asked(journal, number)

    monkeypatch.setattr(Journal, "_may_be_late", slept)
    number = late.state.next_number
    state = late.append(opened(2))
    assert number in names(store, "journal/")
    assert (state.epoch, state.last_committed) == (4, 7)
    assert {number, state.number} <= set(state.opened_at)
    with pytest.raises(FencedError):
        zombie.append(Note(kind="a", body=1))
    assert read_only(store) == state


# Written while the driver goes on --------------------------------------------------------------------


class Panic(BaseException):
    """What libraries in Rust fail with when they find a mistake of their own."""


class Held(Executor):
    """Makes calls when a test says so."""

    def __init__(self):
        self.calls = []

    def submit(self, fn, /, *args):
        future = Future()
        self.calls.append((future, lambda: fn(*args)))
        return future

    def make(self):
        future, call = self.calls.pop(0)
        try:
            future.set_result(call())
        except (StorageError, Panic) as error:
            future.set_exception(error)


def intent(timestep):
    return Intent(
        timestep=timestep,
        sources={},
        configuration_version=1,
        stream_ms=0,
        configuration=None if timestep > 1 else Configuration(),
    )


def held(store):
    writer = Held()
    journal, _ = Journal.open(store, keep_versions=3, snapshot_every=1000, writer=writer)
    journal.append(opened())
    return journal, writer


def test_an_entry_that_is_appended_soon_counts_for_its_driver_at_once(store):
    journal, writer = held(store)
    state = journal.append_soon(intent(1))
    assert journal.state is state
    assert (state.number, state.last_intended) == (2, 1)
    assert read_only(store).last_intended is None
    writer.make()
    journal.settle()
    assert read_only(store) == state == journal.latest()


@pytest.mark.parametrize("how", ["append", "append_soon", "settle", "latest"])
def test_what_comes_next_waits_for_it(store, how):
    journal, writer = held(store)
    journal.append_soon(intent(1))
    entry = Committed(timestep=1) if how == "append" else intent(2)
    call = getattr(journal, how)
    arguments = (entry,) if how.startswith("append") else ()
    thread = threading.Thread(target=call, args=arguments)
    thread.start()
    thread.join(0.1)
    assert thread.is_alive()
    assert names(store, "journal/") == [1]
    writer.make()
    thread.join(60)
    assert not thread.is_alive()
    assert read_only(store).last_intended == 1


def test_one_that_finds_its_number_taken_stops_everybody(store):
    journal, writer = held(store)
    before = journal.state
    journal.append_soon(intent(1))
    new = start(store, pid=2)
    writer.make()
    for _ in range(2):
        with pytest.raises(FencedError, match="process id 2 took over in epoch 2"):
            journal.append(Committed(timestep=1))
        assert journal.state == before
    with pytest.raises(FencedError, match="process id 2"):
        journal.settle()
    assert isinstance(journal.fenced(), FencedError)
    assert read_only(store) == new.state


def test_one_that_the_store_refused_leaves_the_rest_to_another_opening():
    store = MemoryStore()
    journal, writer = held(FaultyStore(store, [None, Fault(kind=FaultKind.FULL)]))
    journal.append_soon(intent(1))
    writer.make()
    for _ in range(2):
        with pytest.raises(StorageError, match="No space"):
            journal.append(Note(kind="a", body=1))
    assert journal.fenced() is None
    assert names(store, "journal/") == [1]
    assert journal.state == read_only(store)


def test_one_that_fails_with_no_exception_leaves_no_gap(store, monkeypatch):
    journal, writer = held(store)
    create = store.create

    def panics(key, data):
        monkeypatch.setattr(store, "create", create)
        raise Panic

    monkeypatch.setattr(store, "create", panics)
    journal.append_soon(intent(1))
    writer.make()
    assert journal.fenced() is None  # the heartbeat is the first to hear of it
    for call in (journal.settle, lambda: journal.append(Committed(timestep=1))):
        with pytest.raises(
            StorageError, match=r"could not be written \(Panic\(\)\); start the job again"
        ):
            call()
    assert names(store, "journal/") == [1]
    assert journal.state == read_only(store)


def test_a_wait_that_is_interrupted_leaves_the_entry_to_the_next_one(store, monkeypatch):
    journal, writer = held(store)
    journal.append_soon(intent(1))
    (future, _) = writer.calls[0]

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(future, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        journal.settle()
    monkeypatch.undo()
    writer.make()
    journal.append(Committed(timestep=1))
    assert read_only(store) == journal.state


def test_old_entries_are_deleted_beside_the_driver(store):
    cleaner = Held()
    journal, _ = Journal.open(store, keep_versions=3, snapshot_every=2, cleaner=cleaner)
    journal.append(opened())
    commit(journal, 9)
    assert len(cleaner.calls) == 1  # the next one deletes more
    assert names(store, "journal/") == [*range(1, journal.state.number + 1)]
    assert len(names(store, "snapshots/")) > 2
    cleaner.make()
    oldest, _ = names(store, "snapshots/")
    taken = [each for each in names(store, "journal/") if each <= oldest]
    assert 1 in taken  # the opening stays
    assert len(taken) < oldest
    commit(journal, 6)
    cleaner.make()
    assert read_only(store) == journal.state


def test_without_a_writer_it_is_written_at_once(store):
    journal = start(store)
    journal.append_soon(intent(1))
    assert read_only(store) == journal.state
    with pytest.raises(ValueError, match="the next one is 2"):
        journal.append_soon(intent(1))
    start(store, pid=2)
    with pytest.raises(FencedError, match="process id 2"):
        journal.append_soon(intent(2))


def test_the_snapshot_of_a_driver_that_was_replaced_does_no_harm(store):
    old = start(store, pid=1, snapshot_every=2)
    commit(old, 2)
    new = start(store, pid=2, snapshot_every=2)
    commit(new, 9)
    before = names(store, "snapshots/")
    with pytest.raises(FencedError):
        old.append(Note(kind="a", body=1))
    assert names(store, "snapshots/") == before
    assert read_only(store) == new.state


def test_a_driver_that_takes_over_reads_what_came_meanwhile(store):
    old = start(store, pid=1)
    new, _ = Journal.open(store, keep_versions=3, snapshot_every=2)
    commit(old, 3)
    state = new.append(opened(2))
    assert (state.epoch, state.last_committed) == (2, 3)
    with pytest.raises(FencedError):
        commit(old)
    commit(new)
    assert read_only(store) == new.state
    assert names(store, "snapshots/") != []


def test_two_journals_in_one_epoch_notice(store):
    first = start(store)
    twin = Journal(store, first.state, snapshot_every=5, since_snapshot=0)
    first.append(Note(kind="a", body=1))
    with pytest.raises(FencedError, match="entry 2 exists already in epoch 1"):
        twin.append(Note(kind="a", body=1))


def test_a_replaced_driver_of_an_older_version_stops_too(store):
    old = start(store)
    store.put(entry_key(2), seal({"format": 2}))
    with pytest.raises(FencedError, match="its driver cannot be read"):
        old.append(Note(kind="a", body=1))


def test_threads_may_append(store):
    journal = start(store)
    writers = [
        threading.Thread(target=journal.append, args=(Note(kind=str(n), body=n),))
        for n in range(16)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert journal.state.number == 17
    assert read_only(store).notes == {str(n): n for n in range(16)}


def test_a_full_disk_stops_before_the_commit():
    store = MemoryStore()
    fails = [None] * 5 + [Fault(kind=FaultKind.FULL)]
    journal = start(FaultyStore(store, fails), snapshot_every=2)
    commit(journal, 2)
    with pytest.raises(StorageError, match="snapshots/"):
        journal.append(Note(kind="a", body=1))
    assert journal.append(Note(kind="a", body=1)) == read_only(store)


@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_gap_is_named(store, number):
    commit(start(store), 2)
    store.delete(entry_key(number))
    for read in [read_only, start]:
        with pytest.raises(DamagedStateError, match=f"{entry_key(number)} is missing, but entry"):
            read(store)


@pytest.mark.parametrize("number", [1, 3, 5])
def test_a_damaged_entry_is_named(store, number):
    commit(start(store), 2)
    damage(store, entry_key(number))
    for read in [read_only, start]:
        with pytest.raises(DamagedStateError, match=f"journal entry {entry_key(number)} does not"):
            read(store)


def test_an_entry_in_the_wrong_place_is_damage(store):
    commit(start(store), 2)
    store.put(entry_key(3), store.read(entry_key(2)))
    with pytest.raises(DamagedStateError, match=r"contradicts.*entry 2 does not follow entry 2"):
        read_only(store)


def test_a_damaged_snapshot_is_replaced_by_the_one_before(store):
    journal = start(store, snapshot_every=2)
    commit(journal, 7)
    older, newer = names(store, "snapshots/")
    damage(store, snapshot_key(newer))
    assert read_only(store) == journal.state
    again = start(store, snapshot_every=2)
    commit(again, 3)
    assert read_only(store) == again.state
    damage(store, snapshot_key(names(store, "snapshots/")[0]))
    assert read_only(store) == again.state
    assert older not in names(store, "snapshots/")


def test_two_damaged_snapshots_are_damage(store):
    commit(start(store, snapshot_every=2), 7)
    for number in names(store, "snapshots/"):
        damage(store, snapshot_key(number))
    with pytest.raises(DamagedStateError, match=f"{entry_key(2)} is missing"):
        read_only(store)


def test_a_damaged_snapshot_does_not_hide_a_lost_tail(store):
    commit(start(store, snapshot_every=2), 7)
    older, newer = names(store, "snapshots/")
    damage(store, snapshot_key(newer))
    for number in names(store, "journal/"):
        if number >= newer:
            store.delete(entry_key(number))
    with pytest.raises(DamagedStateError, match=rf"{entry_key(newer)} is missing, but entry"):
        read_only(store)
    for number in names(store, "journal/"):
        store.delete(entry_key(number))
    with pytest.raises(DamagedStateError, match=f"{entry_key(older + 1)} is missing"):
        read_only(store)


def test_formats_of_later_versions_are_refused(store):
    commit(start(store, snapshot_every=2), 3)
    store.put(entry_key(99), b"")
    store.delete(entry_key(99))
    store.put(snapshot_key(6), seal({"format": COLUMNS + 1}))
    with pytest.raises(NewerFormatError, match="snapshot snapshots/"):
        read_only(store)
    store.delete(snapshot_key(6))
    store.put(entry_key(read_only(store).next_number), seal({"format": COLUMNS + 1}))
    with pytest.raises(NewerFormatError, match="journal entry"):
        read_only(store)


def test_stray_files_are_none_of_its_business(store):
    journal = start(store)
    store.put("journal/notes.txt", b"mine")
    store.put("snapshots/old.json", b"mine")
    assert read_only(store) == journal.state


class BusyStore(MemoryStore):
    """A store in which something happens around every reading."""

    happens = staticmethod(lambda: None)

    def read(self, key, start=0, length=None):
        self.happens()
        return super().read(key, start, length)

    def list(self, prefix):
        self.happens()
        found = list(super().list(prefix))
        self.happens()
        return iter(found)


@pytest.mark.parametrize("snapshot_every", [1, 1000])
@pytest.mark.parametrize("every", [1, 2, 5, 11])
def test_a_reader_bears_a_driver_that_appends_and_deletes(every, snapshot_every):
    store = BusyStore()
    journal = start(store, snapshot_every=snapshot_every)
    commit(journal, 3)
    calls = [0]

    def drive() -> None:
        calls[0] += 1
        if calls[0] % every == 0 and calls[0] < 60:
            store.happens = lambda: None
            commit(journal)
            store.happens = drive

    for _ in range(5):
        before = journal.state.number
        calls[0], store.happens = 0, drive
        state = read_only(store)
        store.happens = lambda: None
        assert before <= state.number <= journal.state.number
        assert state.offsets == {"s": state.last_committed}
    assert read_only(store) == journal.state


def test_a_journal_on_disk(tmp_path):
    store = LocalStore(tmp_path, Durability.PROCESS)
    journal = start(store, snapshot_every=2)
    commit(journal, 5)
    assert read_only(store) == journal.state
    assert names(store, "snapshots/") == [5, 9]


def test_entries_of_controllers_on_an_idle_stream_do_not_pile_up(store):
    journal = start(store, snapshot_every=4)
    installed = Installed(controller="one", time_ms=1, path="m:C", state="")
    journal.append(Controlling(events=(installed,)))
    most = 0
    for number in range(400):
        journal.append(Controlling(events=(Called(controller="one", time_ms=number),)))
        most = max(most, len(names(store, "journal/")))
    assert most <= 2 * (4 * CONTROLS_PER_COMMIT + 1)
    assert Journal.open(store, keep_versions=3, snapshot_every=4)[1] == journal.state
    assert journal.state.board.seat("one").calls == 400


def test_large_entries_of_controllers_bring_a_snapshot_sooner(store):
    journal = start(store, snapshot_every=4)
    for _ in range(20):
        state = "x" * CONTROL_BYTES_PER_COMMIT
        journal.append(
            Controlling(events=(Installed(controller="one", time_ms=1, path="m:C", state=state),))
        )
    assert len(names(store, "journal/")) <= 10


@pytest.mark.parametrize("arrived", [True, False])
def test_a_user_who_interrupts_an_entry_leaves_it_to_the_driver(arrived):
    class Interrupted(MemoryStore):
        """Loses the answer to one entry; the user does not wait for the next attempt."""

        once = False

        def create(self, key: str, data: bytes) -> bool:
            if not self.once:
                return super().create(key, data)
            self.once = False
            if arrived:
                super().create(key, data)
            raise KeyboardInterrupt

    store = Interrupted()
    journal = start(store)
    commit(journal)
    store.once = True
    with pytest.raises(KeyboardInterrupt):
        journal.append(Note(kind="a", body=1))
    commit(journal)
    assert journal.state.notes["a"] == 1
    assert read_only(store) == journal.state
