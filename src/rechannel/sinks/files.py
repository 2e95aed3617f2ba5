"""Files: a timestep appears as one directory, whole or not at all.

    <path>/_rechannel/<owner>/<timestep>-<token>-<n>/   staged; readers ignore hidden names
    <path>/timestep=<12 digits>/                        published, by one rename

The rename fails if the name exists, so publishing twice keeps the first and removes the second.
Where it is not one step, `stepwise.py` goes on with one that was broken off.
`owner` stands for the job and sink whose timesteps the numbers count. An existing directory counts
as published only if it identifies itself as this batch (`claims.py`).

What earlier drivers staged and never committed is removed: of everything that was there when this
writer was opened, staging a timestep removes that timestep and later ones which were never
committed, and publishing a timestep removes what else was staged for it, including what this writer
staged for it earlier.
Nothing that another driver writes later is ever touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from rechannel.errors import MissingFileError
from rechannel.sinks.batch import Batch
from rechannel.sinks.claims import (
    STAGING,
    TIMESTEP,
    TRIAL,
    Ledger,
    check,
    check_published,
    claim,
    is_of,
    is_staged,
    mark_of,
    published_name,
)
from rechannel.sinks.folder import Folder
from rechannel.sinks.stepwise import publish_stepwise, stepped
from rechannel.sinks.writer import Rows, Staged

__all__ = ["STAGING", "FileWriter", "Folder", "WriteRows", "missing", "published_name"]


WriteRows = Callable[[Rows, str], int]
"""Writes rows as files of a new directory and returns the number of rows."""


@dataclass
class FileWriter:
    """Writes a `FileOutlet`.

    Raises RefusedError if the path holds timesteps of another owner, or of another history.
    """

    root: str
    """Absolute path or URI."""
    owner: str
    """Identifies the job's state directory and the sink, for ever."""
    token: str
    """Identifies this driver; no other driver ever has the same."""
    folder: Folder
    write: WriteRows
    """Writes rows into a new directory."""
    durable: bool = True
    ledger: Callable[[], Ledger] | None = None
    """Returns the journal's contents; None if nothing is compared with them."""
    column: str = TIMESTEP
    """The name under which readers see the timestep."""
    trial: Callable[[str], None] | None = None
    """Writes no rows into a new directory, to check whether it can."""
    _numbers: count[int] = field(default_factory=count)
    _stale: dict[str, int] = field(default_factory=dict)
    _own: dict[str, int] = field(default_factory=dict)
    _committed: int = 0
    """The last timestep that was committed when the writer was opened."""

    def __post_init__(self) -> None:
        """Claim the path, compare it with the journal, and find what earlier drivers left."""
        self._staging = claim(self.folder, self.root, self.owner, self.token, self.column)
        self.begin()
        if self.trial is not None:
            path = f"{self._staging}/{TRIAL}{self.token}"
            try:
                self.trial(path)
            finally:
                self.folder.remove(path)

    def begin(self) -> None:
        """Compare the path with the journal, and find what earlier drivers left. See
        `SinkWriter.begin`.
        """
        if self.ledger is not None:
            check(self.folder, self.root, self._staging, self.ledger, column=self.column)
            self._committed = self.ledger().committed
        staged = [name for name in self.folder.names(self._staging) if is_staged(name)]
        self._stale = {name: _timestep(name) for name in staged}

    def stage(self, rows: Rows, batch: Batch) -> Staged:
        """Write the rows under a hidden name, durably. See `SinkWriter.stage`."""
        # What was staged for a committed timestep may have to be published.
        never = max(batch.timestep, self._committed + 1)
        self._sweep(self._stale, lambda _, number: number >= never)
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
        self._own[name] = batch.timestep
        mark = mark_of(batch)
        if mark is not None and stepped(self.folder, self.root) is None:
            self.folder.make(f"{path}/{mark}")
        self.folder.settle(path)
        return {"rows": written, "staging": name}

    def publish(self, staged: Staged, batch: Batch) -> None:
        """Rename the directory to its public name. See `SinkWriter.publish`.

        What else was staged is removed after that. Another driver may be about to rename it: before the rename, it
        could show a directory in which files are missing already.
        """
        name = staged.get("staging")
        if name is not None:
            self._show(name, batch)
        for left in (self._stale, self._own):
            self._sweep(left, lambda _, number: number == batch.timestep)

    def _show(self, name: str, batch: Batch) -> None:
        source, target = (
            f"{self._staging}/{name}",
            f"{self.root}/{published_name(batch.timestep, self.column)}",
        )
        folder = stepped(self.folder, self.root)
        if folder is not None:
            publish_stepwise(folder, self._staging, name, target, batch)
        elif not self.folder.rename(source, target):
            check_published(self.folder, target, batch)
            self.folder.remove(source)
        for left in (self._stale, self._own):
            left.pop(name, None)

    def shows(self, batch: Batch) -> bool:
        """Return whether readers already see this very batch."""
        target = f"{self.root}/{published_name(batch.timestep, self.column)}"
        return self.folder.exists(target) and is_of(self.folder, target, batch)

    def close(self) -> None:
        """Do nothing: the writer holds no resources."""

    def _sweep(self, left: dict[str, int], is_stale: Callable[[str, int], bool]) -> None:
        for name, number in list(left.items()):
            if is_stale(name, number):
                self.folder.remove(f"{self._staging}/{name}")
                left.pop(name, None)


def missing(source: str) -> MissingFileError:
    """Return the error for a rename with neither source nor target."""
    msg = (
        f"{source} is missing: the journal names it as finished output that is not published yet."
        " Restore it from a copy; the job cannot compute these rows again"
    )
    return MissingFileError(msg)


def _timestep(name: str) -> int:
    digits = name.partition("-")[0]
    return int(digits) if digits.isdecimal() else 0
