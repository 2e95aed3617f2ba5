"""The seam between file sinks and file systems."""

from __future__ import annotations

from typing import Protocol


class Folder(Protocol):
    """The few operations that a file sink needs from a file system. Paths are absolute.

    Every method raises StorageError, with the path, if the file system fails.
    """

    def names(self, path: str) -> list[str]:
        """Return the names in a directory; none if it does not exist."""

    def exists(self, path: str) -> bool:
        """Return whether there is a directory, without reading what is beside it or in it."""

    def make(self, path: str) -> None:
        """Make a directory and its parents."""

    def rename(self, source: str, target: str) -> bool:
        """Move a directory in one step; False if the target exists.

        Raises MissingFileError if neither exists.
        """

    def remove(self, path: str) -> None:
        """Remove a directory with everything in it; nothing happens if it is absent."""

    def settle(self, path: str) -> None:
        """Make the contents of a directory durable, at any depth, and its own name."""
