"""Which files a source has read, in which order: a log that concurrent drivers cannot corrupt for
each other.

Whether a file is new depends on its path alone, never on its time: a file that is moved in late,
with an old time, is still read. So every path that was ever picked up has to be remembered.

The log is a chain of *pages*, small sealed files that are written once and never changed. A page
contains the files numbered [first, first + n) and names the previous pages, so the newest page,
the *head*, stands for the whole log. Offsets name the head. Hence:

- Pages are written before the journal names them. A page whose offset was never journalled is not
  part of any chain: it is ignored, whichever driver wrote it.
- The name of a page contains a digest of its contents. Two drivers that both believe to be in
  charge write different pages, or the same page twice; neither can change what the other reads.

Compaction: a new page takes in the previous pages as long as they are not larger than what it
already contains, so the number of pages stays logarithmic up to PAGE_FILES, and linear beyond, one
page per PAGE_FILES files. The pages taken in are deleted when the offset that replaced them is
committed: from then on, no journalled offset leads to them. What an earlier driver has left, because it
crashed or because a savepoint kept it from deleting, goes after the first commit of the next one:
pages to which the committed offset does not lead, and which end where it does or before. A page that
ends later stays; another driver may have written the very same one. One that ends there cannot be
written again by any driver: what is appended from that offset on ends later.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from urllib.parse import quote

import xxhash

from rechannel.errors import DamagedStateError, MissingFileError, NewerFormatError
from rechannel.sources.reader import Offset
from rechannel.state.sealed import seal, unseal
from rechannel.state.store import Store

FORMAT = 1
"""Version of the format of a page; readers reject later ones."""

PAGE_FILES = 4096
"""Maximum number of files of a page; bounds how much a timestep may have to rewrite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFile:
    """A file as it was found."""

    path: str
    modified_ms: int
    """Unix milliseconds."""
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageName:
    """The identity of a page."""

    first: int
    """Number of its first file."""
    count: int
    """Number of its files."""
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some files in the order in which they were picked up, and the names of all previous pages."""

    files: tuple[SeenFile, ...]
    before: tuple[PageName, ...]

    @property
    def first(self) -> int:
        """Number of the first file."""
        return self.before[-1].first + self.before[-1].count if self.before else 0

    def to_bytes(self) -> bytes:
        """Return the page as a sealed file."""
        return seal(
            {
                "format": FORMAT,
                "files": [[file.path, file.modified_ms, file.size] for file in self.files],
                "before": [[page.first, page.count, page.name] for page in self.before],
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes | memoryview, *, name: str) -> Page:
        """Invert `to_bytes`. Raises DamagedStateError, NewerFormatError."""
        record = unseal(data, name=name, newest=FORMAT)
        return cls(
            files=tuple(
                SeenFile(path=path, modified_ms=modified, size=size)
                for path, modified, size in record["files"]
            ),
            before=tuple(
                PageName(first=first, count=count, name=page)
                for first, count, page in record["before"]
            ),
        )


def folder_of(source: str) -> str:
    """Return where a store keeps the records of a source; ends in a slash."""
    encoded = quote(source, safe="")
    return f"sources/{'%2E' + encoded[1:] if encoded.startswith('.') else encoded}/"


def choose(found: Iterable[SeenFile], limit: int | None) -> list[SeenFile]:
    """Return the files to read next: the oldest first, by (time, path)."""
    return sorted(found, key=lambda file: (file.modified_ms, file.path))[:limit]


@dataclass(frozen=True, slots=True)
class _At:
    """A position in the log: the pages up to it."""

    pages: tuple[PageName, ...] = ()

    @property
    def offset(self) -> Offset:
        if not self.pages:
            return {"files": 0, "head": None}
        last = self.pages[-1]
        return {"files": last.first + last.count, "head": last.name}


@dataclass
class SeenLog:
    """The log of one source. Offsets are {"files": number of files read, "head": newest page}."""

    store: Store
    source: str
    _at: _At = field(default_factory=_At)
    _seen: set[str] = field(default_factory=set)
    _previous: tuple[_At, list[str]] | None = None
    _replaced: list[tuple[int, PageName]] = field(default_factory=list)
    _swept: bool = False
    """Whether what earlier drivers have left is gone."""
    _lock: Lock = field(default_factory=Lock)

    def __contains__(self, path: str) -> bool:
        """Return whether a file is in the log up to its current position."""
        return path in self._seen

    @staticmethod
    def start() -> Offset:
        """Return the offset of an empty log."""
        return _At().offset

    def go_to(self, offset: Offset) -> None:
        """Move to an offset: what was appended after it and never journalled is dropped.

        Raises MissingFileError or DamagedStateError if a page is missing or changed.
        """
        if offset["head"] == self._at.offset["head"]:
            return
        if self._previous and self._previous[0].offset["head"] == offset["head"]:
            self._step_back()
        else:
            self._load(offset)

    def append(self, files: list[SeenFile]) -> Offset:
        """Number new files and write them durably. Returns the offset after them."""
        self._previous = (self._at, [file.path for file in files])
        for start in range(0, len(files), PAGE_FILES):
            self._append_page(files[start : start + PAGE_FILES])
        self._seen.update(file.path for file in files)
        return self._at.offset

    def between(self, start: Offset, end: Offset) -> list[SeenFile]:
        """Return the files with numbers from `start["files"]` to `end["files"]`, in order."""
        return list(self._between(start["files"], end))

    def committed(self, end: Offset) -> None:
        """Delete pages to which no offset from `end` on leads."""
        with self._lock:
            done = [item for item in self._replaced if item[0] <= end["files"]]
        for item in done:
            # If this fails, the next call retries.
            self.store.delete(self._key(item[1].name))
            with self._lock, suppress(ValueError):
                self._replaced.remove(item)
        if not self._swept:
            self._sweep(end)
            self._swept = True

    def _sweep(self, end: Offset) -> None:
        """Delete the pages that earlier drivers have left."""
        named = {self._key(page.name) for page, _ in self._chain(end)}
        for key in list(self.store.list(f"{folder_of(self.source)}pages/")):
            if key not in named and self._ends(key) <= end["files"]:
                self.store.delete(key)

    def _ends(self, key: str) -> float:
        """Return the number after the last file of a page; infinity if it cannot be read."""
        try:
            page = Page.from_bytes(self.store.read(key), name=key)
        except (MissingFileError, DamagedStateError, NewerFormatError):
            return math.inf
        return page.first + len(page.files)

    def _append_page(self, files: list[SeenFile]) -> None:
        before, merged = self._at.pages, tuple(files)
        taken: list[PageName] = []
        while before and before[-1].count <= min(len(merged), PAGE_FILES - len(merged)):
            taken.append(before[-1])
            merged = (*self._read(before[-1].name).files, *merged)
            before = before[:-1]
        page = Page(files=merged, before=before)
        data = page.to_bytes()
        name = f"{page.first:020d}-{xxhash.xxh3_128_hexdigest(data)}"
        self.store.create(self._key(name), data)
        made = PageName(first=page.first, count=len(merged), name=name)
        self._at = _At((*before, made))
        with self._lock:
            self._replaced += [(made.first + made.count, old) for old in taken]

    def _step_back(self) -> None:
        """Undo the last append."""
        if self._previous is None:
            return
        self._at, paths = self._previous
        self._previous = None
        self._seen.difference_update(paths)
        with self._lock:
            position = self._at.offset["files"]
            self._replaced = [item for item in self._replaced if item[0] <= position]

    def _load(self, offset: Offset) -> None:
        pages = [page for page, _ in self._chain(offset)]
        self._at, self._previous = _At(tuple(reversed(pages))), None
        self._seen = {file.path for file in self._between(0, offset)}
        with self._lock:
            self._replaced = []

    def _between(self, start: int, end: Offset) -> Iterator[SeenFile]:
        pages = []
        for name, page in self._chain(end):
            pages.append((name.first, page or self._read(name.name)))
            if name.first <= start:
                break
        for first, page in reversed(pages):
            yield from page.files[max(0, start - first) : end["files"] - first]

    def _chain(self, offset: Offset) -> Iterator[tuple[PageName, Page | None]]:
        """Yield the pages from the head back to the first; the head has been read."""
        if offset["head"] is None:
            return
        head = self._read(offset["head"])
        yield PageName(first=head.first, count=len(head.files), name=offset["head"]), head
        yield from ((name, None) for name in reversed(head.before))

    def _read(self, name: str) -> Page:
        key = self._key(name)
        return Page.from_bytes(self.store.read(key), name=key)

    def _key(self, name: str) -> str:
        return f"{folder_of(self.source)}pages/{name}.json"
