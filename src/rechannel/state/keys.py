"""Keys of everything in a store: one function per kind of file, and their inverses.

    dataflow.json                                     which dataflow the directory belongs to
    lease.json                                        which driver runs it; advisory
    head.json                                         where the journal ended when a driver stopped
    journal/<20 digits>.json                          entry n of the journal
    snapshots/<20 digits>.json                        the contents of entries 1 to n
    segments/<operator>/<timestep>-<task>-<attempt>.arrow
    outbox/<operator>/<timestep>-<task>-<attempt>.arrow
    reconfigurations/<id>.json                        what a live change did
    sources/<name>/...                                what a source has recorded of its input

Numbers are padded, so that the order of names is the order of numbers. User-given names are
percent-encoded, so that no name can leave its folder.
"""

from __future__ import annotations

from urllib.parse import quote

IDENTITY = "dataflow.json"
LEASE = "lease.json"
HEAD = "head.json"
JOURNAL = "journal/"
SNAPSHOTS = "snapshots/"
SEGMENTS = "segments/"
SINK_BUFFERS = "outbox/"
RECONFIGURATIONS = "reconfigurations/"
SOURCES = "sources/"

_RECORD = ".json"
_TABLE = ".arrow"


def check_key(key: str) -> str:
    """Return the key if a store may use it: a relative POSIX path without empty, hidden or parent
    parts.

    Names that begin with a dot are reserved for the store itself (temporary files). Raises
    ValueError.
    """
    if not key or key[0] in "/." or key[-1] == "/" or "/." in key or "//" in key or "\0" in key:
        msg = f"{key!r} is not a key: keys are relative paths whose parts do not begin with a dot"
        raise ValueError(msg)
    return key


def entry_key(number: int) -> str:
    """Return the key of entry `number` of the journal."""
    return f"{JOURNAL}{number:020d}{_RECORD}"


def snapshot_key(number: int) -> str:
    """Return the key of the snapshot of entries 1 to `number`."""
    return f"{SNAPSHOTS}{number:020d}{_RECORD}"


def number_of(key: str) -> int | None:
    """Return the number in the key of an entry or snapshot; None for any other key."""
    digits = key.rpartition("/")[2].removesuffix(_RECORD)
    return int(digits) if len(digits) == 20 and digits.isdecimal() else None


def segment_key(*, operator: str, timestep: int, task: int, attempt: str) -> str:
    """Return the key of the segment that one attempt of one task writes in one timestep."""
    return _table_key(SEGMENTS, operator, timestep, task, attempt)


def segments_of(operator: str) -> str:
    """Return the prefix of the keys of an operator's segments."""
    return f"{SEGMENTS}{_encoded(operator)}/"


def sink_buffer_key(*, operator: str, timestep: int, task: int, attempt: str) -> str:
    """Return the key of the sink buffer that one attempt of one task writes in one timestep."""
    return _table_key(SINK_BUFFERS, operator, timestep, task, attempt)


def timestep_of(key: str) -> int | None:
    """Return the timestep in which a segment or sink buffer was written; None for any other key."""
    if not key.startswith((SEGMENTS, SINK_BUFFERS)):
        return None
    digits = key.rpartition("/")[2].partition("-")[0]
    return int(digits) if digits.isdecimal() else None


def _table_key(folder: str, operator: str, timestep: int, task: int, attempt: str) -> str:
    return f"{folder}{_encoded(operator)}/{timestep:020d}-{task:05d}-{_encoded(attempt)}{_TABLE}"


def _encoded(name: str) -> str:
    encoded = quote(name, safe="")
    return "%2E" + encoded[1:] if encoded.startswith(".") else encoded
