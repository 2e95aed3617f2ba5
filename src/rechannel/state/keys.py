"""Where everything lies in a store: one function per kind of file, and their inverses.

    dataflow.json                                     which dataflow the directory belongs to
    lease.json                                        who drives it, as a courtesy
    head.json                                         how far the journal went when a driver ended
    journal/<20 digits>.json                          entry n of the journal
    snapshots/<20 digits>.json                        everything that entries 1 to n say
    segments/<operator>/<timestep>-<task>-<attempt>.arrow
    outbox/<operator>/<timestep>-<task>-<attempt>.arrow
    reconfigurations/<id>.json                        what was changed while it ran, and what that did

Numbers are padded, so that the order of names is the order of numbers. Names given by people are
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
OUTBOX = "outbox/"
RECONFIGURATIONS = "reconfigurations/"

_RECORD = ".json"
_TABLE = ".arrow"


def check_key(key: str) -> str:
    """Return the key if a store may use it: a relative POSIX path without empty, hidden or parent
    parts.

    Names that begin with a dot are what a store may use for itself (temporary files). Raises
    ValueError.
    """
    if not key or key[0] in "/." or key[-1] == "/" or "/." in key or "//" in key or "\0" in key:
        msg = f"{key!r} is no key: keys are relative paths whose parts do not begin with a dot"
        raise ValueError(msg)
    return key


def entry_key(number: int) -> str:
    """Key of entry `number` of the journal."""
    return f"{JOURNAL}{number:020d}{_RECORD}"


def snapshot_key(number: int) -> str:
    """Key of the snapshot that holds what entries 1 to `number` say."""
    return f"{SNAPSHOTS}{number:020d}{_RECORD}"


def number_of(key: str) -> int | None:
    """Number in the key of an entry or snapshot; None when the key names neither."""
    digits = key.rpartition("/")[2].removesuffix(_RECORD)
    return int(digits) if len(digits) == 20 and digits.isdecimal() else None


def segment_key(*, operator: str, timestep: int, task: int, attempt: str) -> str:
    """Key of the segment that one attempt of one task writes in one timestep."""
    return _table_key(SEGMENTS, operator, timestep, task, attempt)


def segments_of(operator: str) -> str:
    """What keys of an operator's segments begin with."""
    return f"{SEGMENTS}{_encoded(operator)}/"


def outbox_key(*, operator: str, timestep: int, task: int, attempt: str) -> str:
    """Key of the output that one attempt of one task leaves for later units."""
    return _table_key(OUTBOX, operator, timestep, task, attempt)


def timestep_of(key: str) -> int | None:
    """Timestep in which a segment or outbox file was written; None when the key names neither."""
    if not key.startswith((SEGMENTS, OUTBOX)):
        return None
    digits = key.rpartition("/")[2].partition("-")[0]
    return int(digits) if digits.isdecimal() else None


def _table_key(room: str, operator: str, timestep: int, task: int, attempt: str) -> str:
    return f"{room}{_encoded(operator)}/{timestep:020d}-{task:05d}-{_encoded(attempt)}{_TABLE}"


def _encoded(name: str) -> str:
    encoded = quote(name, safe="")
    return "%2E" + encoded[1:] if encoded.startswith(".") else encoded
