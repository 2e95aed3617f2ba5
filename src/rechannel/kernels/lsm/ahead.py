"""Fetching state on a host behind the backs of its tasks: in a thread of a worker process that goes on when the task
which started it has ended. So fetching takes no task's place, and a timestep does not wait for it.

    nobody -- attend --> fetching -- attend: how far? --> ... --> done -- attend: what was done --> nobody

All processes of a host look after an errand together. Its file in the host's cache is locked by the one that fetches,
and holds how far that is; the lock goes with the process that holds it, and the next one to look goes on.
"""
# ruff: noqa: PTH103, PTH108

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

from rechannel.errors import RechannelError
from rechannel.kernels.lsm.prefetch import Prefetched, prefetch
from rechannel.kernels.protocol.program import StageProgram
from rechannel.model.hashspace import Intervals
from rechannel.state.manifest import Run

PAUSE = 1.0
"""Pause behind a piece, in lengths of that piece: a line to the shared store is left free for half of the time."""

_MARK = ".ahead-"
_BUFFER = 1 << 16
_FORGOTTEN_SECONDS = 3600.0
"""A file that was not written for so long is of a driver that is gone: no one asks how far its errand is."""


@dataclass(frozen=True)
class Errand:
    """What one host has to fetch. name: a word of its own, for ever. runs, pieces: hash intervals of runs, in order."""

    name: str
    runs: tuple[Run, ...]
    pieces: tuple[Intervals, ...]


@dataclass(frozen=True, kw_only=True)
class Attended:
    """How far an errand is on one host.

    done: whether it is over. pieces: done so far. bytes_fetched, bytes_present, ms: sums over them (see `Prefetched`).
    error: what ended it early; nothing depends on an errand.
    """

    done: bool = False
    pieces: int = 0
    bytes_fetched: int = 0
    bytes_present: int = 0
    ms: float = 0.0
    error: str = ""

    def after(self, piece: Prefetched) -> Attended:
        """One piece further."""
        return replace(
            self,
            pieces=self.pieces + 1,
            bytes_fetched=self.bytes_fetched + piece.bytes_fetched,
            bytes_present=self.bytes_present + piece.bytes_present,
            ms=self.ms + piece.ms,
        )


def attend(
    program: StageProgram,
    errand: Errand,
    directory: str,
    *,
    background: bool = True,
    pause: float = PAUSE,
    sleep: Callable[[float], None] = time.sleep,
) -> Attended:
    """Begin an errand on this host, or see how far it is; when it is over, that is told once.

    directory: where processes of this host meet, its cache. background: False = all of it here and now, for processes
    that end with their task.
    """
    path = f"{directory}/{_MARK}{errand.name}"
    try:
        os.makedirs(directory, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError:
        return Attended(done=True, error="there is no cache to fetch into")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        known = _read(descriptor)
        os.close(descriptor)
        return replace(known, done=False)
    known = _read(descriptor)
    if known.done:
        with suppress(OSError):
            os.unlink(path)
        os.close(descriptor)
        return known
    _tidy(directory, time.time() - _FORGOTTEN_SECONDS)
    work = _work(program, errand, known, pause, sleep)
    if background:
        threading.Thread(
            target=_go_on, args=(descriptor, work), name="rechannel-ahead", daemon=True
        ).start()
        return known
    _go_on(descriptor, work)
    return attend(program, errand, directory, background=False)


def _work(
    program: StageProgram,
    errand: Errand,
    so_far: Attended,
    pause: float,
    sleep: Callable[[float], None],
) -> Iterator[Attended]:
    """How far it is after every piece."""
    for where in errand.pieces[so_far.pieces :]:
        try:
            piece = prefetch(program, errand.runs, where)
        except RechannelError as error:
            yield replace(so_far, done=True, error=str(error))
            return
        so_far = so_far.after(piece)
        yield so_far
        sleep(pause * piece.ms / 1e3)
    yield replace(so_far, done=True)


def _go_on(descriptor: int, work: Iterator[Attended]) -> None:
    """Do the work, and say how far it is; the lock is held until the end."""
    try:
        for so_far in work:
            text = json.dumps(asdict(so_far)).encode()
            os.pwrite(descriptor, text, 0)
            os.ftruncate(descriptor, len(text))
    except OSError:
        pass  # the cache's disk is full or gone: what was fetched is of use all the same
    finally:
        os.close(descriptor)


def _tidy(directory: str, before: float) -> None:
    """Remove files that were not written since (seconds since 1970) and that no process works on."""
    for entry in os.scandir(directory):
        if not entry.name.startswith(_MARK):
            continue
        with suppress(OSError):  # another process was first
            descriptor = os.open(entry.path, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(descriptor).st_mtime < before:
                    os.unlink(entry.path)
            finally:
                os.close(descriptor)


def _read(descriptor: int) -> Attended:
    """What the file says; nothing where it is new, or is being written."""
    try:
        return Attended(**json.loads(os.pread(descriptor, _BUFFER, 0)))
    except (OSError, ValueError, TypeError):
        return Attended()
