"""Where components are kept between runs, and making each of them once."""

from __future__ import annotations

import fcntl
import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDER = Path(os.environ.get("RECHANNEL_REAL") or ROOT / ".real")
"""Where components are kept between runs."""

_locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


@contextmanager
def one_at_a_time(name: str) -> Iterator[None]:
    """Keep other threads, and processes that test beside this one, out of what goes by this name."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with _locks[name], (FOLDER / f".{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # a process that dies gives it back
        yield
