"""Names for the jobs of a thread."""

from __future__ import annotations

from typing import Any, Protocol


class Jobs(Protocol):
    """Names the jobs that a thread starts, and cancels them."""

    def describe(self, text: str) -> None:
        """Set the description."""

    def tag(self, tag: str) -> None:
        """Add a tag."""

    def untag(self, tag: str) -> None:
        """Remove a tag."""

    def cancel(self, tag: str) -> None:
        """Cancel the tag's jobs."""


class NoJobs:
    """For sessions without job tags (Spark Connect has its own, per thread)."""

    def __init__(self, spark: Any) -> None:
        """Keep the session."""
        self._spark = spark

    def describe(self, text: str) -> None:
        """Do nothing: such sessions have no job descriptions."""

    def tag(self, tag: str) -> None:
        """Tag operations of this thread."""
        self._spark.addTag(tag)

    def untag(self, tag: str) -> None:
        """Stop tagging."""
        self._spark.removeTag(tag)

    def cancel(self, tag: str) -> None:
        """Interrupt the tag's operations."""
        self._spark.interruptTag(tag)
