"""The lease: a courtesy between drivers, so that a second one is refused before it does harm.

`lease.json` names the holder and its latest heartbeat. A second driver is refused while the holder
sends heartbeats, unless the holder is known to be dead (same process table, process gone), or the
second driver insists (`takeover`). A holder without a heartbeat for `FRESH_MS` counts as stopped,
whether its process lives or not. The lease can be raced and proves nothing: only the journal fences
drivers.

Two hosts may have one name, and a host may have several process tables: containers. So a table is
known by the boot of the machine and by its namespace.

Clock and process table are arguments; only `process_started` and `process_table` look at the machine.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from rechannel.engine.journal.head import read_head, write_head
from rechannel.errors import DamagedStateError, FencedError, StateInUseError
from rechannel.model.codec import decode, encode
from rechannel.state.keys import LEASE
from rechannel.state.sealed import seal, unseal
from rechannel.state.store import Store

FORMAT = 3
"""Version of the format of the lease; readers refuse later ones, and read earlier ones."""

FRESH_MS = 10_000
"""A holder whose latest heartbeat is older than this counts as stopped."""

_START = 19
"""Place of a process's start in its line of /proc, counted after its name."""
_SAME_START_MS = 1_000
"""Two readings of one process's start differ by less: they are rounded to clock ticks."""


Where: TypeAlias = tuple[str, str]
"""Host, and process table there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The driver that holds the lease."""

    host: str
    pid: int
    started_ms: int
    """Start of the process, since process ids are reused: milliseconds since the machine's boot, or since 1970 if
    that is not known. The clock of a machine may be set."""
    epoch: int
    """Journal epoch that it is about to open."""
    heartbeat_ms: int
    """Its latest heartbeat, Unix milliseconds."""
    entry: int = 0
    """Latest journal entry at that time; 0 if not recorded."""
    table: str = ""
    """Process table that its id is of; empty if not known, as in earlier versions of the format."""

    @property
    def where(self) -> Where:
        """Whose process ids its own is one of."""
        return self.host, self.table

    def same_driver(self, other: Holder) -> bool:
        """Return whether both name the same driver."""
        mine, others = (replace(one, heartbeat_ms=0, entry=0) for one in (self, other))
        return mine == others


class Lease:
    """A held lease. The driver calls `renew` every second or so, from any thread, until one calls `release`."""

    def __init__(self, store: Store, holder: Holder, clock: Callable[[], int]) -> None:
        """Use `Lease.acquire`."""
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._released = False
        self._entry: Callable[[], int] = int
        self.holder = holder

    def watch(self, entry: Callable[[], int]) -> None:
        """Record the latest journal entry with every heartbeat. entry: returns its number."""
        self._entry = entry

    @classmethod
    def acquire(
        cls,
        store: Store,
        holder: Holder,
        *,
        clock: Callable[[], int],
        started: Callable[[int], int | None],
        takeover: bool = False,
        ended: Holder | None = None,
    ) -> Lease:
        """Take the lease, or raise StateInUseError naming who holds it.

        holder: the new one; its heartbeat is set here. clock: Unix milliseconds. started: start of a
        living process of this host, else None (`process_started`). ended: a holder that gave no sign
        for long by this host's clock, whatever its own said.
        """
        now = clock()
        present = read_lease(store)
        free = present is None or takeover or present == ended
        if present and not free and holds(present, holder.where, now, started):
            age = max(0, now - present.heartbeat_ms) / 1000
            msg = (
                f"the state directory is in use: process {present.pid} on host {present.host} gave"
                f" a sign {age:.1f} s ago. Stop it first, or start with takeover=True to fence it"
            )
            raise StateInUseError(msg)
        lease = cls(store, replace(holder, heartbeat_ms=now), clock)
        lease._write()
        return lease

    def renew(self, fenced: Callable[[], FencedError | None]) -> None:
        """Give a sign; none once it was given back. Raises what `fenced` returns, and then gives none.

        fenced: what the journal says of this driver. Whom it does not fence is the rightful holder,
        whatever name the lease bears: a driver that was replaced may have given its last sign after
        its successor's first.
        """
        with self._lock:
            if self._released:
                return
            replaced = fenced()
            if replaced is not None:
                raise replaced
            self.holder = replace(self.holder, heartbeat_ms=self._clock(), entry=self._entry())
            self._write()

    def release(self) -> None:
        """Give the lease back, unless another driver has it. How far the journal goes is still told."""
        with self._lock:
            self._released = True
            present = read_lease(self._store)
            if present and present.same_driver(self.holder):
                if number := self._entry():
                    write_head(self._store, number)
                self._store.delete(LEASE)

    def _write(self) -> None:
        self._store.put(LEASE, seal({"format": FORMAT, **encode(self.holder)}))


def read_lease(store: Store) -> Holder | None:
    """Who holds the lease, fresh or not; None when no driver does.

    A lease torn by a power failure has no holder: it is no state, and may be lost.
    """
    try:
        record = unseal(store.read(LEASE), name=LEASE, newest=FORMAT)
    except DamagedStateError:
        return None
    return decode(Holder, record)


def recorded_head(store: Store) -> int:
    """Return the latest journal entry that any driver recorded, in its lease or when it ended; 0 if none did."""
    present = read_lease(store)
    return max(read_head(store), present.entry if present else 0)


def process_started(pid: int) -> int | None:
    """Start of a living process of this host, as in `Holder.started_ms`; None when there is none."""
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        if process_table():
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            ticks = int(stat.rpartition(")")[2].split()[_START])
            return ticks * 1_000 // os.sysconf("SC_CLK_TCK")
        return int(process.create_time() * 1_000)
    except (psutil.NoSuchProcess, OSError):
        return None


def process_table() -> str:
    """What only processes have that see each other's ids: the boot of a machine, and a namespace. Empty if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def lives(holder: Holder, started: Callable[[int], int | None]) -> bool:
    """Whether the process of a holder in this process table is there."""
    since = started(holder.pid)
    return since is not None and abs(since - holder.started_ms) < _SAME_START_MS


def holds(
    present: Holder, where: Where, wall_ms: int, started: Callable[[int], int | None]
) -> bool:
    """Whether the present holder keeps others out. where: of the one who asks."""
    if wall_ms - present.heartbeat_ms >= FRESH_MS:
        return False
    return present.where != where or lives(present, started)
