"""Where every source stands, and what the next timestep reads of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from rechannel.engine.failures.blame import blame_of
from rechannel.engine.loop.core.stream_time import StreamTime
from rechannel.engine.stages.runner import SourceSlice, Timestep
from rechannel.errors import StorageError, one_sentence
from rechannel.logs import fields
from rechannel.model.configuration import Configuration
from rechannel.sources.backlog import Backlog, Backlogged
from rechannel.sources.reader import Bound, Forgetful, Offset, Recording, SourceReader
from rechannel.telemetry.troubles import Trouble, unheard

_LOG = logging.getLogger("rechannel")

CLOCK = "clock"
"""Topic of the troubles that the wall clock makes."""

CATCH_UP_MS, CATCH_UP_INTERVALS = 60_000, 2
"""A timestep takes at most the rows of this many milliseconds, or intervals.

What a clock-driven source accumulates during a pause is so read in several timesteps, which still catch up."""


class SourceTracker:
    """Sources of one driver; belongs to its thread.

    Time never goes back, not even to a driver whose machine's clock does: what timed out stays timed out. polled_ms:
    how long it took to ask sources that had nothing.
    """

    def __init__(
        self,
        readers: Mapping[str, SourceReader],
        offsets: Mapping[str, Offset],
        time: StreamTime,
        clock: Callable[[], float],
        timestep_bytes: int | None = None,
        *,
        steady: Callable[[], float] | None = None,
        trouble: Trouble = unheard,
        held: Callable[[], bool] = bool,
    ) -> None:
        """time: as of the last timestep. steady: tells milliseconds that pass; None = the clock does. held: whether
        there is a savepoint, which names offsets that are committed and not the last ones.

        offsets: of sources that were read before. timestep_bytes: of all sources together; None = no bound."""
        self.readers = dict(readers)
        self._time = time
        self._steady = steady or clock
        self._trouble = trouble
        self._held = held
        self.polled_ms = 0.0
        self.backlogs: dict[str, Backlog] = {}
        """What the last look has left unread, by source that can tell."""
        self._silent: set[str] = set()
        self._clock = clock
        self._timestep_bytes = timestep_bytes
        self._complaining: set[str] = set()
        self._untidy: set[str] = set()
        self._to_forget: dict[str, Callable[[], None]] = {}
        self._begins: dict[str, tuple[SourceReader, Offset]] = {}
        """Of sources of a version that waits: their readers, and where they begin."""
        self._offsets = {
            name: offsets.get(name) or reader.initial() for name, reader in readers.items()
        }

    def is_native(self, name: str) -> bool:
        """Whether tasks read a source themselves."""
        return self.readers[name].native

    def stream_ms(self) -> int:
        """Time of a timestep that begins now."""
        before = self._time
        self._time = after = before.read(int(self._clock()), self._steady())
        if bool(after.ahead_ms) != bool(before.ahead_ms):
            self._trouble(CLOCK, after.problem)
        return after.stream_ms

    def look(self, stream_ms: int, configuration: Configuration) -> dict[str, SourceSlice] | None:
        """What a timestep under a Configuration would read; None when there is nothing."""
        began = self._clock()
        share = self._share()
        slices: dict[str, SourceSlice] = {}
        self.backlogs = {}
        for name, reader in self.readers.items():
            start = self._offsets[name]
            end = reader.latest(start, stream_ms, bound_of(configuration, name, share))
            self._hear(name, reader)
            self._count(name, reader, end, stream_ms)
            layout = tuple(reader.layout(start, end)) if end != start else ()
            slices[name] = SourceSlice(start=start, end=end, layout=layout)
        if any(part.start != part.end for part in slices.values()):
            return slices
        self.polled_ms = self._clock() - began
        return None

    def _hear(self, name: str, reader: SourceReader) -> None:
        """Tell what a source has to complain of, and that it has nothing any more."""
        complaint = reader.complaint
        if complaint is not None or name in self._complaining:
            self._trouble(f"source {name}", complaint)
        if complaint is None:
            self._complaining.discard(name)
        else:
            self._complaining.add(name)

    def _count(self, name: str, reader: SourceReader, end: Offset, stream_ms: int) -> None:
        """Ask a source what it leaves unread. What it raises is logged once: no timestep depends on it."""
        if not isinstance(reader, Backlogged):
            return
        try:
            left = reader.backlog(end, stream_ms)
        except Exception as error:
            if name not in self._silent:
                _LOG.warning(
                    "source %r cannot tell its backlog: %s",
                    name,
                    one_sentence(error),
                    extra=fields("backlog_unknown", source=name, reason=error),
                )
            self._silent.add(name)
            return
        self._silent.discard(name)
        if left is not None:
            self.backlogs[name] = left

    def _share(self) -> int | None:
        """Bytes of a timestep for one source: those that can be bounded have equal shares."""
        if self._timestep_bytes is None:
            return None
        sharing = sum(reader.boundable for reader in self.readers.values())
        return max(1, self._timestep_bytes // max(1, sharing))

    def nothing(self) -> dict[str, SourceSlice]:
        """What a timestep reads that is there for something that has waited for its time."""
        return {
            name: SourceSlice(start=offset, end=offset, layout=())
            for name, offset in self._offsets.items()
        }

    def again(self, timestep: Timestep, mine: Callable[[str], bool]) -> Timestep:
        """A timestep that runs again, with what it read of the sources that are there, and of others nothing.

        mine: whether the source that bears a name now is the one that it read.
        """
        slices = {
            name: timestep.slices[name] if name in timestep.slices and mine(name) else nothing
            for name, nothing in self.nothing().items()
        }
        return replace(timestep, slices=slices)

    def take(self, timestep: Timestep) -> None:
        """Go on after a timestep that was decided."""
        self._time = self._time.taken(timestep.stream_ms)
        self.pass_over(timestep)

    def pass_over(self, timestep: Timestep) -> None:
        """A timestep runs again: what it reads is taken."""
        self._offsets.update({name: part.end for name, part in timestep.slices.items()})

    def committed(self, timestep: Timestep) -> None:
        """Sources may forget what a timestep read."""
        held = self._held()
        for name, part in timestep.slices.items():
            if name in self.readers and not (held and isinstance(self.readers[name], Recording)):
                self._tidy(name, partial(self.readers[name].committed, part.end))
        for name, forget in list(self._to_forget.items()):
            self._forget(name, forget)

    def _tidy(self, name: str, call: Callable[[], None]) -> bool:
        """Let a source forget; False where the store or the cluster kept it from that: a later commit asks again."""
        topic = f"source {name}, clean-up"
        try:
            call()
        except Exception as error:
            if not isinstance(error, StorageError) and not blame_of(error).passes:
                raise
            self._untidy.add(name)
            self._trouble(topic, error)
            return False
        if name in self._untidy:
            self._untidy.discard(name)
            self._trouble(topic, None)
        return True

    def _forget(self, name: str, forget: Callable[[], None]) -> None:
        """Let a source that is gone forget everything, now or after a later commit."""
        if not self._held() and self._tidy(name, forget):
            self._to_forget.pop(name, None)
        else:
            self._to_forget[name] = forget

    def begin(self, readers: Mapping[str, SourceReader], offsets: Mapping[str, Offset]) -> None:
        """Ask sources that are new where they begin, before they are switched to: that may fail, and is tried again.

        offsets: as of `switch_to`.
        """
        known = {**offsets, **self._offsets}
        self._begins = {
            name: (reader, reader.initial())
            for name, reader in readers.items()
            if not known.get(name)
        }

    def _initial(self, name: str, reader: SourceReader) -> Offset:
        asked, offset = self._begins.get(name, (None, None))
        return offset if asked is reader and offset is not None else reader.initial()

    def switch_to(self, readers: Mapping[str, SourceReader], offsets: Mapping[str, Offset]) -> None:
        """Other sources from now on; those that stay go on where they are. offsets: of others read before."""
        for name in self.readers.keys() - readers.keys():
            reader = self.readers[name]
            if isinstance(reader, Forgetful):
                self._forget(name, reader.forget)
            _close(name, reader)
        for name in readers.keys() & self._to_forget.keys():
            del self._to_forget[name]  # what lies there is another source's now
        known = {**offsets, **self._offsets}
        self.readers = dict(readers)
        self._offsets = {
            name: known.get(name) or self._initial(name, reader) for name, reader in readers.items()
        }
        self._begins = {}

    def close(self) -> None:
        """Close all readers."""
        for name, reader in self.readers.items():
            _close(name, reader)


def _close(name: str, reader: SourceReader) -> None:
    """Close a reader that is not needed any more; an error of that ends nothing."""
    try:
        reader.close()
    except Exception as error:
        _LOG.warning(
            "source %r could not be closed: %s",
            name,
            one_sentence(error),
            extra=fields("not_closed", source=name, reason=error),
        )


def bound_of(configuration: Configuration, source: str, share: int | None) -> Bound:
    """What a timestep takes of a source. share: bytes where the Configuration does not say."""
    return Bound(
        units=configuration.bounds.get(source),
        bytes=configuration.byte_bounds.get(source, share),
        span_ms=max(CATCH_UP_MS, CATCH_UP_INTERVALS * configuration.interval_ms),
    )
