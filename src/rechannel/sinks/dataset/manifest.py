"""The manifest of a dataset: which files together are the output up to a timestep. Pure.

    <path>/_rechannel/dataset/000000000042.json   version 42 of the manifest, created once and never changed
    <path>/_rechannel/pages/...                   files that no compaction touches any more, 256 at a time
    <path>/_files/<epoch>-<token>-<n>.pq          rows

Every step (rows of a timestep, a compaction, a driver that takes over) is one new version, made of the one before by an
edit here. Of several writers that make a version of the same number, the store lets one win, and the others edit the
winner's. A version is whole: a reader takes one and needs no other.

A version says which files the one before still had (`removed`). These files stay until the version is older than what
the user keeps for readers, and so does every version that a reader may have taken. `oldest` is the first version that
is kept: what is before it is litter, even if a driver that was cut off for long has just written it.

The size of a version follows what was written lately, not the dataset: files that are finished move to pages, which are
never written again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from rechannel.model.codec import ABSENT, row, sparse, written

FORMAT = 1
PAGE_FILES = 256
"""Files of a page."""
NOTHING_YET = -1


@row
@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One immutable file of rows."""

    key: str
    """Its place, below the dataset's path."""
    rows: int
    size: int
    """Bytes."""
    first: int
    last: int
    """The timesteps between which its rows were written."""
    part: str = ""
    """Values of the partition columns, as in "day=2026-01-31/hour=7"; empty without such columns."""
    gone: int = 0
    """How many of its rows say that a key is gone; of a dataset with keys."""

    def __post_init__(self) -> None:
        """Check the numbers. Raises ValueError."""
        if self.rows < 1 or self.first > self.last or not 0 <= self.gone <= self.rows:
            msg = f"{self.key}: {self.rows} rows of timesteps {self.first} to {self.last} cannot be"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A sealed list of finished files."""

    key: str
    files: int
    rows: int
    size: Annotated[int, written("bytes")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What a sink says about a dataset, as a manifest has it."""

    columns: str
    keys: tuple[str, ...]
    partitions: tuple[str, ...]
    keep_ms: int


@sparse
@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One version."""

    version: int
    owner: str
    """Whose job and sink it is."""
    epoch: int
    """Of the driver that wrote it: a driver of an earlier epoch may write no more."""
    at_ms: int
    """When it was written, by the clock of its driver."""
    opening: str = ""
    """Id of the driver's `Opened` in the journal; empty if nothing is compared with a journal."""
    timestep: Annotated[int, ABSENT] = NOTHING_YET
    """The last timestep that it has."""
    digest: str = ""
    """Of that timestep."""
    columns: str = ""
    """Of the rows, as an Arrow schema in base64."""
    keys: tuple[str, ...] = ()
    """Columns of which each row has its own values; empty if rows are appended."""
    partitions: tuple[str, ...] = ()
    oldest: int = 0
    """The first version that is kept."""
    keep_ms: int = 0
    """How long files stay for readers once they are replaced."""
    files: tuple[DataFile, ...] = ()
    pages: tuple[Page, ...] = ()
    removed: tuple[str, ...] = ()
    """Keys of files that the version before still has."""

    @property
    def rows(self) -> int:
        """How many rows its files have."""
        return sum(each.rows for each in self.files) + sum(each.rows for each in self.pages)


def opened(
    before: Manifest | None,
    *,
    owner: str,
    epoch: int,
    at_ms: int,
    described: Described,
    opening: str = "",
) -> Manifest:
    """Return the version with which a driver takes over, or the first one."""
    if before is None:
        before = Manifest(version=0, owner=owner, epoch=epoch, at_ms=at_ms)
    return replace(
        before,
        version=before.version + 1,
        epoch=epoch,
        opening=opening,
        at_ms=at_ms,
        columns=described.columns,
        keys=described.keys,
        partitions=described.partitions,
        keep_ms=described.keep_ms,
        removed=(),
    )


def added(
    before: Manifest,
    files: Sequence[DataFile],
    *,
    timestep: int,
    digest: str,
    columns: str,
    at_ms: int,
) -> Manifest:
    """Return the version with the rows of one more timestep. columns: with those that are new."""
    return replace(
        before,
        version=before.version + 1,
        at_ms=at_ms,
        timestep=timestep,
        digest=digest,
        columns=columns,
        files=(*before.files, *files),
        removed=(),
    )


def merged(
    before: Manifest, old: Sequence[DataFile], new: Sequence[DataFile], *, at_ms: int
) -> Manifest | None:
    """Return the version in which files took the place of others; None if these are no longer all there."""
    there = {each.key: place for place, each in enumerate(before.files)}
    taken = {each.key for each in old}
    if not taken <= there.keys():
        return None
    first = min(there[key] for key in taken)
    kept = [each for each in before.files if each.key not in taken]
    return replace(
        before,
        version=before.version + 1,
        at_ms=at_ms,
        files=(*kept[:first], *new, *kept[first:]),
        removed=tuple(sorted(taken)),
    )


def paged(
    before: Manifest, files: Sequence[DataFile], page: Page, *, at_ms: int
) -> Manifest | None:
    """Return the version in which some of its files are in a page; None if it does not name all of them any more."""
    taken = {each.key for each in files}
    if not taken <= {each.key for each in before.files}:
        return None
    return replace(
        before,
        version=before.version + 1,
        at_ms=at_ms,
        files=tuple(each for each in before.files if each.key not in taken),
        pages=(*before.pages, page),
        removed=(),
    )


def trimmed(before: Manifest, oldest: int, *, at_ms: int) -> Manifest | None:
    """Return the version from which earlier ones are no longer kept; None if they are not any more."""
    if oldest <= before.oldest:
        return None
    return replace(before, version=before.version + 1, at_ms=at_ms, oldest=oldest, removed=())
