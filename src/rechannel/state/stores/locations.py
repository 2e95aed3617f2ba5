"""From a job's `state=` to a store."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rechannel.errors import RefusedError, SetUpError
from rechannel.state.cache.host_cache import check_cache
from rechannel.state.store import Backing, RemoteStore, Store, Sweepable
from rechannel.state.stores import hdfs, objects
from rechannel.state.stores.local import Durability, LocalStore
from rechannel.state.stores.probe import check_promises
from rechannel.state.stores.shared import SharedStore

_KINDS: dict[str, Callable[[str, Durability], RemoteStore]] = {
    **dict.fromkeys(objects.SCHEMES, objects.opened),
    **dict.fromkeys(hdfs.SCHEMES, hdfs.opened),
}
"""What opens a URL, by its scheme. Another kind of store is another line."""


def open_store(
    state: str | os.PathLike[str], *, durability: Durability, cache: str | None, cache_bytes: int
) -> Store:
    """Return the store at a path or URL, with a cache per host if there should be one.

    cache: directory on every host, or None. A directory needs no cache; a store on other hosts is
    always read through one, by default below the temporary directory, per user. Raises RefusedError for a URL
    of an unknown kind and for a cache on this host that other users can change, SetUpError if the
    package for it is missing.
    """
    backing = open_backing(state, durability)
    if isinstance(backing, RemoteStore) and cache is None:
        cache = f"{tempfile.gettempdir()}/rechannel-cache-{{uid}}"
    if cache is None:
        return backing
    check_cache(cache)
    return SharedStore(backing, cache, cache_bytes)


def place_of(store: Store) -> str | None:
    """Return the directory or URL of a store; None of one that has no place, as in memory."""
    if isinstance(store, SharedStore):
        return place_of(store.backing)
    if isinstance(store, RemoteStore):
        return store.url
    return str(store.root) if isinstance(store, LocalStore) else None


def open_backing(state: str | os.PathLike[str], durability: Durability) -> Backing:
    """Return the store at a path or URL, without a cache. Raises RefusedError, SetUpError."""
    text = os.fspath(state)
    scheme = urlsplit(text).scheme if "://" in text else "file"
    if scheme == "file":
        # A directory, not an object store in a directory: its writes are synced.
        path = unquote(urlsplit(text).path) if "://" in text else text
        return LocalStore(Path(path), durability)
    if scheme not in _KINDS:
        msg = (
            f"state {text!r} cannot be opened: it must be a directory, file:// or one of"
            f" {', '.join(f'{known}://' for known in _KINDS)}"
        )
        raise RefusedError(msg)
    return _KINDS[scheme](text, durability)


def check_settings(store: Store) -> None:
    """Raise SetUpError if a remote store lacks credentials or addresses, before anything waits for them."""
    remote = _remote(store)
    if remote is not None and (said := remote.lacks()) is not None:
        raise SetUpError(said)


def check_remote(store: Store) -> None:
    """Try out whether a remote store keeps the promises of a store. See `probe.check_promises`."""
    remote = _remote(store)
    if remote is not None:
        check_promises(remote, remote.url)


def sweep_temporaries(store: Store, before_s: float = math.inf) -> int:
    """Remove what crashed writers left in a store. See `Sweepable.sweep_temporaries`.

    Returns the number of files; 0 for a store whose writers leave nothing.
    """
    found: object = store
    while (backing := getattr(found, "backing", None)) is not None:
        found = backing
    return found.sweep_temporaries(before_s) if isinstance(found, Sweepable) else 0


def _remote(store: Store) -> RemoteStore | None:
    backing = store.backing if isinstance(store, SharedStore) else store
    return backing if isinstance(backing, RemoteStore) else None
