"""Carry out a fork: a new directory with links to the segments of the savepoint, and to what sources have recorded.

No row is read or copied. These files are never changed, only removed, and a link counts as much as the first name:
neither directory can lose a file by what the other one removes. The new directory gets its name at the end, in one
step. A crash before leaves one with another name, which no job takes for its own.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rechannel.engine.journal.entries import Beginning, Body, Closed, Entry, Opened
from rechannel.engine.journal.folds.acts import savepoint_of
from rechannel.engine.journal.forking import beginning_of
from rechannel.engine.journal.kept import Savepoint
from rechannel.engine.journal.reading import read_only
from rechannel.engine.journal.savepoints import check_there
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program.identity import Identity, read_identity
from rechannel.engine.repair.alone import Hand, lease_of
from rechannel.errors import NotReadyError, RefusedError
from rechannel.sources.replayed.log import ReplayLog, replayed_sources
from rechannel.state.keys import SOURCES, entry_key
from rechannel.state.stores.local import LocalStore
from rechannel.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """A fork that was made."""

    timestep: int
    """The latest committed one of both."""
    files: int
    """Segments that both have."""
    bytes: int


def fork(origin: LocalStore, target: Path, hand: Hand, name: str | None) -> Forked:
    """Make a directory that begins at a savepoint, or, without a name, at the latest commit.

    Without a name no driver may run on the origin. Raises RefusedError, StateInUseError, NotReadyError if there is no
    such savepoint.
    """
    if name is not None:
        state = read_only(origin)
        check_there(state, name)
        return _made(origin, target, hand, state, name)
    with lease_of(origin, hand):
        state = read_only(origin)
        if state.last_committed is None:
            msg = f"{origin.root}: no timestep is committed yet, so there is nothing to fork"
            raise NotReadyError(msg)
        return _made(origin, target, hand, state, "")


def _made(origin: LocalStore, target: Path, hand: Hand, state: JournalState, name: str) -> Forked:
    savepoint = state.savepoints[name] if name else savepoint_of(state, hand.clock(), "a fork")
    beginning = beginning_of(savepoint, name, str(origin.root), state.notes)
    identity = read_identity(origin)
    sizes = {run.segment: run.size for edit in beginning.edits.values() for run in edit.add}
    with _named_at_the_end(target, hand.id) as place:
        made = LocalStore(place, origin.durability)
        _link(origin, made, [*sizes, *_recorded(origin, savepoint, named=bool(name))])
        _begin(made, hand, beginning, identity)
    return Forked(timestep=savepoint.timestep, files=len(sizes), bytes=sum(sizes.values()))


def _recorded(origin: LocalStore, savepoint: Savepoint, *, named: bool) -> list[str]:
    """Return the keys of what sources have recorded.

    Dead letters that were replayed after a named savepoint are left out: the fork reads their rows from the source.
    """
    later: set[str] = set()
    if named:
        for name in replayed_sources(origin):
            offset = savepoint.offsets.get(name) or {"files": 0}
            later.update(ReplayLog(origin, name).keys_after(offset["files"]))
    return [key for key in origin.list(SOURCES) if key not in later]


@contextmanager
def _named_at_the_end(target: Path, word: str) -> Iterator[Path]:
    """Yield a directory beside a path that gets the path's name once the block has ended. Raises RefusedError."""
    target = target.absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        msg = f"{target} is there already, and not empty: give a directory that is not there yet"
        raise RefusedError(msg)
    target.parent.mkdir(parents=True, exist_ok=True)
    place = target.with_name(f".{target.name}.fork-{word[:16]}")
    place.mkdir()
    try:
        yield place
        place.replace(target)
        _settle(target.parent)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


def _link(origin: LocalStore, made: LocalStore, keys: Sequence[str]) -> None:
    """Give files of one directory the same names in another. Raises RefusedError."""
    folders = {made.root}
    for key in keys:
        link = made.root / key
        folders.update(up for up in link.parents if up.is_relative_to(made.root))
        link.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(origin.root / key, link)
        except FileNotFoundError as error:
            msg = f"{key} is gone: the savepoint was dropped meanwhile, or `rechannel verify` names the damage"
            raise RefusedError(msg) from error
        except OSError as error:
            if error.errno not in {errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK}:
                raise
            msg = (
                f"{made.root.parent} cannot have links to files of {origin.root} ({error.strerror}): fork to a"
                " directory on the same file system"
            )
            raise RefusedError(msg) from error
    for folder in folders:  # up to the root: a name that is lost takes all below it with it
        _settle(folder)


def _begin(made: LocalStore, hand: Hand, beginning: Beginning, identity: Identity) -> None:
    """Write the journal of a fork, and whose dataflow it is."""
    time_ms = hand.clock()
    opened = Opened(
        host=hand.holder.host,
        pid=hand.holder.pid,
        time_ms=time_ms,
        fingerprint="",
        version=__version__,
        id=hand.id,
        begins=beginning,
    )
    bodies: tuple[Body, ...] = (opened, Closed(time_ms=time_ms))
    for number, body in enumerate(bodies, 1):
        made.create(entry_key(number), Entry(number=number, epoch=1, body=body).to_bytes())
    identity.claim(made)
    read_only(made)  # it begins as a driver will read it


def _settle(folder: Path) -> None:
    """Make names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
