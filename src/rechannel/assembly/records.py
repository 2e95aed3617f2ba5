"""What sources have recorded of their input follows them to the names that an upgrade gives them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from rechannel.engine.journal.lease import read_lease
from rechannel.engine.journal.reading import read_only
from rechannel.engine.journal.state import JournalState
from rechannel.sources.records import copy_records, drop_records, last_name
from rechannel.state.store import Store


@dataclass(kw_only=True)
class RenamedRecords:
    """The records of sources that get other names at a start."""

    store: Store
    renamed: Mapping[str, str]
    """New names of sources and operators, by old names."""
    sources: Collection[str]
    """Names of the sources of the program."""
    copies: tuple[str, ...] = ()
    """New names under which there are copies, until these names are journalled."""

    @contextmanager
    def copied(self, *, begins: bool) -> Iterator[None]:
        """Copy them, if the names begin with this start; if that is refused, the copies go.

        They stay if the journal has the new names by then, or if another driver holds the lease: they may be its own.
        """
        held = read_only(self.store).offsets if begins and self.renamed else {}
        for old in self.renamed:
            new = last_name(old, self.renamed, self.sources)
            if old in held and old not in self.sources and new in self.sources and new not in held:
                self.copies = (*self.copies, new)
                copy_records(self.store, old, new)
        try:
            yield
        finally:
            if self.copies and read_lease(self.store) is None:
                known = read_only(self.store).offsets
                for name in self.copies:
                    if name not in known:
                        drop_records(self.store, name)

    def settle(self, state: JournalState) -> None:
        """Remove what lies under names that sources no longer have, unless a savepoint may need it.

        state: with the new names.
        """
        self.copies = ()
        for old in self.renamed:
            if old not in self.sources and old not in state.offsets and not state.savepoints:
                drop_records(self.store, old)
