"""Reading the journal, as a driver that opens it and everybody else does: the newest intact snapshot, then entries.

A driver may append, take snapshots and delete meanwhile. The last two snapshots are there, with all entries after the
older one: a torn newest snapshot loses nothing. Any other damage stops the reader, which never guesses.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rechannel.engine.journal.entries import Body, Committed, Controlling, Entry
from rechannel.engine.journal.folds.fold import fold
from rechannel.engine.journal.snapshot import from_bytes
from rechannel.engine.journal.state import JournalState
from rechannel.errors import DamagedStateError, MissingFileError
from rechannel.state.ahead import read_in_order
from rechannel.state.keys import JOURNAL, SNAPSHOTS, entry_key, number_of, snapshot_key
from rechannel.state.store import Store, is_remote

Read = tuple[Entry, int]
"""An entry, and its bytes."""

_ATTEMPTS = 100

CONTROLS_PER_COMMIT = 8
"""Entries of controllers that weigh as much as a commit: an idle stream commits nothing, and its controllers write."""

CONTROL_BYTES_PER_COMMIT = 256 << 10
"""Bytes of entries of controllers that weigh as much as a commit."""


def weight(body: Body, size: int) -> float:
    """Return how much an entry counts towards the next snapshot, in commits. size: bytes."""
    if isinstance(body, Controlling):
        return max(1 / CONTROLS_PER_COMMIT, size / CONTROL_BYTES_PER_COMMIT)
    return float(isinstance(body, Committed))


def read_only(store: Store) -> JournalState:
    """Return the present state of the journal, for readers only.

    Writes nothing; a driver may append, take snapshots and delete meanwhile.
    Raises DamagedStateError naming the entry, NewerFormatError.
    """
    return load(store).state


def kept_entries(store: Store) -> list[Entry]:
    """Return the entries that are not deleted yet, ascending and without gaps, for readers only.

    A driver may append, take snapshots and delete meanwhile. Raises DamagedStateError naming the entry,
    NewerFormatError.
    """
    kept: list[Entry] = []
    for read in _entries(store, _without_gaps(numbers_of(store, JOURNAL))):
        if read is None:
            kept = []  # a snapshot was taken meanwhile: this entry and those before it are deleted
        else:
            kept.append(read[0])
    return kept


def _without_gaps(numbers: list[int]) -> list[int]:
    """Return the last numbers that follow on each other. Before them are openings only."""
    first = next((i for i in range(len(numbers) - 1, 0, -1) if numbers[i - 1] != numbers[i] - 1), 0)
    return numbers[first:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What was read."""

    state: JournalState
    since_snapshot: float
    """Weight of the entries after the newest snapshot."""


def load(store: Store) -> Loaded:
    """Load the newest intact snapshot and the entries after it; retry if a snapshot was taken meanwhile."""
    for _ in range(_ATTEMPTS):
        snapshots = numbers_of(store, SNAPSHOTS)
        try:
            loaded = _replay(store, _newest_intact(store, snapshots))
            if loaded.state.number < max(snapshots, default=0):
                raise _gap(loaded.state.next_number, max(snapshots))
            return loaded
        except DamagedStateError:
            if numbers_of(store, SNAPSHOTS) == snapshots:
                raise
    msg = "the journal changes faster than it can be read; try again"
    raise DamagedStateError(msg)


def _newest_intact(store: Store, snapshots: Iterable[int]) -> JournalState:
    for number in sorted(snapshots, reverse=True):
        key = snapshot_key(number)
        try:
            return from_bytes(store.read(key), name=f"snapshot {key}")
        except DamagedStateError:
            continue  # the snapshot before it and the entries after that one say the same
    return JournalState()


def _replay(store: Store, state: JournalState) -> Loaded:
    since = 0.0
    ahead = _ahead(store, state.next_number)
    while True:
        read = next(ahead, None) or _entry(store, state.next_number)
        if read is None:
            later = [n for n in numbers_of(store, JOURNAL) if n >= state.next_number]
            if not later:
                return Loaded(state=state, since_snapshot=since)
            # The listing is later than the read, and entries are created in order: it must exist now.
            read = _entry(store, state.next_number)
        if read is None:
            raise _gap(state.next_number, min(later))
        entry, size = read
        try:
            state = fold(state, entry)
        except ValueError as error:
            msg = (
                f"journal entry {entry_key(entry.number)} contradicts those before it: {error}. Restore the journal"
                " from a copy"
            )
            raise DamagedStateError(msg) from error
        since += weight(entry.body, size)


def _ahead(store: Store, first: int) -> Iterator[Read]:
    """Yield the entries that a store lists from a number on. They end early if one is missing.

    Empty for a store that is not remote: one after the other is fast enough there, and saves the list.
    """
    listed = {*numbers_of(store, JOURNAL)} if is_remote(store) else set[int]()
    numbers = itertools.takewhile(listed.__contains__, itertools.count(first))
    for read in _entries(store, [*numbers]):
        if read is None:
            return
        yield read


def _entries(store: Store, numbers: Sequence[int]) -> Iterator[Read | None]:
    """Yield entries; None for one that is missing."""
    found = read_in_order(store, [entry_key(number) for number in numbers])
    for number, data in zip(numbers, found, strict=True):
        yield None if data is None else _decoded(number, data)


def _entry(store: Store, number: int) -> Read | None:
    """Return an entry; None if there is none."""
    try:
        return _decoded(number, store.read(entry_key(number)))
    except MissingFileError:
        return None


def _decoded(number: int, data: memoryview) -> Read:
    return Entry.from_bytes(data, name=f"journal entry {entry_key(number)}"), len(data)


def _gap(number: int, later: int) -> DamagedStateError:
    return DamagedStateError(
        f"journal entry {entry_key(number)} is missing, but entry {later} was written. Nothing is"
        " guessed: restore journal and snapshots from a copy of the state directory, or start from"
        " an empty one"
    )


def numbers_of(store: Store, prefix: str) -> list[int]:
    """Return the numbers of the existing entries or snapshots, ascending."""
    return [number for key in store.list(prefix) if (number := number_of(key)) is not None]
