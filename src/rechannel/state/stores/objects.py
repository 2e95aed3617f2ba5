"""The store in a bucket of an object store (S3, Google Cloud Storage, Azure, ...), through
`obstore`.

- A put is atomic, and durable when it returns: object stores promise that.
- Create-if-absent is the store's own conditional put. An answer may be lost and the client may
  repeat the request; the existing object is then ours. It is recognised by a random word of this
  create, if the store keeps attributes of objects.
- The client repeats requests by itself, but not one whose answer breaks off: that is done here.
- Keys are listed by folder, as object stores do, and sorted.

Every read is a request of milliseconds: segments should be read through `shared.SharedStore`.
"""

from __future__ import annotations

import builtins
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn, TypeVar

from rechannel.errors import MissingFileError, NotPermittedError, SetUpError, StorageError
from rechannel.state.keys import check_key
from rechannel.state.store import FileFacts
from rechannel.state.stores.credentials import machine_hands_out, missing
from rechannel.state.stores.local import Durability

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Bucket

T = TypeVar("T")

RETRY_SECONDS = 20.0
"""How long the client repeats a request by itself, from its first attempt on; one attempt takes 30
s at most.

Longer outages are handled by the callers: a command ends within a minute, and a job can be stopped
without delay.
"""

ANSWERS = 8
"""How often a request is made at most whose answers break off."""

PAUSE_SECONDS = 0.05
"""Before a create is made again that another request for its key has hindered; longer each time."""

PIECE_BYTES, PIECES = 8 << 20, 4
"""What one request reads of a large object, and requests that run side by side."""

ONE_PUT_BYTES = 64 << 20
"""What is written in one request."""

SCHEMES = ("s3", "s3a", "gs", "az", "adl", "azure", "abfs", "abfss", "memory")

_BROKEN_OFF = "response body error"
_CREATOR = "rechannelcreator"
"""Letters alone: Azure refuses an attribute whose name is no identifier."""
_WITHOUT_ATTRIBUTES = ("file://",)
_REASON = re.compile(r"<Code>([^<]*)</Code>\s*<Message>([^<\n]*)")

_buckets: dict[ObjectStore, Bucket] = {}


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A store below a URL ("s3://bucket/folder"). A value: pickled to workers.

    "memory://..." is one store per process and URL, for tests. Raises SetUpError if `obstore` is
    missing, StorageError, with the key, if the store fails.
    """

    url: str
    options: tuple[tuple[str, str], ...] = ()
    """Pairs (name, value) as in `obstore.store.from_url` ("region", "endpoint", ...). Everything
    else, above all credentials, comes from the environment of each worker.
    """

    def __post_init__(self) -> None:
        """Check that `obstore` is installed. Raises SetUpError."""
        obstore()

    def lacks(self) -> str | None:
        """Return a sentence with the settings or credentials that cannot be found. See `RemoteStore.lacks`."""
        try:
            self._bucket()
        except Exception as error:
            return (
                f"{self.url} cannot be opened: {_said(error)}. Set what is missing (for Azure,"
                " AZURE_STORAGE_ACCOUNT_NAME) in the environment of the driver and of all workers"
            )
        if self.options:
            return None
        return missing(
            self.url, os.environ, lambda: machine_hands_out(lambda: self.size("lease.json"))
        )

    def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """Return a copy of bytes [start, start + length) of a key. See `Store.read`."""
        check_key(key)
        if start == 0 and length is None:
            return self._try("read", key, lambda: _get(self._bucket(), key))
        size = self.size(key)
        stop = size if length is None else min(size, start + length)
        if start >= stop:
            return memoryview(b"")
        return memoryview(self.fetch(key, [(start, stop)])[0])

    def fetch(
        self, key: str, spans: Sequence[tuple[int, int]]
    ) -> builtins.list[bytes | memoryview]:
        """Return several byte ranges. See `Backing.fetch`."""
        check_key(key)
        starts, ends = [start for start, _ in spans], [stop for _, stop in spans]
        return self._try(
            "read",
            key,
            lambda: [
                memoryview(part)
                for part in obstore().get_ranges(
                    self._bucket(), key, starts=starts, ends=ends, coalesce=0
                )
            ],
        )

    def facts(self, key: str) -> FileFacts:
        """Return size and version of an object. See `Backing.facts`."""
        check_key(key)
        meta = self._try("read", key, lambda: obstore().head(self._bucket(), key))
        changed = meta["e_tag"] or meta["version"] or meta["last_modified"].isoformat()
        size = meta["size"]
        return FileFacts(size, f"{self.url}\0{key}\0{changed}\0{size}")

    def put(self, key: str, data: bytes | memoryview | builtins.list[memoryview]) -> None:
        """Write a key atomically. See `Store.put`."""
        check_key(key)
        whole = _joined(data)
        # In parts only where it must be: parts of a writer that is killed stay, unseen, until a rule of the bucket
        # removes them.
        parts = len(whole) > ONE_PUT_BYTES
        self._try(
            "write", key, lambda: obstore().put(self._bucket(), key, whole, use_multipart=parts)
        )

    def create(self, key: str, data: bytes) -> bool:
        """Write a key only if it is absent. See `Store.create`."""
        check_key(key)
        mine = None
        if not self.url.startswith(_WITHOUT_ATTRIBUTES):
            mine = {_CREATOR: secrets.token_hex(16)}
        for number in range(ANSWERS):
            try:
                _whole(
                    lambda: obstore().put(self._bucket(), key, data, mode="create", attributes=mine)
                )
                return True
            except obstore().exceptions.AlreadyExistsError:
                if mine is None:
                    return False
                try:
                    return self._is_from(key, mine[_CREATOR])
                except MissingFileError:
                    # The store has refused it because of another request for the key, such as a delete.
                    time.sleep(PAUSE_SECONDS * (number + 1))
            except Exception as error:
                self._refuse("create", key, error)
        msg = f"cannot create {self.url}/{key}: other requests for it are under way"
        raise StorageError(msg)

    def delete(self, key: str) -> None:
        """Remove a key if it exists."""
        check_key(key)
        try:
            _whole(lambda: obstore().delete(self._bucket(), key))
        except FileNotFoundError:
            pass
        except Exception as error:
            if not _is_missing(error):
                self._refuse("delete", key, error)

    def list(self, prefix: str) -> Iterator[str]:
        """Yield keys that start with the prefix, ascending."""
        folder = prefix.rpartition("/")[0]
        if folder:
            check_key(folder)
        keys = self._try(
            "list",
            prefix,
            lambda: [
                str(meta["path"])
                for chunk in obstore().list(self._bucket(), folder or None)
                for meta in chunk
            ],
        )
        yield from sorted(key for key in keys if key.startswith(prefix))

    def size(self, key: str) -> int:
        """Return the length of a key in bytes."""
        return self.facts(key).size

    def _is_from(self, key: str, creator: str) -> bool:
        found = self._try("read", key, lambda: obstore().get(self._bucket(), key))
        return bool(found.attributes.get(_CREATOR) == creator)

    def _bucket(self) -> Bucket:
        bucket = _buckets.get(self)
        if bucket is None:
            opened = obstore().store.from_url(
                self.url,
                config=dict(self.options) or None,
                retry_config={"retry_timeout": timedelta(seconds=RETRY_SECONDS)},
            )
            bucket = _buckets.setdefault(self, opened)
        return bucket

    def _try(self, verb: str, key: str, request: Callable[[], T]) -> T:
        try:
            return _whole(request)
        except Exception as error:
            self._refuse(verb, key, error)

    def _refuse(self, verb: str, key: str, error: Exception) -> NoReturn:
        if _is_missing(error) and verb in ("read", "list"):
            msg = (
                f"{self.url}/{key} is missing. If the journal names it, restore it from a copy of the"
                " state; the job cannot continue without it"
            )
            raise MissingFileError(msg) from error
        msg = f"cannot {verb} {self.url}/{key}: {_said(error)}. Committed timesteps are safe"
        exceptions = obstore().exceptions
        if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError):
            msg = f"{msg}; waiting does not help: grant it, or correct the credentials"
            raise NotPermittedError(msg) from error
        raise StorageError(msg) from error


def opened(url: str, _: Durability) -> ObjectStore:
    """Return the store at a URL. Object stores have one durability: a write that returns is durable."""
    return ObjectStore(url if url.startswith("memory://") else url.rstrip("/"))


def obstore() -> ModuleType:
    """Import the package. Raises SetUpError with the command that installs it."""
    try:
        import obstore as package
        import obstore.exceptions
        import obstore.store
    except ImportError as error:
        msg = (
            "state in an object store needs the package obstore:"
            " pip install 'rechannel[objects]' on the driver and on all workers"
        )
        raise SetUpError(msg) from error
    return package


def _whole(request: Callable[[], T]) -> T:
    """Make a request, again if its answer breaks off: the client repeats all others by itself.

    Every request may be repeated. A create that has happened is recognised by its random word.
    """
    for _ in range(ANSWERS - 1):
        try:
            return request()
        except Exception as error:
            if _BROKEN_OFF not in str(error).partition("\n")[0]:
                raise
    return request()


def _get(bucket: Bucket, key: str) -> memoryview:
    """Return an object; a large one in pieces, since a whole request may take 30 seconds only."""
    found = obstore().get(bucket, key)
    size = found.meta["size"]
    if size <= PIECE_BYTES:
        return memoryview(found.bytes())
    whole, step = bytearray(size), PIECES * PIECE_BYTES
    for at in range(0, size, step):
        starts = [*range(at, min(size, at + step), PIECE_BYTES)]
        ends = [min(size, start + PIECE_BYTES) for start in starts]
        parts = _whole(
            partial(obstore().get_ranges, bucket, key, starts=starts, ends=ends, coalesce=0)
        )
        for start, end, part in zip(starts, ends, parts, strict=True):
            whole[start:end] = memoryview(part)
    return memoryview(whole).toreadonly()


def _joined(data: bytes | memoryview | list[memoryview]) -> bytes:
    return b"".join(data) if isinstance(data, list) else bytes(data)


def _said(error: Exception) -> str:
    """Return what an error says in one line, and the reason that the store gives in XML."""
    whole = str(error)
    line = whole.partition("\n")[0]
    reason = _REASON.search(whole)
    if reason is None:
        return line
    return (
        f"{line.partition('<?xml')[0].rstrip(' :')}: {reason[1]}, {reason[2].strip().rstrip('.')}"
    )


def _is_missing(error: Exception) -> bool:
    # A store in a local directory has its own message for a file in place of a folder.
    return isinstance(error, FileNotFoundError) or "NotADirectory" in str(error)
