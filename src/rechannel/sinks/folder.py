"""The seam between file sinks and file systems."""

from __future__ import annotations

from typing import Protocol


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
