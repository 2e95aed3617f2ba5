"""What can be read of a state directory, as one value from which findings follow. Nothing here writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rechannel.engine.journal.entries import Entry
from rechannel.engine.journal.lease import Holder, Where, holds, read_lease, recorded_head
from rechannel.engine.journal.reading import read_only
from rechannel.engine.journal.referenced import needed
from rechannel.engine.journal.snapshot import from_bytes
from rechannel.engine.journal.state import JournalState
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
    """The contents of a state directory."""

    state: JournalState | None
    """State of the journal; None if it cannot be read."""
    problem: str = ""
    """Why the journal cannot be read."""
    entries: tuple[str, ...] = ()
    """Keys of all journal entries, in order."""
    snapshots: tuple[str, ...] = ()
    """Keys of all snapshots, in order."""
    damaged: Mapping[str, str] = field(default_factory=dict)
    """Problems of entries, snapshots and files of reconfigurations, by key."""
    lease: Holder | None = None
    """The present or last holder of the lease."""
    held: bool = False
    """Whether the lease keeps other drivers out."""
    head: int = 0
    """Number of the latest entry that any driver recorded."""
    missing: tuple[str, ...] = ()
    """Segments and sink-buffer files that the journal names and that do not exist."""
    records: frozenset[str] = frozenset()
    """Keys of the files of reconfigurations."""
    latest: int | None = None
    """Latest timestep of any segment or sink-buffer file."""


def look(
    store: Store, *, where: Where, wall_ms: int, started: Callable[[int], int | None]
) -> Evidence:
    """Read a state directory. where: of the one who asks. wall_ms, started: see `Lease.acquire`.

    Raises NewerFormatError. Large files are listed and not read: `rechannel verify` reads them.
    """
    # Read lease and head first: if a driver writes meanwhile, the journal can only be ahead of them.
    lease, head = read_lease(store), recorded_head(store)
    # Files without a number are no entries; the journal ignores them too.
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
        held=lease is not None and holds(lease, where, wall_ms, started),
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
            continue  # a running job deletes files that it does not need
        except DamagedStateError as error:
            found[key] = str(error)
    return found
