"""Files: a timestep appears as one directory, whole or not at all.

    <path>/_rechannel/<owner>/<timestep>-<token>-<n>/   staged; readers pass over hidden names
    <path>/timestep=<12 digits>/                        published, by one rename

The rename fails where the name exists, so publishing twice shows the first and removes the second.
`owner` stands for the job and sink whose timesteps the numbers count; a path that shows anybody
else's timesteps is refused, because "exists already" would otherwise pass for "published before".

What earlier drivers staged and never committed is swept: of everything that lay there when this
writer was opened, a timestep that is staged again removes what is from itself on, and a timestep
that is published the rest of itself. Nothing that another driver writes later is ever touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol
from urllib.parse import quote

from rechannel.errors import MissingFileError, RefusedError
from rechannel.sinks.batch import Batch
from rechannel.sinks.writer import Rows, Staged

STAGING = "_rechannel"
_PUBLISHED = "timestep="


class Folder(Protocol):
    """The few things a file sink asks of a file system. Paths are absolute.

    Every method raises StorageError, naming the path, when the file system refuses.
    """

    def names(self, path: str) -> list[str]:
        """What lies in a directory; nothing when there is none."""

    def make(self, path: str) -> None:
        """Make a directory and its parents."""

    def rename(self, source: str, target: str) -> bool:
        """Move a directory in one step; False if the target exists.

        Raises MissingFileError when neither exists.
        """

    def remove(self, path: str) -> None:
        """Remove a directory with everything in it; nothing happens if it is absent."""

    def settle(self, path: str) -> None:
        """Make durable what lies in a directory, at any depth, and its own name."""


WriteRows = Callable[[Rows, str], int]
"""Write rows as files of a new directory and return how many rows that were."""


@dataclass
class FileWriter:
    """Writes a `FileOutlet`.

    root: absolute path or URI. owner: names the job's state directory and the sink, for ever.
    token: of this driver; no other driver ever has it. folder, write: where and how.
    Raises RefusedError when the path holds timesteps of another owner.
    """

    root: str
    owner: str
    token: str
    folder: Folder
    write: WriteRows
    durable: bool = True
    _numbers: count[int] = field(default_factory=count)
    _stale: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Claim the path and look for what earlier drivers left."""
        staging = f"{self.root}/{STAGING}"
        mine, owners = quote(self.owner, safe=""), self.folder.names(staging)
        others = [name for name in owners if name != mine]
        published = [name for name in self.folder.names(self.root) if name.startswith(_PUBLISHED)]
        if others or (published and mine not in owners):
            whose = f"those of {others[0]}" if others else "and not of this job's state directory"
            msg = (
                f"{self.root} already holds timesteps, {whose}. Their numbers would be mistaken for"
                " this job's: choose another path, or remove that directory if it is not needed"
            )
            raise RefusedError(msg)
        self._staging = f"{staging}/{mine}"
        self.folder.make(self._staging)
        self._stale = {name: _timestep(name) for name in self.folder.names(self._staging)}

    def stage(self, rows: Rows, batch: Batch) -> Staged:
        """Write the rows under a hidden name, durably. See `SinkWriter.stage`."""
        self._sweep(lambda _, number: number >= batch.timestep)
        name = f"{batch.timestep:012d}-{self.token}-{next(self._numbers)}"
        path = f"{self._staging}/{name}"
        try:
            written = self.write(rows, path)
        except BaseException:
            self.folder.remove(path)
            raise
        if not written:
            self.folder.remove(path)
            return {"rows": 0}
        self.folder.settle(path)
        return {"rows": written, "staging": name}

    def publish(self, staged: Staged, batch: Batch) -> None:
        """Rename the directory to what readers see. See `SinkWriter.publish`."""
        name = staged.get("staging")
        self._sweep(lambda other, number: number == batch.timestep and other != name)
        if name is None:
            return
        source, target = f"{self._staging}/{name}", f"{self.root}/{published_name(batch.timestep)}"
        if not self.folder.rename(source, target):
            self.folder.remove(source)
        self._stale.pop(name, None)

    def close(self) -> None:
        """Nothing is held."""

    def _sweep(self, is_stale: Callable[[str, int], bool]) -> None:
        for name, number in list(self._stale.items()):
            if is_stale(name, number):
                self.folder.remove(f"{self._staging}/{name}")
                self._stale.pop(name, None)


def published_name(timestep: int) -> str:
    """Name of a timestep's directory; Spark reads it as a column `timestep`."""
    return f"{_PUBLISHED}{timestep:012d}"


def missing(source: str) -> MissingFileError:
    """What `Folder.rename` raises when there is nothing to move and nothing was moved."""
    msg = (
        f"{source} is missing: the journal names it as finished output that is not published yet."
        " Restore it from a copy; the job cannot make these rows again"
    )
    return MissingFileError(msg)


def _timestep(name: str) -> int:
    digits = name.partition("-")[0]
    return int(digits) if digits.isdecimal() else 0
