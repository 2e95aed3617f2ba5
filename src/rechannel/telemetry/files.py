"""The files of an event stream: names, numbering, and the one that writes.

Events are numbered from 0. A file is named by the number of its first event, in 20 digits; its
first line is a header, every further line one event. Only the last line of a file may be torn: a
writer that starts, or whose write failed, begins a new file. A line without its line end is no
event and has no number.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rechannel.errors import DamagedStateError, NewerFormatError
from rechannel.telemetry.events import FORMAT

_DIGITS = 20
_SUFFIX = ".jsonl"


def event_files(directory: Path) -> list[tuple[int, Path]]:
    """Return (number of the first event, file) of every file, in order; nothing if there is no directory."""
    if not directory.is_dir():
        return []
    names = (p for p in directory.iterdir() if p.suffix == _SUFFIX)
    numbered = (p for p in names if len(p.stem) == _DIGITS and p.stem.isdigit())
    # To open a pipe would wait for its writer.
    return sorted((int(p.stem), p) for p in numbered if p.is_file())


def check_header(line: bytes, path: Path) -> None:
    """Raise NewerFormatError for a later format, DamagedStateError if the line is not a header."""
    try:
        version = json.loads(line)["format"]
        newer = version > FORMAT
    except (ValueError, KeyError, TypeError) as error:
        msg = f"{path} does not begin with a telemetry header; remove the file to read the others"
        raise DamagedStateError(msg) from error
    if newer:
        msg = (
            f"{path} has format {version}; this version of Rechannel reads up to {FORMAT}."
            " Use the version that wrote it, or a later one"
        )
        raise NewerFormatError(msg)


class EventFiles:
    """Appends lines to files of a directory, rolled by size. Raises OSError as the system does.

    roll_bytes: a file that has reached this size is followed by a new one.
    keep_files: how many files are kept, the current one included; older ones are deleted.
    """

    def __init__(self, directory: Path, *, roll_bytes: int, keep_files: int) -> None:
        if roll_bytes < 1 or keep_files < 1:
            msg = f"roll_bytes and keep_files must be positive, not {roll_bytes} and {keep_files}"
            raise ValueError(msg)
        self._directory = directory
        self._roll_bytes = roll_bytes
        self._keep_files = keep_files
        self._file: Any = None
        self._size = 0

    def append(self, lines: Sequence[bytes]) -> None:
        """Write lines, each an event without its line end, by one system call where possible.

        After an OSError some of them may have been written; the next call begins a new file.
        """
        if self._file is None or self._size >= self._roll_bytes:
            self._roll()
        self._write(b"\n".join([*lines, b""]))

    def close(self) -> None:
        """Close the current file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _roll(self) -> None:
        self.close()
        self._directory.mkdir(parents=True, exist_ok=True)
        files = event_files(self._directory)
        first = _next_number(files)
        for _, path in files[: max(0, len(files) + 1 - self._keep_files)]:
            path.unlink(missing_ok=True)
        path = self._directory / f"{first:0{_DIGITS}d}{_SUFFIX}"
        # A file of this name holds no event: its writer came no further than the header.
        path.unlink(missing_ok=True)
        self._file = path.open("xb", buffering=0)
        self._size = 0
        header = {"format": FORMAT, "file": "rechannel telemetry", "first": first}
        self._write(json.dumps(header, separators=(",", ":")).encode() + b"\n")

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                written = self._file.write(view)
                self._size += written
                view = view[written:]
        except OSError:
            self.close()
            raise


def _next_number(files: Sequence[tuple[int, Path]]) -> int:
    """Return the number of the next event. The events of the last file are counted by their line ends."""
    if not files:
        return 0
    first, path = files[-1]
    with path.open("rb") as file:
        lines = sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))
    return first + max(0, lines - 1)
