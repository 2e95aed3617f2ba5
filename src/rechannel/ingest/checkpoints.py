"""What a server knows after a file, written down: a start reads it, and the heads of later files only.

Files may be removed up to the newest checkpoint, and no further.
"""

from __future__ import annotations

from dataclasses import dataclass

from rechannel.errors import MissingFileError
from rechannel.ingest.producers import Producers
from rechannel.sources.ingest.format import Kept
from rechannel.sources.ingest.log import CHECKPOINTS, number_of
from rechannel.state.sealed import seal, unseal
from rechannel.state.store import Store

FORMAT = 1
"""Version of the format of a checkpoint; readers reject later ones."""

KEPT = 2
"""Checkpoints that stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known after a file."""

    number: int
    """Of the file; 0 before the first one."""
    rows: int
    """Of the log up to its end."""
    bytes: int
    """Likewise."""


def write_checkpoint(store: Store, log: str, known: Known, producers: Producers) -> None:
    """Write what is known, and remove checkpoints that are no longer needed. Raises StorageError."""
    record = {
        "format": FORMAT,
        "log": log,
        "number": known.number,
        "rows": known.rows,
        "bytes": known.bytes,
        "producers": [[name, of.sequence, of.digest] for name, of in producers.items()],
    }
    store.create(f"{CHECKPOINTS}{known.number:020d}.json", seal(record))
    for key in [*store.list(CHECKPOINTS)][:-KEPT]:
        store.delete(key)


def read_checkpoint(store: Store, producers: Producers) -> Known:
    """Return what the newest checkpoint says, and add its producers. Raises DamagedStateError, NewerFormatError."""
    keys = sorted(store.list(CHECKPOINTS), key=number_of)
    if not keys:
        return Known(number=0, rows=0, bytes=0)
    try:
        record = unseal(store.read(keys[-1]), name=keys[-1], newest=FORMAT)
    except MissingFileError:
        if keys == sorted(store.list(CHECKPOINTS), key=number_of):
            raise
        return read_checkpoint(store, producers)  # another server has just written later ones
    for name, sequence, digest in record["producers"]:
        producers.learn({name: Kept(sequence=sequence, digest=digest)})
    return Known(number=record["number"], rows=record["rows"], bytes=record["bytes"])
