"""A sink with a place for timesteps that it cannot write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rechannel.sinks.batch import Batch
from rechannel.sinks.failure import OnFailure
from rechannel.sinks.outlet import Outlet, SinkContext, new_token
from rechannel.sinks.outlets import FileOutlet
from rechannel.sinks.writer import Rows, SinkWriter, Staged


@dataclass(frozen=True, kw_only=True)
class WithDeadLetters:
    """A writer and a second one for dead letters, which is exactly-once like the first.

    A timestep that one of them has published stays there: if a driver dies after publishing it and
    before journaling that, it counts as unpublished, and is retried.
    """

    main: SinkWriter
    letters: SinkWriter
    path: str
    """Path of the dead letters."""

    @property
    def durable(self) -> bool:
        """See `SinkWriter.durable`."""
        return self.main.durable

    def begin(self) -> None:
        """Begin both writers, the main one first."""
        self.main.begin()
        self.letters.begin()

    def stage(self, rows: Rows, batch: Batch) -> Staged:
        """See `SinkWriter.stage`."""
        return self.main.stage(rows, batch)

    def publish(self, staged: Staged, batch: Batch) -> None:
        """See `SinkWriter.publish`."""
        self.main.publish(staged, batch)

    def kept(self, batch: Batch) -> bool:
        """Return whether readers already see a timestep in its regular place, as far as the writer
        knows.
        """
        return shows(self.main, batch)

    def buried(self, batch: Batch) -> bool:
        """Return whether a timestep is already among the dead letters."""
        return shows(self.letters, batch)

    def close(self) -> None:
        """Close both."""
        self.main.close()
        self.letters.close()


def open_with_letters(
    outlet: Outlet, failure: OnFailure, context: SinkContext, main: SinkWriter | None = None
) -> SinkWriter:
    """Open a sink and, if its user chose them, its dead letters: Parquet, which holds what other
    formats cannot.

    main: the sink, if it is already open. Raises as `Outlet.open` does.
    """
    main = main or outlet.open(context)
    if failure.path is None:
        return main
    dead = FileOutlet(format="parquet", path=failure.path)
    name = f"{context.name}.dead_letters"
    letters = dead.open(replace(context, name=name, token=new_token(), schema=None))
    return WithDeadLetters(main=main, letters=letters, path=failure.path)


def main_of(writer: SinkWriter) -> SinkWriter:
    """Return the writer of the regular place."""
    return writer.main if isinstance(writer, WithDeadLetters) else writer


def spent(writer: SinkWriter, other: SinkWriter | None) -> list[SinkWriter]:
    """Return the open writers of one sink that another sink does not use."""
    used = () if other is None else _parts(other)
    return [part for part in _parts(writer) if not any(part is each for each in used)]


def _parts(writer: SinkWriter) -> tuple[SinkWriter, ...]:
    return (writer.main, writer.letters) if isinstance(writer, WithDeadLetters) else (writer,)


def shows(writer: SinkWriter, batch: Batch) -> bool:
    """Return whether a writer that can answer reports that readers see a timestep."""
    tell: Callable[[Batch], bool] | None = getattr(writer, "shows", None)
    return tell is not None and tell(batch)
