"""From the path of a dataset to its store, and from a file's key to what other tools open."""

from __future__ import annotations

from rechannel.state.store import Backing, RemoteStore
from rechannel.state.stores.local import Durability, LocalStore
from rechannel.state.stores.locations import check_settings, open_backing


def store_at(path: str, *, sync: bool = True) -> Backing:
    """Return the store at a path or URL. Raises RefusedError, SetUpError."""
    store = open_backing(path, Durability.POWER if sync else Durability.PROCESS)
    check_settings(store)
    return store


def address_of(store: Backing, key: str) -> str:
    """Return the path or URL of a file."""
    if isinstance(store, LocalStore):
        return f"{store.root}/{key}"
    base = store.url if isinstance(store, RemoteStore) else ""
    return f"{base.rstrip('/')}/{key}"
