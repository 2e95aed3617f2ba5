"""A sink with a place for timesteps that it cannot write."""

from __future__ import annotations

from dataclasses import dataclass

from rechannel.sinks.batch import Batch
from rechannel.sinks.writer import Rows, SinkWriter, Staged


@dataclass(frozen=True, kw_only=True)
class WithDeadLetters:
    """A writer, and beside it one for dead letters: exactly once like the first. path: where those go."""

    main: SinkWriter
    letters: SinkWriter
    path: str

    @property
    def durable(self) -> bool:
        """See `SinkWriter.durable`."""
        return self.main.durable

    def stage(self, rows: Rows, batch: Batch) -> Staged:
        """See `SinkWriter.stage`."""
        return self.main.stage(rows, batch)

    def publish(self, staged: Staged, batch: Batch) -> None:
        """See `SinkWriter.publish`."""
        self.main.publish(staged, batch)

    def close(self) -> None:
        """Close both."""
        self.main.close()
        self.letters.close()
