"""One step of keeping a dataset tidy: a merge, a page, or the removal of what no reader needs any more.

Each step is whole or has no effect: its files are written under names of their own, and one version of the manifest
takes them. A driver that dies in between leaves files that no version names; the next driver removes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import pyarrow as pa

from rechannel.errors import MissingFileError
from rechannel.sinks.dataset.keyed import merged_runs
from rechannel.sinks.dataset.manifest import (
    PAGE_FILES,
    DataFile,
    Manifest,
    merged,
    paged,
    trimmed,
)
from rechannel.sinks.dataset.merging import Merge, Policy, due, finished
from rechannel.sinks.dataset.parquet import Files, Shape, batches_of
from rechannel.sinks.dataset.versions import (
    FILES,
    PAGES,
    SUFFIX,
    Versions,
    files_of,
    numbers,
    read_version,
    version_key,
    write_page,
)
from rechannel.state.store import Store


class StoppedError(Exception):
    """The driver ends, and a merge with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Keys of new files, which no other driver uses."""

    epoch: int
    token: str
    number: Callable[[], int]

    def file(self) -> str:
        """Return the key of a file of rows."""
        return f"{FILES}{self._own()}{SUFFIX}"

    def page(self) -> str:
        """Return the key of a page."""
        return f"{PAGES}{self._own()}.json"

    def _own(self) -> str:
        return f"{self.epoch:08d}-{self.token}-{self.number():08d}"


def epoch_of(key: str, otherwise: int) -> int:
    """Return the epoch of the driver that wrote a file. otherwise: for a file that no driver wrote."""
    epoch = key.rpartition("/")[2].partition("-")[0]
    return int(epoch) if epoch.isdecimal() else otherwise


@dataclass(kw_only=True)
class Compaction:
    """The steps that keep one dataset tidy."""

    store: Store
    versions: Versions
    shape: Callable[[], Shape]
    policy: Policy
    names: Names
    clock: Callable[[], float]
    """Milliseconds since 1970."""
    spend: Callable[[int], None] = lambda size: None
    """Called with bytes as they are read and written; it may wait, and raises StoppedError to end a merge."""

    merges: bool = True
    """Whether files are merged."""

    def step(self) -> bool:
        """Take the step that is due. Returns False if none is. Raises StorageError, FencedError."""
        return (self.merges and self.merge()) or self.page()

    def merge(self) -> bool:
        """Make the merge that is due."""
        manifest = self.versions.look()
        found = due(manifest.files, self.policy, manifest.timestep)
        if found is None:
            return False
        new = self._merged(found)
        made = self.versions.commit(
            lambda before: merged(before, found.files, new, at_ms=self._now())
        )
        if made is None:
            for each in new:
                self.store.delete(each.key)
        return True

    def page(self) -> bool:
        """Move finished files to a page, if there are enough for one.

        A page that no version takes stays for `sweep` of the next driver: an attempt that failed may have taken it.
        """
        manifest = self.versions.look()
        done = finished(manifest.files, self.policy, manifest.timestep)[:PAGE_FILES]
        if len(done) < PAGE_FILES:
            return False
        page = write_page(self.store, self.names.page(), done)
        self.versions.commit(lambda before: paged(before, done, page, at_ms=self._now()))
        return True

    def tidy(self) -> int:
        """Remove files that were replaced, and versions, once they are older than readers need. Returns how many.

        The manifest says first that these versions are gone, in the next version that is made: see `Manifest.oldest`.
        """
        known = self._known()
        removed, oldest = 0, known.oldest
        for number in numbers(self.store):
            if number < min(known.oldest, known.version):
                self.store.delete(version_key(number))
                removed += 1
        for version in self._old(known):
            for key in version.removed:
                self.store.delete(key)
                removed += 1
            oldest = version.version + 1
        self.versions.commit(lambda now: trimmed(now, oldest, at_ms=self._now()))
        return removed

    def sweep(self) -> int:
        """Remove what drivers of earlier epochs wrote and never committed. Returns how many files."""
        known = self._known()
        mine = self.names.epoch
        there = [*self.store.list(FILES), *self.store.list(PAGES)]
        old = {key for key in there if epoch_of(key, mine) < mine}
        if not old:
            return 0
        old -= {each.key for each in files_of(self.store, known)}
        old -= {each.key for each in known.pages}
        if old:
            for number in numbers(self.store):
                if known.oldest <= number <= known.version:
                    old.difference_update(read_version(self.store, number).removed)
        for key in sorted(old):
            self.store.delete(key)
        return len(old)

    def _known(self) -> Manifest:
        """Return the newest version, read again: a driver that slept may have been replaced. Raises FencedError."""
        self.versions.doubt()
        return self.versions.look()

    def _old(self, known: Manifest) -> Iterator[Manifest]:
        """Yield versions that are older than readers need, ascending; the newest one only if it says what was removed.

        A version that has a time yet to come is by a driver with a fast clock: it is at least as old as the next one.
        """
        now, waiting = self._now(), list[Manifest]()
        for number in numbers(self.store):
            if number < known.oldest or number > known.version:
                continue
            newest = number == known.version
            version = known if newest else read_version(self.store, number)
            if not newest or known.removed:
                waiting.append(version)
            if version.at_ms > now:
                continue
            if version.at_ms > now - known.keep_ms:
                return
            yield from waiting
            waiting.clear()

    def _merged(self, merge: Merge) -> tuple[DataFile, ...]:
        shape, files = self.shape(), merge.files
        span = min(each.first for each in files), max(each.last for each in files)
        written = Files(self.store, shape, self.names.file, span)
        rows = self._keyed(merge, shape) if self.policy.keyed else self._appended(files, shape)
        try:
            for batch in rows:
                written.add_to(files[0].part, batch)
            return written.close()
        except MissingFileError:
            written.discard()
            self.versions.doubt()
            self.versions.look()  # a driver that has taken over may have removed it
            raise
        except Exception:
            written.discard()
            raise

    def _appended(self, files: Sequence[DataFile], shape: Shape) -> Iterator[pa.RecordBatch]:
        for each in files:
            self.spend(each.size)
            yield from batches_of(self.store, [each], shape.schema)

    def _keyed(self, merge: Merge, shape: Shape) -> Iterator[pa.RecordBatch]:
        ordered = sorted(merge.files, key=attrgetter("first", "last"))
        runs = [
            self._appended(tuple(run), shape)
            for _, run in groupby(ordered, attrgetter("first", "last"))
        ]
        return merged_runs(runs, self.versions.known.keys, drop=merge.whole)

    def _now(self) -> int:
        return int(self.clock())
