"""What sources have recorded of their input follows them to the names that an upgrade gives them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from rechannel.engine.journal.lease import read_lease
from rechannel.engine.journal.reading import read_only
from rechannel.engine.journal.state import JournalState
from rechannel.model.codec import Json
from rechannel.sources.records import copy_records, drop_others, drop_records, last_name
from rechannel.state.store import Store


@dataclass(kw_only=True)
class RenamedRecords:
    """The records of sources that get other names at a start."""

    store: Store
    renamed: Mapping[str, str]
    """New names of sources and operators, by old names."""
    sources: Collection[str]
    """Names of the sources of the program."""
    begins: bool
    """Whether the names begin with this start."""
    copies: set[str] = field(default_factory=set)
    """New names under which there are copies, until these names are journalled."""
    _done: frozenset[str] = frozenset()
    """Keys of the copies."""

    @contextmanager
    def copied(self) -> Iterator[None]:
        """Copy them, for readers that open before this driver has taken over; if the start is refused, the copies go.

        They stay if the journal has the new names by then, or if another driver holds the lease: they may be its own.
        """
        if self.begins and self.renamed:  # a usual start reads the journal once, later
            self._copy(read_only(self.store).offsets)
        try:
            yield
        finally:
            if self.copies and read_lease(self.store) is None:
                known = read_only(self.store).offsets
                for name in self.copies:
                    if name not in known:
                        drop_records(self.store, name)

    def complete(self, state: JournalState) -> None:
        """Copy what the driver before has recorded since; this one has fenced it, and has not journalled the new names.

        A driver records before it journals, so all that `state` names is there by now. What an earlier source has left
        under a new name goes, unless a savepoint may need it.
        """
        self._copy(state.offsets)
        for old, new in self._begun(state.offsets):
            if not state.savepoints:
                drop_others(self.store, old, new)

    def _copy(self, held: Mapping[str, Json]) -> None:
        for old, new in self._begun(held):
            self.copies.add(new)
            self._done |= copy_records(self.store, old, new, done=self._done)

    def _begun(self, held: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
        """Yield old and new names that begin with this start. held: offsets of sources."""
        for old in self.renamed if self.begins else ():
            new = last_name(old, self.renamed, self.sources)
            if old in held and old not in self.sources and new in self.sources and new not in held:
                yield old, new

    def settle(self, state: JournalState) -> None:
        """Remove what lies under names that sources no longer have, unless a savepoint may need it.

        state: with the new names.
        """
        self.copies = set()
        for old in self.renamed:
            if old not in self.sources and old not in state.offsets and not state.savepoints:
                drop_records(self.store, old)
