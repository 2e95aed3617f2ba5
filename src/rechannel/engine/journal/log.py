"""The journal: one totally ordered log of numbered entries, and the fence between drivers.

Entry n is a file that is *created*: of any number of drivers exactly one can write it, so the
journal is a single story whatever the drivers believe. A driver that finds its next number taken
has been replaced and stops (`FencedError`).

Old entries are deleted, but those of openings stay for ever. The next number of a driver that was
replaced is that of the opening which replaced it, however long the driver was suspended: so it always
finds it taken. A driver that opens has no such number, and could create one that was deleted. Numbers
are deleted only if a later snapshot exists, and a later snapshot exists from then on, so after an
opening a listing of the snapshots shows whether this may have happened. If one exists, the story
that it begins tells: the opening is part of it if a driver has read it and gone on from there.

An entry on which nothing outside of the driver depends yet can be written while the driver goes on
(`append_soon`). The next entry waits for it, and so does `settle`.

The last two snapshots stay, with all entries after the older one; `reading.py` reads them.
"""

from __future__ import annotations

import logging
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock

from msgspec import structs

from rechannel.engine.journal.entries import Body, Committed, Entry, Opened, in_columns
from rechannel.engine.journal.folds.fold import fold
from rechannel.engine.journal.reading import load, numbers_of, weight
from rechannel.engine.journal.snapshot import to_bytes
from rechannel.engine.journal.state import JournalState
from rechannel.errors import (
    DamagedStateError,
    FencedError,
    NewerFormatError,
    StorageError,
)
from rechannel.logs import fields
from rechannel.state.keys import JOURNAL, SNAPSHOTS, entry_key, snapshot_key
from rechannel.state.store import Store
from rechannel.threads import AtOnce

_LOG = logging.getLogger("rechannel")

_SNAPSHOTS_KEPT = 2
_ATTEMPTS = 100

OWED_PER_COMMIT = 64
"""A snapshot names every timestep that sinks owe: for each so many of them it is taken one commit later, so that its
cost per commit does not grow with what is owed."""


class Journal:
    """The journal as one driver writes it. Threads may share it."""

    def __init__(
        self,
        store: Store,
        state: JournalState,
        *,
        snapshot_every: int,
        since_snapshot: float,
        writer: Executor | None = None,
        cleaner: Executor | None = None,
    ) -> None:
        """Use `Journal.open`. since_snapshot: weight of the entries after the newest snapshot."""
        if snapshot_every < 1:
            msg = f"snapshot_every must be at least 1 commit, not {snapshot_every}"
            raise ValueError(msg)
        self._store = store
        self._state = state
        self._snapshot_every = snapshot_every
        self._since_snapshot = since_snapshot
        self._writer, self._cleaner = writer or AtOnce(), cleaner or AtOnce()
        self._cleaning: Future[None] | None = None
        self._pending: _Pending | None = None
        self._failed: Exception | None = None
        self._lock = Lock()

    @classmethod
    def open(
        cls,
        store: Store,
        *,
        keep_versions: int,
        snapshot_every: int,
        writer: Executor | None = None,
        cleaner: Executor | None = None,
    ) -> tuple[Journal, JournalState]:
        """Read the journal; nothing is written before the first `append` (of an `Opened`).

        keep_versions: committed timesteps whose state stays readable, at least 1.
        snapshot_every: commits from one snapshot to the next; see `weight`. writer: writes what `append_soon` is
        given; None = the calling thread, at once. cleaner: deletes what snapshots have made superfluous, likewise.
        Raises DamagedStateError naming the entry, NewerFormatError.
        """
        loaded = load(store)
        state = structs.replace(loaded.state, keep_versions=keep_versions)
        journal = cls(
            store,
            state,
            snapshot_every=snapshot_every,
            since_snapshot=loaded.since_snapshot,
            writer=writer,
            cleaner=cleaner,
        )
        return journal, state

    @property
    def state(self) -> JournalState:
        """The state after the latest entry that this driver read, wrote or began to write."""
        return self._state

    def latest(self) -> JournalState:
        """The state after the latest entry of any driver: another one may still write."""
        with self._lock:
            self._settle()
            return load(self._store).state if self._is_behind() else self._state

    def write_through(self, store: Store) -> None:
        """Continue with another view of the same store: one that retries through outages."""
        with self._lock:
            self._store = store

    def append(self, body: Body) -> JournalState:
        """Write the next entry, durably, and return the state after it.

        A due snapshot is taken first: if that raises, the entry was not written. An `Opened` that
        loses a race against the driver it replaces is written after that driver's entry.
        Raises FencedError when another driver took over, ValueError when the rules of
        `JournalState` do not allow the entry, StorageError when the store refuses (then only a new
        `open` can tell what was written).
        """
        with self._lock:
            self._settle()
            owed = len(self._state.unpublished)
            if self._since_snapshot >= self._snapshot_every + owed // OWED_PER_COMMIT:
                self._snapshot()
            if isinstance(body, Opened):
                self._take_over(replace(body, keep_versions=self._state.keep_versions))
            elif not self._try_append(body):
                raise self._fenced()
            return self._state

    def append_soon(self, body: Body) -> JournalState:
        """Begin to write the next entry, and return the state after it.

        It counts only once it is written: before an act that cannot be taken back, call `settle`. If it could not be
        written, every later call raises the reason. Raises as `append` does.
        """
        with self._lock:
            self._settle()
            entry, data, after = self._next(body)
            key, size, store = entry_key(entry.number), len(data), self._store
            self._pending = _Pending(
                before=self._state, written=self._writer.submit(store.create, key, data)
            )
            self._count(after, body, size)
            if self._pending.written.done():
                self._settle()
            return after

    def close(self) -> None:
        """Give up the threads; entries that are appended are still written, and old ones deleted."""
        self._writer.shutdown(wait=False)
        self._cleaner.shutdown(wait=False)

    def settle(self) -> None:
        """Return once everything is written. Raises what `append` raises if something could not be."""
        with self._lock:
            self._settle()

    def fenced(self) -> FencedError | None:
        """Return why this driver must stop, if another one has written since; else None."""
        with self._lock:
            with suppress(Exception):
                self._settle()
            return self._fenced() if self._is_behind() else None

    def _settle(self) -> None:
        """Wait for the entry that is being written. After a failure only another `open` can tell what was written."""
        if self._failed is not None:
            raise self._failed
        if self._pending is None:
            return
        pending = self._pending
        try:
            free = pending.written.result()
        except BaseException as error:
            if not pending.written.done():
                raise  # the wait was interrupted, and the entry is still being written
            # Libraries that are not in Python may fail with what is no Exception.
            self._give_up(pending, error if isinstance(error, Exception) else _unwritten(error))
            raise self._failed from error  # type: ignore[misc] # it was just set
        self._pending = None
        if not free:
            self._state = pending.before
            self._give_up(pending, self._fenced())
            raise self._failed  # type: ignore[misc] # it was just set

    def _give_up(self, pending: _Pending, failed: Exception) -> None:
        self._pending, self._state, self._failed = None, pending.before, failed

    def _is_behind(self) -> bool:
        """Whether the store has later entries than this journal has read or written."""
        written = [*numbers_of(self._store, JOURNAL), *numbers_of(self._store, SNAPSHOTS)]
        return max(written, default=0) > self._state.number

    def _take_over(self, body: Opened) -> None:
        for _ in range(_ATTEMPTS):
            if self._try_append(body):
                return
            loaded = load(self._store)
            self._state = structs.replace(loaded.state, keep_versions=body.keep_versions)
            self._since_snapshot = loaded.since_snapshot
        raise self._fenced()

    def _try_append(self, body: Body) -> bool:
        entry, data, after = self._next(body)
        key = entry_key(entry.number)
        if not self._created(key, data, after, body):
            return False
        if isinstance(body, Opened) and self._may_be_late(entry.number):
            if entry.number not in load(self._store).state.opened_at:
                self._store.delete(key)
            return False
        self._count(after, body, len(data))
        return True

    def _created(self, key: str, data: bytes, after: JournalState, body: Body) -> bool:
        """Write an entry. Returns whether its number was free.

        A user who interrupts this (Ctrl-C while `job.savepoint()` waits for the store) leaves it to the writer: the
        entry may be there already, and the driver goes on after it.
        """
        try:
            return self._store.create(key, data)
        except KeyboardInterrupt:
            if not isinstance(body, Opened):
                written = self._writer.submit(_create_or_find, self._store, key, data)
                self._pending = _Pending(before=self._state, written=written)
                self._count(after, body, len(data))
            raise

    def _next(self, body: Body) -> tuple[Entry, bytes, JournalState]:
        """The next entry, its file, and the state after it. Raises ValueError if the rules do not allow it."""
        epoch = self._state.epoch + isinstance(body, Opened)
        entry = Entry(number=self._state.next_number, epoch=epoch, body=body)
        data = entry.to_bytes()
        return entry, data, fold(self._state, _as_read(entry, data))

    def _count(self, after: JournalState, body: Body, size: int) -> None:
        self._state = after
        self._since_snapshot += weight(body, size)

    def _may_be_late(self, number: int) -> bool:
        """Whether others have gone on beyond this number: then it may have had an entry that was deleted."""
        return any(taken >= number for taken in numbers_of(self._store, SNAPSHOTS))

    def _snapshot(self) -> None:
        self._store.put(snapshot_key(self._state.number), to_bytes(self._state))
        self._since_snapshot = 0
        if self._cleaning is not None:
            if not self._cleaning.done():
                return  # the next snapshot has more deleted
            if error := self._cleaning.exception():
                _LOG.warning(
                    "old entries of the journal could not be deleted (%s)",
                    error,
                    extra=fields("journal_not_cleaned", reason=error),
                )
        self._cleaning = self._cleaner.submit(_delete_superfluous, self._store, self._state)

    def _fenced(self) -> FencedError:
        number, mine = self._state.next_number, self._state.epoch
        stop = "this driver must stop; the other one runs what is not committed again"
        try:
            other = load(self._store).state
        except (DamagedStateError, NewerFormatError) as error:
            return FencedError(
                f"entry {number} exists, and its driver cannot be read ({error}); {stop}"
            )
        if other.driver is None or other.epoch == mine:
            return FencedError(
                f"entry {number} exists already in epoch {mine}: two journals share one epoch, or"
                " an earlier write ended in doubt; open the journal again"
            )
        return FencedError(
            f"entry {number} cannot be written in epoch {mine}: the driver on host"
            f" {other.driver.host} with process id {other.driver.pid} took over in epoch"
            f" {other.epoch}; {stop}"
        )


def _as_read(entry: Entry, data: bytes) -> Entry:
    """Return an entry as a restart will read it: tuples have become lists. Columns of runs are what they were."""
    name, body = entry_key(entry.number), entry.body
    if not in_columns(body):
        return Entry.from_bytes(data, name=name)
    bare = replace(entry, body=replace(body, edits={}))
    read = Entry.from_bytes(bare.to_bytes(), name=name)
    assert isinstance(read.body, Committed)  # noqa: S101 - of the kind that was written
    return replace(read, body=replace(read.body, edits=body.edits))


def _unwritten(error: BaseException) -> StorageError:
    return StorageError(
        f"an entry of the journal could not be written ({error!r}); start the job again"
    )


def _delete_superfluous(store: Store, state: JournalState) -> None:
    """Delete the snapshots but the last two, and the entries before these, but for openings.

    state: as of a snapshot of this driver. Whatever is left, as at the end of a process, the next call deletes.
    """
    older, kept = _split(numbers_of(store, SNAPSHOTS))
    for number in older:
        store.delete(snapshot_key(number))
    if len(kept) < _SNAPSHOTS_KEPT:
        return
    # A driver that was replaced comes here, too: later entries may be openings that it does not know of.
    last, openings = min(kept[0], state.number), frozenset(state.opened_at)
    for number in numbers_of(store, JOURNAL):
        if number <= last and number not in openings:
            store.delete(entry_key(number))


def _split(numbers: list[int]) -> tuple[list[int], list[int]]:
    return numbers[:-_SNAPSHOTS_KEPT], numbers[-_SNAPSHOTS_KEPT:]


def _create_or_find(store: Store, key: str, data: bytes) -> bool:
    """Return whether an entry is there that was to be written, now or before."""
    return store.create(key, data) or bytes(store.read(key)) == data


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pending:
    """An entry that is being written."""

    before: JournalState
    written: Future[bool]
    """Whether the number was free."""
