"""What a look at a state directory brings, as one value: what findings are drawn from. Nothing here writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rechannel.engine.journal.entries import Entry
from rechannel.engine.journal.lease import Holder, holds, read_lease, told_head
from rechannel.engine.journal.log import read_only
from rechannel.engine.journal.snapshot import from_bytes
from rechannel.engine.journal.state import JournalState, needed
from rechannel.engine.reconfigure.history import damaged_records
from rechannel.errors import DamagedStateError, MissingFileError
from rechannel.state.keys import (
    JOURNAL,
    RECONFIGURATIONS,
    SEGMENTS,
    SINK_BUFFERS,
    SNAPSHOTS,
    number_of,
    timestep_of,
)
from rechannel.state.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A state directory as it lies there.

    state: what the journal says; None when it cannot be read, and problem says why. entries, snapshots: all keys, in
    order. damaged: problem by key, of entries, snapshots and records of reconfigurations. lease: who holds it, or held
    it. held: whether that keeps others out. head: the latest entry that any driver recorded. missing: segments
    and sink-buffer files that the journal names and that are gone. records: keys of reconfigurations' records. latest:
    the latest timestep that any segment or sink-buffer file is of.
    """

    state: JournalState | None
    problem: str = ""
    entries: tuple[str, ...] = ()
    snapshots: tuple[str, ...] = ()
    damaged: Mapping[str, str] = field(default_factory=dict)
    lease: Holder | None = None
    held: bool = False
    head: int = 0
    missing: tuple[str, ...] = ()
    records: frozenset[str] = frozenset()
    latest: int | None = None


def look(store: Store, *, host: str, now_ms: int, started: Callable[[int], int | None]) -> Evidence:
    """Look at a state directory. host, now_ms, started: from where (see `Lease.acquire`). Raises NewerFormatError.

    What is large is listed and not read: `rechannel verify` reads it.
    """
    # Read lease and head first: a driver that writes meanwhile can then only be further than they say.
    lease, head = read_lease(store), told_head(store)
    # What has no number is no entry: the journal does not look at it either.
    entries, snapshots = (
        tuple(key for key in store.list(prefix) if number_of(key) is not None)
        for prefix in (JOURNAL, SNAPSHOTS)
    )
    damaged = {
        **_damaged(store, entries, lambda key, data: Entry.from_bytes(data, name=key)),
        **_damaged(store, snapshots, lambda key, data: from_bytes(data, name=key)),
        **damaged_records(store),
    }
    state, problem = None, ""
    try:
        state = read_only(store)
    except DamagedStateError as error:
        problem = str(error)
    present = {*store.list(SEGMENTS), *store.list(SINK_BUFFERS)}
    return Evidence(
        state=state,
        problem=problem,
        entries=entries,
        snapshots=snapshots,
        damaged=damaged,
        lease=lease,
        held=lease is not None and holds(lease, host, now_ms, started),
        head=head,
        missing=tuple(sorted(needed(state) - present)) if state else (),
        records=frozenset(store.list(RECONFIGURATIONS)),
        latest=max((t for key in present if (t := timestep_of(key)) is not None), default=None),
    )


def _damaged(
    store: Store, keys: tuple[str, ...], check: Callable[[str, memoryview], object]
) -> dict[str, str]:
    found: dict[str, str] = {}
    for key in keys:
        try:
            check(key, store.read(key))
        except MissingFileError:
            continue  # a job that runs deletes what it does not need
        except DamagedStateError as error:
            found[key] = str(error)
    return found
