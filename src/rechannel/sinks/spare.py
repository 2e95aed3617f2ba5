"""A sink with a place for timesteps that it cannot write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rechannel.sinks.batch import Batch
from rechannel.sinks.writer import Rows, SinkWriter, Staged


@dataclass(frozen=True, kw_only=True)
class WithDeadLetters:
    """A writer, and beside it one for dead letters: exactly once like the first. path: where those go.

    A timestep that one of them shows stays there: a driver that dies between showing it and telling the journal
    leaves it owed, and what is owed is tried again.
    """

    main: SinkWriter
    letters: SinkWriter
    path: str

    @property
    def durable(self) -> bool:
        """See `SinkWriter.durable`."""
        return self.main.durable

    def begin(self) -> None:
        """See `SinkWriter.begin`."""
        self.main.begin()
        self.letters.begin()

    def stage(self, rows: Rows, batch: Batch) -> Staged:
        """See `SinkWriter.stage`."""
        return self.main.stage(rows, batch)

    def publish(self, staged: Staged, batch: Batch) -> None:
        """See `SinkWriter.publish`."""
        self.main.publish(staged, batch)

    def kept(self, batch: Batch) -> bool:
        """Whether readers see a timestep already where it belongs, as far as the writer can tell."""
        return shows(self.main, batch)

    def buried(self, batch: Batch) -> bool:
        """Whether it is among the dead letters already."""
        return shows(self.letters, batch)

    def close(self) -> None:
        """Close both."""
        self.main.close()
        self.letters.close()


def main_of(writer: SinkWriter) -> SinkWriter:
    """What writes where rows belong."""
    return writer.main if isinstance(writer, WithDeadLetters) else writer


def spent(writer: SinkWriter, other: SinkWriter | None) -> list[SinkWriter]:
    """What a writer has open that another one does not use."""
    used = () if other is None else _parts(other)
    return [part for part in _parts(writer) if not any(part is each for each in used)]


def _parts(writer: SinkWriter) -> tuple[SinkWriter, ...]:
    return (writer.main, writer.letters) if isinstance(writer, WithDeadLetters) else (writer,)


def shows(writer: SinkWriter, batch: Batch) -> bool:
    """Whether a writer that can tell says that readers see a timestep."""
    tell: Callable[[Batch], bool] | None = getattr(writer, "shows", None)
    return tell is not None and tell(batch)
