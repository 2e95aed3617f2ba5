"""What a sweep removes, and what it must not."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rechannel.engine.journal.kept import Version
from rechannel.engine.journal.log import OWED_PER_COMMIT
from rechannel.engine.journal.state import JournalState
from rechannel.engine.loop.housekeeping import HOUSEKEEPING, Housekeeper, sweep
from rechannel.errors import StorageError
from rechannel.model.hashspace import Intervals
from rechannel.state.keys import segment_key, sink_buffer_key
from rechannel.state.manifest import Manifest
from rechannel.state.run import Run
from rechannel.state.stores.memory import MemoryStore
from rechannel.telemetry.troubles import Troubles
from rechannel.threads import DaemonThreads


def segment(timestep: int, attempt: str = "a") -> str:
    return segment_key(operator="op", timestep=timestep, task=0, attempt=attempt)


def outbox(timestep: int, attempt: str = "a") -> str:
    return sink_buffer_key(operator="op", timestep=timestep, task=0, attempt=attempt)


def version(*segments: str, outboxes: tuple[str, ...] = ()) -> Version:
    runs = tuple(
        Run(
            segment=key,
            clip=Intervals.everything(),
            seq=i,
            level=0,
            rows=1,
            size=1,
            span=1,
        )
        for i, key in enumerate(segments)
    )
    return Version(manifests={"op": Manifest(runs)}, outbox={"op": outboxes})


def committed(last: int, versions: dict[int, Version], **more: object) -> JournalState:
    return JournalState(last_committed=last, versions=versions, keep_versions=4, **more)  # type: ignore[arg-type]


def swept(store: MemoryStore, state: JournalState, unread: int | None = None) -> set[str]:
    before = set(store.list(""))
    count = sweep(store, lambda: state, lambda: unread)
    gone = before - set(store.list(""))
    assert len(gone) == count
    return gone


def store_of(*keys: str) -> MemoryStore:
    store = MemoryStore()
    for key in keys:
        store.put(key, b"x")
    return store


def test_what_no_kept_version_names_goes():
    store = store_of(segment(1), segment(2), segment(2, "b"), outbox(1), outbox(2))
    state = committed(2, {2: version(segment(2), outboxes=(outbox(2),))})
    assert swept(store, state) == {segment(1), segment(2, "b"), outbox(1)}


def test_files_of_timesteps_that_are_not_committed_stay():
    store = store_of(segment(3), outbox(3), segment(9))
    assert swept(store, committed(2, {2: version()})) == set()


def test_before_the_first_commit_nothing_goes():
    assert swept(store_of(segment(1)), JournalState()) == set()


def test_what_waits_to_be_published_stays():
    store = store_of(outbox(1), outbox(2), segment(1))
    state = committed(
        3,
        {3: version()},
        unpublished={1: {"out": {"outbox": {"op": [outbox(1)]}}}, 2: {"out": {"staged": {}}}},
    )
    assert swept(store, state) == {outbox(2), segment(1)}


def test_what_a_sink_has_still_to_read_stays():
    """Of sinks that promise nothing the journal does not tell."""
    store = store_of(outbox(1), outbox(2), outbox(3))
    assert swept(store, committed(9, {9: version()}), unread=2) == {outbox(1)}


def test_other_files_are_none_of_its_business():
    store = store_of("journal/00000000000000000001.json", "sources/in/seen.json", "segments/odd")
    assert swept(store, committed(2, {2: version()})) == set()


def test_keys_are_listed_before_the_journal_is_read():
    """What is written and committed in between is not in the list."""
    store, calls = MemoryStore(), []
    listed: Callable[[str], object] = store.list

    class Spy(MemoryStore):
        def list(self, prefix: str):
            calls.append("list")
            return listed(prefix)

    def state() -> JournalState:
        calls.append("state")
        return JournalState()

    def unread() -> int | None:
        calls.append("unread")
        return None

    sweep(Spy(), state, unread)
    assert calls == ["list", "list", "state", "unread"]


class Journal:
    """As much of a journal as a housekeeper looks at."""

    def __init__(self, state: JournalState) -> None:
        self.state = state


def nobody() -> int | None:
    return None


def check_sweeps_at(tick: int, state: JournalState, every: int) -> None:
    """A segment that no version names goes at this commit, and not before."""
    store = store_of(segment(1))
    keeper = Housekeeper(store, Journal(state), every)  # type: ignore[arg-type]
    for _ in range(tick - 1):
        keeper.tick(nobody)
    keeper.finish()
    assert list(store.list("")) == [segment(1)]
    keeper.tick(nobody)
    keeper.finish()
    assert list(store.list("")) == []


def test_a_housekeeper_sweeps_now_and_then():
    check_sweeps_at(3, committed(2, {2: version()}), every=3)


def test_sweeps_are_rarer_where_sinks_owe_much():
    owed = {timestep: {"out": {}} for timestep in range(1, 2 * OWED_PER_COMMIT + 1)}
    check_sweeps_at(5, committed(2, {2: version()}, unpublished=owed), every=3)


def test_a_sweep_that_fails_is_told_and_harms_nobody():
    class Full(MemoryStore):
        full = True

        def delete(self, key: str) -> None:
            if self.full:
                raise StorageError(key)
            super().delete(key)

    store = Full()
    store.put(segment(1), b"x")
    troubles = Troubles()
    journal = Journal(committed(2, {2: version()}))
    keeper = Housekeeper(store, journal, 1, trouble=troubles)  # type: ignore[arg-type]
    keeper.tick(nobody)
    keeper.finish()
    assert troubles.current == {HOUSEKEEPING: segment(1)}
    store.full = False
    keeper.tick(nobody)
    keeper.finish()
    assert troubles.current == {}
    assert troubles.counts == {HOUSEKEEPING: 1}


def test_files_are_removed_side_by_side_where_each_is_a_request():
    class Far(MemoryStore):
        together = threading.Barrier(8, timeout=30)

        def delete(self, key):
            self.together.wait()
            super().delete(key)

    store = Far()
    for number in range(8):
        store.put(segment(1, f"a{number}"), b"x")
    state = committed(2, {2: version()})
    with DaemonThreads(8, "delete") as deleting:
        swept = sweep(store, lambda: state, lambda: None, deleting=deleting, side_by_side=8)
    assert swept == 8
    assert [*store.list("")] == []


def test_a_stop_leaves_the_rest_to_the_next_sweep():
    store = store_of(*(segment(1, f"a{number}") for number in range(100)))
    state, asked = committed(2, {2: version()}), iter([False] * 3 + [True] * 100)
    assert sweep(store, lambda: state, lambda: None, side_by_side=4, stop=lambda: next(asked)) == 12
    assert len([*store.list("")]) == 88
    assert sweep(store, lambda: state, lambda: None) == 88
