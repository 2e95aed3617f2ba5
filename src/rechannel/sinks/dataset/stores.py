"""From the path of a dataset to its store, and from a file's key to what other tools open."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from rechannel.errors import RefusedError
from rechannel.state.store import Backing, RemoteStore, Store
from rechannel.state.stores.local import Durability, LocalStore
from rechannel.state.stores.locations import check_settings, open_backing


def store_at(path: str, *, sync: bool = True) -> Backing:
    """Return the store at a path or URL. Raises RefusedError, SetUpError."""
    store = open_backing(path, Durability.POWER if sync else Durability.PROCESS)
    check_settings(store)
    return store


def address_of(store: Store, key: str) -> str:
    """Return the path or URL of a file."""
    if isinstance(store, LocalStore):
        return f"{store.root}/{key}"
    base = store.url if isinstance(store, RemoteStore) else ""
    return f"{base.rstrip('/')}/{key}"


def linked(store: Store, keys: Sequence[str], folder: str) -> str:
    """Make a folder of files, in one step. Returns it. Raises RefusedError if it exists."""
    target = Path(folder).absolute()
    if target.exists():
        raise RefusedError(
            f"{target} exists: link to a new folder, and remove the old one once no tool reads it"
        )
    begun = target.with_name(f".{target.name}-{secrets.token_hex(4)}")
    begun.mkdir(parents=True)
    try:
        for number, key in enumerate(keys):
            _link(store, key, begun / f"part-{number:05d}.parquet")
        begun.rename(target)
    except BaseException:
        shutil.rmtree(begun, ignore_errors=True)
        raise
    return str(target)


def _link(store: Store, key: str, to: Path) -> None:
    if isinstance(store, LocalStore):
        try:
            os.link(address_of(store, key), to)
        except OSError:  # another file system
            shutil.copyfile(address_of(store, key), to)
    else:
        to.write_bytes(store.read(key))
