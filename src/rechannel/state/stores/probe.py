"""Whether a store keeps the promises that the journal builds on, tried out before a job writes anything.

Above all: of many writers that create a key at the same time, the store accepts one. Servers that speak the protocol
of S3 may not know conditional requests, or may check and write in two steps. With such a store two drivers would own
one job.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

from rechannel.errors import MissingFileError, RefusedError, StorageError
from rechannel.state.store import Backing

WRITERS = 8
"""That create a key at the same time."""
ROUNDS = 8
"""Keys that are tried. A store that gives every third one to two writers is found out in 96 of 100 tries."""

REMEDY = (
    "Keep the state in a store that can create an object only if it is absent (If-None-Match) and reads what was"
    " written: S3 itself, Google Cloud Storage, Azure, MinIO, versitygw; or in a directory"
)

AT_A_TIME = 4
"""Keys for which writers compete at a time: a job that takes over waits for the probe."""


def check_promises(store: Backing, place: str, *, rounds: int = ROUNDS) -> None:
    """Raise RefusedError, with what is wrong, if a store does not do what `Store` and `Backing` say.

    place: as errors name it. The keys that are tried are removed. Raises StorageError if the store fails.
    """
    folder = f"probe/{secrets.token_hex(8)}"
    keys = [f"{folder}/{number}" for number in range(rounds)]
    with ExitStack() as undo:
        pool = undo.enter_context(ThreadPoolExecutor(AT_A_TIME * WRITERS, "rechannel-probe"))
        undo.callback(_remove, store, keys, pool)
        _create_at_once(store, keys, pool, place)
        _create_again(store, keys[0], place)
        _put_over(store, keys[0], place)
        found = [*store.list(f"{folder}/")]
        if found != sorted(keys):
            _refuse(place, f"lists {len(found)} of {len(keys)} objects that were just written")
        store.delete(keys[0])
        if keys[0] in store.list(f"{folder}/") or _is_there(store, keys[0]):
            _refuse(place, "still has an object that was just removed")


def _remove(store: Backing, keys: Sequence[str], pool: ThreadPoolExecutor) -> None:
    def remove(key: str) -> None:
        with suppress(StorageError):
            store.delete(key)

    deque(pool.map(remove, keys), maxlen=0)


def _create_at_once(
    store: Backing, keys: Sequence[str], pool: ThreadPoolExecutor, place: str
) -> None:
    """Have all writers of a key create it at the same time, a few keys at a time."""
    tried = [(key, f"{key} {writer:04d}".encode()) for key in keys for writer in range(WRITERS)]
    told = [*pool.map(lambda each: store.create(*each), tried)]
    won = {
        key: [value for (of, value), did in zip(tried, told, strict=True) if did and of == key]
        for key in keys
    }
    for values in won.values():
        if len(values) != 1:
            _refuse(
                place,
                f"let {len(values)} of {WRITERS} writers create the same object, instead of one",
            )
    for key, data in zip(keys, pool.map(store.read, keys), strict=True):
        if bytes(data) != won[key][0]:
            _refuse(place, "has not the bytes of the writer that created an object")


def _create_again(store: Backing, key: str, place: str) -> None:
    before = bytes(store.read(key))
    if store.create(key, b"again") or bytes(store.read(key)) != before:
        _refuse(place, "lets a writer create an object that exists")


def _put_over(store: Backing, key: str, place: str) -> None:
    facts, new = store.facts(key), b"another value, which is longer than the first one was"
    store.put(key, new)
    if bytes(store.read(key)) != new:
        _refuse(place, "does not read what was written last")
    if store.facts(key).version == facts.version:
        _refuse(place, "gives two contents of an object one version")
    parts = [bytes(part) for part in store.fetch(key, [(0, 7), (15, 20)])]
    if parts != [new[:7], new[15:20]]:
        _refuse(place, "does not read parts of an object")


def _is_there(store: Backing, key: str) -> bool:
    try:
        store.size(key)
    except MissingFileError:
        return False
    return True


def _refuse(place: str, what: str) -> None:
    raise RefusedError(f"state cannot be kept at {place}: it {what}. {REMEDY}")
