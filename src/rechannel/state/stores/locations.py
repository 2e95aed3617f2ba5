"""From a job's `state=` to a store."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rechannel.errors import RefusedError, SetUpError
from rechannel.state.cache.host_cache import check_cache
from rechannel.state.store import Backing, Store
from rechannel.state.stores.credentials import machine_hands_out, missing
from rechannel.state.stores.local import Durability, LocalStore
from rechannel.state.stores.objects import ObjectStore
from rechannel.state.stores.probe import check_promises
from rechannel.state.stores.shared import SharedStore

_SCHEMES = ("s3", "s3a", "gs", "az", "adl", "azure", "abfs", "abfss", "memory")


def open_store(
    state: str | os.PathLike[str], *, durability: Durability, cache: str | None, cache_bytes: int
) -> Store:
    """Return the store at a path or URL, with a cache per host if there should be one.

    cache: directory on every host, or None. A directory needs no cache; a bucket is always read
    through one, by default below the temporary directory, per user. Raises RefusedError for a URL
    of an unknown kind and for a cache on this host that other users can change, SetUpError if the
    package for it is missing.
    """
    backing = open_backing(state, durability)
    if isinstance(backing, ObjectStore) and cache is None:
        cache = f"{tempfile.gettempdir()}/rechannel-cache-{{uid}}"
    if cache is None:
        return backing
    check_cache(cache)
    return SharedStore(backing, cache, cache_bytes)


def open_backing(state: str | os.PathLike[str], durability: Durability) -> Backing:
    """Return the store at a path or URL, without a cache. Raises RefusedError, SetUpError."""
    text = os.fspath(state)
    scheme = urlsplit(text).scheme if "://" in text else "file"
    if scheme == "file":
        # A directory, not an object store in a directory: its writes are synced.
        path = unquote(urlsplit(text).path) if "://" in text else text
        return LocalStore(Path(path), durability)
    if scheme not in _SCHEMES:
        msg = (
            f"state {text!r} cannot be opened: it must be a directory, file:// or one of"
            f" {', '.join(f'{known}://' for known in _SCHEMES)}"
        )
        raise RefusedError(msg)
    return ObjectStore(text.rstrip("/") if scheme != "memory" else text)


def check_keys(store: Store) -> None:
    """Raise SetUpError if a bucket's credentials cannot be found, before anything waits for them."""
    backing = store.backing if isinstance(store, SharedStore) else store
    if isinstance(backing, ObjectStore) and not backing.options:
        bucket = backing
        said = missing(
            bucket.url,
            os.environ,
            lambda: machine_hands_out(lambda: bucket.size("lease.json")),
        )
        if said is not None:
            raise SetUpError(said)


def check_bucket(store: Store) -> None:
    """Try out whether a bucket keeps the promises of a store. See `probe.check_promises`."""
    backing = store.backing if isinstance(store, SharedStore) else store
    if isinstance(backing, ObjectStore):
        check_promises(backing, backing.url)
