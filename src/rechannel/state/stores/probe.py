"""Whether a store keeps the promises that the journal builds on, tried out before a job writes anything.

Above all: of many writers that create a key at the same time, the store accepts one. Servers that speak the protocol
of S3 may not know conditional requests, or may check and write in two steps. With such a store two drivers would own
one job.
"""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from rechannel.errors import MissingFileError, RefusedError, StorageError
from rechannel.state.store import Backing

WRITERS = 8
"""That create a key at the same time."""
ROUNDS = 8
"""Of keys; a store of which every third one goes to two writers is found out in 96 of 100 tries."""

REMEDY = (
    "Keep the state in a store that can create an object only if it is absent (If-None-Match) and reads what was"
    " written: S3 itself, Google Cloud Storage, Azure, MinIO, versitygw; or in a directory"
)


def check_promises(store: Backing, place: str, *, rounds: int = ROUNDS) -> None:
    """Raise RefusedError, with what is wrong, if a store does not do what `Store` and `Backing` say.

    place: as errors name it. The keys that are tried are removed. Raises StorageError if the store fails.
    """
    folder = f"probe/{secrets.token_hex(8)}"
    keys = [f"{folder}/{number}" for number in range(rounds)]
    try:
        with ThreadPoolExecutor(WRITERS) as pool:
            for key in keys:
                _create_at_once(store, key, pool, place)
        _create_again(store, keys[0], place)
        _put_over(store, keys[0], place)
        found = [*store.list(f"{folder}/")]
        if found != sorted(keys):
            _refuse(place, f"lists {len(found)} of {len(keys)} objects that were just written")
        store.delete(keys[0])
        if keys[0] in store.list(f"{folder}/") or _is_there(store, keys[0]):
            _refuse(place, "still has an object that was just removed")
    finally:
        for key in keys:
            with suppress(StorageError):
                store.delete(key)


def _create_at_once(store: Backing, key: str, pool: ThreadPoolExecutor, place: str) -> None:
    values = [f"{key} {writer:04d}".encode() for writer in range(WRITERS)]
    told = [*pool.map(lambda value: store.create(key, value), values)]
    if (winners := sum(told)) != 1:
        _refuse(
            place,
            f"let {winners} of {WRITERS} writers create the same object, instead of one",
        )
    if bytes(store.read(key)) != values[told.index(True)]:
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
