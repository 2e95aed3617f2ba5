"""The three streams of NEXMark, out of the generator."""

from __future__ import annotations

from typing import Any

import rechannel as rc
from benchmarks.nexmark.events import EVENTS, PER_EPOCH, SCHEMAS, Events
from benchmarks.nexmark.query import Tables

TIME = "dateTime"


def generated(
    events: Events,
    *,
    count: int,
    per_timestep: int,
    partitions: int = 1,
    spark: Any = None,
    delay_ms: int | None = None,
) -> Tables:
    """Streams of `events` in all, `per_timestep` of them in a timestep (in whole rounds of 50).

    delay_ms: how far events may be out of order. None = as far as they really are; less makes late rows.
    """
    delay = events.jitter_ms if delay_ms is None else delay_ms

    def stream(kind: str) -> Any:
        rows = rc.read(spark).generator(
            events.source(kind),
            schema=SCHEMAS[kind],
            per_timestep=per_timestep // EVENTS * PER_EPOCH[kind],
            rows=count // EVENTS * PER_EPOCH[kind],
            partitions=partitions,
            name=kind,
        )
        return rows.event_time(TIME, delay, name=f"{kind}-time")

    return Tables(person=stream("person"), auction=stream("auction"), bid=stream("bid"))
