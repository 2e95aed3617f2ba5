"""Fetch state to a host in the background: in a thread of a worker process that outlives the task which started it.

Fetching so takes no task's slot, and no timestep waits for it.

    idle -- attend --> fetching -- attend: progress --> ... --> done -- attend: result --> idle

All worker processes of a host share an errand. The process that fetches locks the errand's file in the host's cache and
writes its progress there. If the process ends, the lock ends with it, and the next process that attends continues.
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
from dataclasses import dataclass, replace

from rechannel.errors import RechannelError
from rechannel.kernels.lsm.prefetch import Prefetched, prefetch
from rechannel.kernels.protocol.program import StageProgram
from rechannel.model.codec import decode, encode
from rechannel.model.hashspace import Intervals
from rechannel.state.run import Run

PAUSE = 1.0
"""Pause after a piece, in multiples of the time it took: 1 leaves the line to the store free half of the time."""

_MARK = ".ahead-"
_BUFFER = 1 << 16
_FORGOTTEN_SECONDS = 3600.0
"""Age at which an errand's file is removed: its driver is gone and will not ask for the progress."""


@dataclass(frozen=True)
class Errand:
    """What one host has to fetch."""

    name: str
    """Unique for ever."""
    runs: tuple[Run, ...]
    """Runs to fetch from."""
    pieces: tuple[Intervals, ...]
    """Hash intervals to fetch, in this order."""


@dataclass(frozen=True, kw_only=True)
class Attended:
    """Progress of an errand on one host. Correctness does not depend on it."""

    done: bool = False
    """Whether it is over."""
    pieces: int = 0
    """Pieces fetched so far."""
    bytes_fetched: int = 0
    """Sum over these pieces, as in `Prefetched`."""
    bytes_present: int = 0
    """Sum over these pieces, as in `Prefetched`."""
    ms: float = 0.0
    """Sum over these pieces, as in `Prefetched`."""
    error: str = ""
    """What ended it early; empty if nothing did."""

    def after(self, piece: Prefetched) -> Attended:
        """Return the progress after one more piece."""
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
    """Start an errand on this host, or return its progress. The final progress is returned once.

    directory: the cache that all processes of this host share. background: False fetches everything before returning,
    for processes that end with their task. pause, sleep: see `PAUSE`.
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
    """Fetch piece by piece; yield the progress after each."""
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
    """Do the work and record the progress. The lock is held until the end."""
    try:
        for so_far in work:
            text = json.dumps(encode(so_far)).encode()
            os.pwrite(descriptor, text, 0)
            os.ftruncate(descriptor, len(text))
    except OSError:
        pass  # the cache's disk is full or gone; what was fetched is still useful
    finally:
        os.close(descriptor)


def _tidy(directory: str, before: float) -> None:
    """Remove files last written before a time (seconds since 1970) that no process has locked."""
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
    """Return the progress in the file; none if the file is new or being written."""
    try:
        return decode(Attended, json.loads(os.pread(descriptor, _BUFFER, 0)))
    except (OSError, KeyError, ValueError, TypeError):
        return Attended()
