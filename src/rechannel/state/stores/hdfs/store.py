"""The store in a directory of HDFS, through `hdfs-native`, which needs no JVM.

- A file is written under a temporary name beside its own, closed, and renamed: it appears whole.
- A rename that may not replace a file is create-if-absent: the name node makes one rename at a
  time, so that one of many writers gets the name. An answer may be lost and the client may repeat
  the rename, which then fails. So after a failure the writer looks for its temporary file: if that
  is gone, the rename has happened, or another driver has removed temporary files, and the bytes
  under the name say which.
- With `Durability.POWER` the data nodes sync a block to their disks before the file is renamed. The
  name node syncs its log of renames by itself.
- A version is the time at which the file was closed, in ms, and its size. Two writers of one key
  who close within the same ms could give two contents one version. Caches keep parts of segments
  alone, which have one writer each.

Every call is at least one request: segments should be read through `shared.SharedStore`.
"""

from __future__ import annotations

import builtins
import math
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn, TypeVar
from urllib.parse import urlsplit

from rechannel.errors import MissingFileError, NotPermittedError, SetUpError, StorageError
from rechannel.state.keys import check_key
from rechannel.state.store import FileFacts
from rechannel.state.stores.hdfs.said import refusal_of
from rechannel.state.stores.local import Durability

if TYPE_CHECKING:
    from hdfs_native import Client, FileStatus

T = TypeVar("T")

SCHEMES = ("hdfs",)

SETTINGS = {
    "dfs.client.failover.max.attempts": "6",
    "dfs.client.failover.sleep.base.millis": "500",
    "dfs.client.failover.sleep.max.millis": "8000",
}
"""How the client repeats a request by itself: for some 15 s, not for three minutes as by default.

Longer outages are handled by the callers: a command ends within a minute, and a job can be stopped
without delay.
"""

_TEMPORARY = ".tmp-"
_ONE_BLOCK = 64 << 20
"""Bytes of a file above which its block is made as large as itself: a sync is of the last block."""
_UNIT = 1 << 20

_clients: dict[str, Client] = {}


@dataclass(frozen=True, slots=True)
class HdfsStore:
    """A store below a URL ("hdfs://namenode:8020/folder" or "hdfs://nameservice/folder"). A value:
    pickled to workers.

    The files in HADOOP_CONF_DIR, on the driver and on every worker, say what else clients need.
    Raises SetUpError if `hdfs-native` is missing, StorageError, with the key, if HDFS fails
    (NotPermittedError if waiting does not help).
    """

    url: str
    durability: Durability = Durability.POWER

    def __post_init__(self) -> None:
        """Check that `hdfs-native` is installed. Raises SetUpError."""
        hdfs_native()

    def lacks(self) -> str | None:
        """Return a sentence if no name node is known. See `RemoteStore.lacks`."""
        try:
            self._client()
        except Exception as error:
            return (
                f"no name node is known for {self.url}: {refusal_of(error).said}. Write its address"
                " and port in the URL, or set HADOOP_CONF_DIR, in the environment of the driver and"
                " of all workers, to a directory whose hdfs-site.xml has the addresses of the name"
                " service"
            )
        return None

    def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """Return a copy of bytes [start, start + length) of a key. See `Store.read`."""
        stop = None if length is None else start + length
        return memoryview(self._fetched(key, [(start, stop)])[0])

    def fetch(
        self, key: str, spans: Sequence[tuple[int, int]]
    ) -> builtins.list[bytes | memoryview]:
        """Return several byte ranges. See `Backing.fetch`."""
        return [*self._fetched(key, spans)]

    def facts(self, key: str) -> FileFacts:
        """Return size and version of a file. See `Backing.facts`."""
        path = self._path(key)
        found = self._try("read", key, lambda: self._client().get_file_info(path))
        if found.isdir:
            self._refuse("read", key, FileNotFoundError(f"{path} is a directory"))
        version = f"{self.url}\0{key}\0{found.modification_time}\0{found.length}"
        return FileFacts(found.length, version)

    def put(self, key: str, data: bytes | memoryview | builtins.list[memoryview]) -> None:
        """Write a key atomically. See `Store.put`."""
        path = self._path(key)
        temporary = self._write_temporary("write", key, data)
        try:
            self._client().rename(temporary, path, overwrite=True)
        except Exception as error:
            self._discard(temporary)
            self._refuse("write", key, error)

    def create(self, key: str, data: bytes) -> bool:
        """Write a key only if it is absent. See `Store.create`."""
        path = self._path(key)
        temporary = self._write_temporary("create", key, data)
        try:
            self._client().rename(temporary, path, overwrite=False)
        except (FileExistsError, FileNotFoundError) as error:
            if self._is_there("create", key, temporary):
                self._discard(temporary)
                if isinstance(error, FileExistsError):
                    return False
                self._refuse("create", key, error)
            return self._has(key, data, error)
        except Exception as error:
            self._discard(temporary)
            self._refuse("create", key, error)
        return True

    def delete(self, key: str) -> None:
        """Remove a key if it exists."""
        path = self._path(key)
        try:
            self._client().delete(path, recursive=False)
        except Exception as error:
            if not refusal_of(error).missing:
                self._refuse("delete", key, error)

    def list(self, prefix: str) -> Iterator[str]:
        """Yield keys that start with the prefix, ascending. Temporary files are not keys."""
        folder = prefix.rpartition("/")[0]
        if folder:
            check_key(folder)
        root = f"{self._root()}/"
        keys = (found.path.removeprefix(root) for found in self._below(folder, prefix))
        yield from sorted(key for key in keys if key.startswith(prefix) and "/." not in f"/{key}")

    def size(self, key: str) -> int:
        """Return the length of a key in bytes."""
        return self.facts(key).size

    def sweep_temporaries(self, before_s: float = math.inf) -> int:
        """Remove the files of crashed writers. See `Sweepable.sweep_temporaries`."""
        left = [
            found.path
            for found in self._below("", "")
            if found.path.rpartition("/")[2].startswith(_TEMPORARY)
            and found.modification_time < before_s * 1e3
        ]
        for path in left:
            self._discard(path)
        return len(left)

    def _fetched(self, key: str, spans: Sequence[tuple[int, int | None]]) -> builtins.list[bytes]:
        path = self._path(key)

        def ranges() -> builtins.list[bytes]:
            file = self._client().read(path)
            size = len(file)
            ends = [(start, size if stop is None else min(stop, size)) for start, stop in spans]
            return [file.read_range(start, max(0, stop - start)) for start, stop in ends]

        try:
            return ranges()
        except FileNotFoundError as error:
            self._refuse("read", key, error)
        except Exception:
            # Its blocks may have gone with the file that a writer has just replaced.
            return self._try("read", key, ranges)

    def _write_temporary(
        self, verb: str, key: str, data: bytes | memoryview | builtins.list[memoryview]
    ) -> str:
        folder = self._path(key).rpartition("/")[0]
        temporary = f"{folder}/{_TEMPORARY}{secrets.token_hex(12)}"
        whole = b"".join(data) if isinstance(data, builtins.list) else bytes(data)
        try:
            self._write_file(temporary, whole)
        except Exception as error:
            self._discard(temporary)
            self._refuse(verb, key, error)
        return temporary

    def _write_file(self, path: str, data: bytes) -> None:
        options = hdfs_native().WriteOptions(overwrite=True, create_parent=True)
        if len(data) > _ONE_BLOCK:
            options.block_size = -(-len(data) // _UNIT) * _UNIT
        file = self._client().create(path, options)
        if data:
            file.write(data)
            if self.durability is Durability.POWER:
                file.hsync()
        file.close()

    def _discard(self, temporary: str) -> None:
        with suppress(Exception):  # it is swept later
            self._client().delete(temporary, recursive=False)

    def _is_there(self, verb: str, key: str, path: str) -> bool:
        try:
            self._client().get_file_info(path)
        except FileNotFoundError:
            return False
        except Exception as error:
            self._refuse(verb, key, error)
        return True

    def _has(self, key: str, data: bytes, error: Exception) -> bool:
        """Return whether a key has these bytes; another driver removed the temporary file if it has none."""
        try:
            return bytes(self.read(key)) == data
        except MissingFileError:
            self._refuse("create", key, error)

    def _below(self, folder: str, prefix: str) -> builtins.list[FileStatus]:
        """Return all files below a folder; none if there is no such folder."""
        path = f"{self._root()}/{folder}".rstrip("/") or "/"
        try:
            found = [*self._client().list_status(path, recursive=True)]
        except Exception as error:
            if refusal_of(error).missing:
                return []
            self._refuse("list", prefix, error)
        return [one for one in found if not one.isdir]

    def _root(self) -> str:
        return urlsplit(self.url).path.rstrip("/")

    def _path(self, key: str) -> str:
        return f"{self._root()}/{check_key(key)}"

    def _client(self) -> Client:
        place = urlsplit(self.url).netloc
        client = _clients.get(place)
        if client is None:
            url = f"hdfs://{place}" if place else None
            client = _clients.setdefault(place, hdfs_native().Client(url, dict(SETTINGS)))
        return client

    def _try(self, verb: str, key: str, request: Callable[[], T]) -> T:
        try:
            return request()
        except Exception as error:
            self._refuse(verb, key, error)

    def _refuse(self, verb: str, key: str, error: Exception) -> NoReturn:
        refusal, place = refusal_of(error), f"{self.url}/{key}"
        if refusal.missing and verb == "read":
            msg = (
                f"{place} is missing. If the journal names it, restore it from a copy of the state;"
                " the job cannot continue without it"
            )
            raise MissingFileError(msg) from error
        what = f"cannot {verb} {place}: {refusal.said}."
        if refusal.denied:
            msg = (
                f"{what} Waiting does not help. Committed timesteps are safe. Give the user, whom"
                " HADOOP_USER_NAME or a Kerberos ticket names, write permission there, and start"
                " again"
            )
            raise NotPermittedError(msg) from error
        raise StorageError(f"{what} Committed timesteps are safe") from error


def opened(url: str, durability: Durability) -> HdfsStore:
    """Return the store at a URL."""
    return HdfsStore(url.rstrip("/"), durability)


def hdfs_native() -> ModuleType:
    """Import the package. Raises SetUpError with the command that installs it."""
    try:
        import hdfs_native as package
    except ImportError as error:
        msg = (
            "state in HDFS needs the package hdfs-native: pip install 'rechannel[hdfs]' on the"
            " driver and on all workers"
        )
        raise SetUpError(msg) from error
    return package
