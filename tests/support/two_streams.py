"""Two streams with event times that meet in one operator, run timestep by timestep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import rechannel as rc
from rechannel.dataflow.streams.stream import Stream
from rechannel.testing import Harness, script

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SETTINGS = rc.Settings(tasks=2, bins=4)

Row = dict[str, Any]


def at(seconds: float | None) -> datetime | None:
    """Return a time some seconds after the epoch of these tests."""
    return None if seconds is None else EPOCH + timedelta(seconds=seconds)


def seconds(value: Any) -> Any:
    """Return a time as seconds after that epoch, and any other value as it came."""
    return (value - EPOCH).total_seconds() if isinstance(value, datetime) else value


class TwoStreams:
    """A dataflow of two streams, `joined`, and the sinks `out` and, for late rows, `late`."""

    def __init__(
        self,
        streams: Mapping[str, str],
        meet: Callable[[Stream, Stream], Stream],
        *,
        late: bool = False,
        settings: rc.Settings = SETTINGS,
        delay: int | str = 0,
    ) -> None:
        """streams: columns of the left and of the right one, by name; event times are in `at`."""
        self.scripts = tuple(map(script, streams.values()))
        left, right = (
            rc.read().memory(each, name=name).event_time("at", delay, name=f"{name}-time")
            for name, each in zip(streams, self.scripts, strict=True)
        )
        self.joined = meet(left, right)
        ends = [self.joined.write.memory("out", name="out")]
        if late:
            ends.append(self.joined.late.write.memory("late", name="late"))
        self.harness = Harness(ends, settings=settings)
        self.harness.start()
        self.timestep = 0

    def push(self, left: Iterable[Row], right: Iterable[Row]) -> list[tuple[Any, ...]]:
        """Run one timestep; return what it showed."""
        for each, rows in zip(self.scripts, (left, right), strict=True):
            each.push(list(rows))
        self.harness.process.run()
        self.timestep += 1
        return self.shown("out")

    def shown(self, sink: str) -> list[tuple[Any, ...]]:
        """Return the rows that a sink received in the latest timestep, sorted, times in seconds."""
        rows = self.harness.outputs(sink)[self.timestep].to_pylist()
        return sorted((tuple(map(seconds, row.values())) for row in rows), key=repr)
