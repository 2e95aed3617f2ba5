"""A generator whose rate changes once, at a time after its beginning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rechannel.sources.backlog import Backlog
from rechannel.sources.connectors import GeneratorConnector
from rechannel.sources.generator import GeneratorReader
from rechannel.sources.reader import UNBOUNDED, Bound, Offset


@dataclass(frozen=True, kw_only=True)
class SteppedConnector(GeneratorConnector):
    """`rows_per_second` until `after_s`, then the share `then` of it."""

    after_s: float
    then: float

    def open(self, context: Any) -> SteppedReader:
        """Return its reader."""
        del context
        return SteppedReader(self)


class SteppedReader(GeneratorReader):
    """Reads a `SteppedConnector`: as a generator of the first rate, by a clock that is slower later."""

    def __init__(self, connector: SteppedConnector) -> None:
        """Use a connector."""
        super().__init__(connector)
        self._began_ms: int | None = None
        self._after_ms, self._then = connector.after_s * 1e3, connector.then

    def latest(self, start: Offset, stream_ms: int, bound: Bound = UNBOUNDED) -> Offset:
        """See `GeneratorReader.latest`."""
        return super().latest(start, self._slower(start, stream_ms), bound)

    def backlog(self, end: Offset, stream_ms: int) -> Backlog | None:
        """See `GeneratorReader.backlog`."""
        return super().backlog(end, self._slower(end, stream_ms))

    def _slower(self, offset: Offset, stream_ms: int) -> int:
        """Return the time at which the first rate would have as many rows due."""
        if self._began_ms is None:
            self._began_ms = stream_ms if offset["since_ms"] is None else offset["since_ms"]
        passed = stream_ms - self._began_ms
        late = max(0.0, passed - self._after_ms)
        return round(self._began_ms + passed - late * (1 - self._then))


def stepped(connector: GeneratorConnector, *, after_s: float, then: float) -> SteppedConnector:
    """Return a generator as one whose rate changes."""
    fields = {name: getattr(connector, name) for name in connector.__dataclass_fields__}
    return SteppedConnector(**fields, after_s=after_s, then=then)
