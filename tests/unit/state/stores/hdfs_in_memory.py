"""A client of HDFS over a dict: what `hdfs_native.Client` answers, as far as the store asks it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from hdfs_native import WriteOptions

BELOW_A_FILE = (
    'RPCError("org.apache.hadoop.security.AccessControlException",'
    ' "{} (is not a directory)\\n\\tat org.apache.hadoop.Some.where(Some.java:1)")'
)


@dataclass(frozen=True)
class Status:
    """Of a file."""

    path: str
    length: int
    modification_time: int
    isdir: bool = False


@dataclass
class Writer:
    """Of a file that appears when it is closed."""

    client: Client
    path: str
    data: bytes = b""
    synced: bool = False

    def write(self, data: bytes) -> int:
        """Add bytes."""
        self.data += data
        return len(data)

    def hsync(self) -> None:
        """Sync them."""
        self.client.syncs += 1

    def close(self) -> None:
        """End it."""
        self.client.files[self.path] = (self.data, next(self.client.clock))


@dataclass
class Reader:
    """Of the bytes that a file has now."""

    data: bytes

    def __len__(self) -> int:
        """How many there are."""
        return len(self.data)

    def read_range(self, offset: int, length: int) -> bytes:
        """Return a part. The client dies of what is past the end."""
        assert offset + length <= len(self.data) or not length, "Cannot read past end of the file"
        return self.data[offset : offset + length]


@dataclass
class Client:
    """Files of one name node."""

    files: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    syncs: int = 0
    clock: Iterator[int] = field(default_factory=lambda: itertools.count(1_000))
    lock: threading.Lock = field(default_factory=threading.Lock)
    options: list[WriteOptions] = field(default_factory=list)

    def create(self, path: str, options: WriteOptions) -> Writer:
        """Begin a file."""
        self._check(path)
        self.options.append(options)
        return Writer(self, path)

    def read(self, path: str) -> Reader:
        """Open a file."""
        self._check(path)
        if path not in self.files:
            raise FileNotFoundError(f"File does not exist: {path}\n\tat org.apache.hadoop.Some")
        return Reader(self.files[path][0])

    def get_file_info(self, path: str) -> Status:
        """Return what is known of a file or folder."""
        self._check(path)
        if path in self.files:
            data, time = self.files[path]
            return Status(path, len(data), time)
        if any(each.startswith(f"{path}/") for each in self.files):
            return Status(path, 0, 0, isdir=True)
        raise FileNotFoundError(path)

    def rename(self, src: str, dst: str, overwrite: bool = False) -> None:
        """Give a file another name."""
        with self.lock:
            if src not in self.files:
                raise FileNotFoundError(f"rename source {src} is not found.\n\tat org.apache")
            if dst in self.files and not overwrite:
                raise FileExistsError(f"rename destination {dst} already exists\n\tat org.apache")
            self.files[dst] = self.files.pop(src)

    def delete(self, path: str, recursive: bool) -> bool:
        """Remove a file."""
        self._check(path)
        return self.files.pop(path, None) is not None

    def list_status(self, path: str, recursive: bool) -> Iterator[Status]:
        """Yield files and folders below a folder."""
        self._check(path)
        root = path.rstrip("/") + "/"
        below = sorted(each for each in self.files if each.startswith(root))
        if not below and path != "/":
            raise FileNotFoundError(path)
        folders = {each.rpartition("/")[0] for each in below} - {path}
        for folder in sorted(folders):
            yield Status(folder, 0, 0, isdir=True)
        for each in below:
            yield self.get_file_info(each)

    def _check(self, path: str) -> None:
        for file in self.files:
            if path.startswith(f"{file}/"):
                raise RuntimeError(BELOW_A_FILE.format(file))
