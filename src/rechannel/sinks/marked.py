"""The writer of places that take the rows of a timestep and a mark in one atomic step: databases, tables of a lake.

Nothing is written before the commit. What two drivers of one job can publish under a number are the same rows, as the
journal commits each number once; so the first one writes them, and the other one finds the mark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rechannel.errors import StorageError
from rechannel.sinks.batch import Batch
from rechannel.sinks.marks import Holder, Mark
from rechannel.sinks.outlet import SinkContext
from rechannel.sinks.writer import Rows, Staged

TRIES = 10
"""How often a step is tried anew because another one came first."""


class ConflictError(StorageError):
    """Another step came first, and this one was not made."""


class UncertainError(StorageError):
    """The step may have been made: the answer to its commit was lost."""


class Place(Protocol):
    """Where rows and their marks go. Errors are those of `SinkWriter`."""

    def open(self) -> Mark | None:
        """Check that rows can be written there. Returns the mark that the place has."""

    def write(self, rows: Rows, mark: Mark, *, is_new: Callable[[Mark | None], bool]) -> None:
        """Write rows and mark in one atomic step, if they are new there.

        is_new: asked with the mark that the place has. Raises ConflictError, if the place then changes before the step;
        UncertainError, if it is not known whether it was made.
        """

    def close(self) -> None:
        """Close connections."""


class MarkedWriter:
    """Writes each timestep to a place once."""

    durable = True

    def __init__(self, place: Place, holder: Holder, context: SinkContext) -> None:
        """Connect to nothing yet."""
        self._place, self._holder, self._context = place, holder, context
        self._given_up: Mark | None = None
        """The mark of another history, which the user wants published over."""
        self._found: Mark | None = None
        """The mark that the place had when it answered last."""
        self._held: tuple[Rows, Batch] | None = None
        self._doubtful: Batch | None = None
        """The timestep of a step that may have been made."""

    def begin(self) -> None:
        """Compare what the place has with the journal. See `SinkWriter`."""
        self._found = self._place.open()
        if self._context.ledger is not None:
            self._given_up = self._holder.compared(self._found, self._context.ledger())

    def stage(self, rows: Rows, batch: Batch) -> Staged:
        """Hold the rows until they are published. See `SinkWriter`."""
        self._held = (rows, batch)
        return {}

    def publish(self, staged: Staged, batch: Batch) -> None:
        """Write them with the number of their timestep. See `SinkWriter`."""
        del staged
        if self._held is None or self._held[1] != batch:
            return
        rows, _ = self._held
        mark = Mark(batch.timestep, batch.digest)
        begun = False

        def is_new(found: Mark | None) -> bool:
            nonlocal begun
            self._found = found
            begun = self._is_new(found, batch)
            return begun

        for number in range(1, TRIES + 1):
            try:
                self._place.write(rows, mark, is_new=is_new)
                break
            except ConflictError:
                if number == TRIES:
                    raise
            except StorageError as error:
                # A step that has begun may have been made, whatever its answer was.
                if begun or isinstance(error, UncertainError):
                    self._doubtful = batch
                raise
        self._held = self._doubtful = None

    def shows(self, batch: Batch) -> bool:
        """Return whether readers see a timestep; asks the place, if a step may have been made.

        Raises as `Place.open` does: until the place answers, it is not known.
        """
        if batch == self._doubtful:
            self._found = self._place.open()
        return not self._is_new(self._found, batch)

    def close(self) -> None:
        """Close the connections."""
        self._held = None
        self._place.close()

    def _is_new(self, found: Mark | None, batch: Batch) -> bool:
        mark = None if found == self._given_up else found
        return not self._holder.is_published(mark, batch)


def mark_name(context: SinkContext) -> str:
    """Return the name under which a place keeps the mark of a job's sink."""
    return f"rechannel-{context.job}-{context.label}"
