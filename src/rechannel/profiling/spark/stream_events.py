"""Events of Structured Streaming: queries, and the progress of their batches."""

from __future__ import annotations

from typing import Any

import msgspec

from rechannel.profiling.spark.numbers import Number

Figure = float | str | None
"""A rate; Jackson writes those that are not finite as text."""


class StateOperator(
    msgspec.Struct,
    rename={
        "rows": "numRowsTotal",
        "size": "memoryUsedBytes",
        "commit": "commitTimeMs",
        "late": "numRowsDroppedByWatermark",
    },
):
    """What a batch did to the state of an operator. Times are summed over tasks, ms."""

    rows: Number = 0
    size: Number = 0
    commit: Number = 0
    late: Number = 0


class SourceProgress(
    msgspec.Struct,
    rename={
        "end": "endOffset",
        "latest": "latestOffset",
        "rows": "numInputRows",
        "input_rate": "inputRowsPerSecond",
        "process_rate": "processedRowsPerSecond",
    },
):
    """What a batch read from a source."""

    end: Any = None
    """Offset up to which it has been read: a number, text, or JSON of either."""
    latest: Any = None
    """Offset up to which it could be read; None if the source does not say."""
    rows: Number = 0
    input_rate: Figure = 0.0
    process_rate: Figure = 0.0


class EventTime(msgspec.Struct):
    """Event times of a batch, ISO 8601."""

    watermark: str | None = None


class StreamProgress(
    msgspec.Struct,
    rename={
        "query": "id",
        "batch": "batchId",
        "durations": "durationMs",
        "event_time": "eventTime",
        "states": "stateOperators",
    },
):
    """The progress of a batch."""

    query: str = ""
    """Id of the query."""
    name: str | None = None
    """Name of the query, if it has one."""
    timestamp: str = ""
    """When the batch began, ISO 8601."""
    batch: Number = -1
    durations: dict[str, Number] = msgspec.field(default_factory=dict)
    """Milliseconds by phase."""
    event_time: EventTime = msgspec.field(default_factory=EventTime)
    states: list[StateOperator] = msgspec.field(default_factory=list)
    sources: list[SourceProgress] = msgspec.field(default_factory=list)


class QueryProgress(msgspec.Struct):
    """A batch ended, or a trigger found nothing to do."""

    progress: StreamProgress = msgspec.field(default_factory=StreamProgress)


class QueryStarted(msgspec.Struct, rename={"query": "id"}):
    """A query began."""

    query: str = ""
    name: str | None = None
    timestamp: str = ""
    """ISO 8601; empty before Spark 3.0."""


class QueryTerminated(msgspec.Struct, rename={"query": "id"}):
    """A query ended. When, the event does not say."""

    query: str = ""
    exception: str | None = None
    """Why it failed; None if it did not."""
