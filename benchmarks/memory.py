"""How much memory a tree of processes holds, from ``/proc``. Elsewhere than on Linux: unknown.

Anonymous memory (heaps, private pages) is what a variant costs; mapped files are counted apart,
because they are the page cache and the system takes them back at will. Pages that forked Python
workers share with each other are counted once per worker, so worker figures are upper bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROLES = ("jvm", "driver", "workers")
PROC = Path("/proc")


@dataclass(slots=True)
class MemoryPeak:
    """The largest total per role seen so far, in bytes; ``workers mapped`` are mapped files."""

    bytes: dict[str, int] = field(default_factory=dict)

    def sample(self, session: int, proc: Path = PROC) -> None:
        """Look once at every process of `session` (the leader's process id)."""
        for role, seen in usage(session, proc).items():
            self.bytes[role] = max(seen, self.bytes.get(role, 0))


def usage(session: int, proc: Path = PROC) -> Mapping[str, int]:
    """Bytes held now per role; roles without a process are left out."""
    total: dict[str, int] = {}
    for process in processes(session, proc):
        try:
            command = (process / "cmdline").read_bytes()
            status = (process / "status").read_text()
        except OSError:
            continue  # it ended while we looked
        role = role_of(command)
        anonymous, mapped = resident(status)
        total[role] = total.get(role, 0) + anonymous
        if role == "workers":
            total["workers mapped"] = total.get("workers mapped", 0) + mapped
    return total


def processes(session: int, proc: Path) -> Iterator[Path]:
    """The directories of the processes that belong to `session`."""
    for entry in proc.iterdir() if proc.is_dir() else ():
        if not entry.name.isdigit():
            continue
        try:
            # The command name is in brackets and may hold anything; the fields after it do not.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            yield entry


def role_of(command: bytes) -> str:
    """``jvm``, ``driver`` (the Python program) or ``workers`` (Spark's Python workers)."""
    words = command.split(b"\0")
    if words[0].endswith(b"java"):
        return "jvm"
    return "workers" if any(word.startswith(b"pyspark.") for word in words) else "driver"


def resident(status: str) -> tuple[int, int]:
    """Bytes of anonymous (and shared) memory, and of mapped files, from ``/proc/PID/status``."""
    kilobytes = {"RssAnon": 0, "RssShmem": 0, "RssFile": 0}
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name in kilobytes:
            kilobytes[name] = int(value.split()[0])
    anonymous = kilobytes["RssAnon"] + kilobytes["RssShmem"]
    return anonymous * 1024, kilobytes["RssFile"] * 1024
