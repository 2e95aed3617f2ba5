"""The store in memory: a dict with a lock, for tests, teaching and simulation."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock

from rechannel.errors import MissingFileError
from rechannel.state.keys import check_key


class MemoryStore:
    """Keeps everything until it is garbage-collected. Nothing survives the process."""

    def __init__(self) -> None:
        """Start empty."""
        self._data: dict[str, bytes] = {}
        self._lock = Lock()

    def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """Return bytes [start, start + length) of a key. See `Store.read`."""
        stop = None if length is None else start + length
        return memoryview(self._get(key))[start:stop]

    def put(self, key: str, data: bytes | memoryview | list[memoryview]) -> None:
        """Write a key. See `Store.put`."""
        whole = b"".join(data) if isinstance(data, list) else bytes(data)
        with self._lock:
            self._data[check_key(key)] = whole

    def create(self, key: str, data: bytes) -> bool:
        """Write a key only if it is absent. See `Store.create`."""
        with self._lock:
            if check_key(key) in self._data:
                return False
            self._data[key] = bytes(data)
            return True

    def delete(self, key: str) -> None:
        """Remove a key if it exists."""
        with self._lock:
            self._data.pop(check_key(key), None)

    def list(self, prefix: str) -> Iterator[str]:
        """Yield keys that start with the prefix, in ascending order."""
        with self._lock:
            found = sorted(key for key in self._data if key.startswith(prefix))
        yield from found

    def size(self, key: str) -> int:
        """Return the length of a key in bytes."""
        return len(self._get(key))

    def _get(self, key: str) -> bytes:
        try:
            return self._data[check_key(key)]
        except KeyError:
            msg = f"{key} is missing from the store in memory"
            raise MissingFileError(msg) from None
