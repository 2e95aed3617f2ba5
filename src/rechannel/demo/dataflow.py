"""The dataflow of the demo: how delays travel with the aircraft.

    flights ── aircraft (track) ── legs ──┬── hours (aggregate)
                                          ├── days (aggregate) ── carriers (aggregate)
                                          └── out/legs (Parquet)

What a stateful operator emits is one row for every key that changed *in a timestep*: how often a
key is emitted depends on where the stream was cut. So that no result depends on it, everything
behind an operator is one of two things:

- `legs` takes from each emitted row what is new in it. The state of an aircraft carries its
  departures of the timestep, one entry per flight; put in a row each, they are the flights again,
  every one exactly once, now with the delay that the aircraft had brought along.
- `carriers` reads `days` again and again while a day is still growing. It keeps only maxima and
  distinct counts of columns that never shrink: of those the last value of a day is the largest,
  and seeing an earlier one too, or the same one twice, changes nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import rechannel as rc
from rechannel.dataflow.stream import Stream
from rechannel.dataflow.writer import Flow

LATE = 15
"""Minutes from which on a flight counts as late, as the U.S. Department of Transportation has it."""

MEMORY = timedelta(hours=12)
"""A delay counts as brought along if the aircraft's departure before was at most so long ago."""

TRACKED = (
    "departed TIMESTAMP, behind BIGINT, legs ARRAY<STRUCT<"
    "number BIGINT, carrier STRING, day DATE, hour INT, delay BIGINT, brought BIGINT>>"
)
"""State of an aircraft: its latest departure, the minutes by which it arrived late there (null:
diverted), and its flights of the latest timestep."""

LEGS = (
    "number BIGINT, carrier STRING, day DATE, hour INT, delay BIGINT, brought BIGINT,"
    " minutes BIGINT, cancelled BIGINT, late BIGINT, knock_on BIGINT"
)
"""A flight. delay: minutes (null: cancelled). brought: minutes that the aircraft was late before
(null: not known). minutes: of delay, early departures as 0. cancelled, late, knock_on: 1 or 0."""


def follow(tailnum: str | None, aircraft: Any, flights: Any) -> tuple[Any, ...]:
    """An aircraft and its flights of a timestep -> where it stands behind them, and what it did.

    Flights without a tail number (most of them cancelled) are nobody's: nothing is brought along.
    """
    departed: datetime | None = None if aircraft is None else aircraft.departed
    behind: int | None = None if aircraft is None else aircraft.behind
    legs = []
    for number, scheduled, carrier, day, hour, delay, arrival in zip(
        *(flights[name] for name in ("number", "scheduled", "carrier", "day", "hour")),
        *(flights[name] for name in ("dep_delay", "arr_delay")),
        strict=True,
    ):
        recent = departed is not None and scheduled - departed <= MEMORY
        legs.append((number, carrier, day, hour, delay, behind if recent else None))
        if delay is not None and tailnum is not None:
            departed, behind = scheduled, arrival
    return departed, behind, legs


def spread(aircraft: pa.RecordBatch) -> pa.RecordBatch:
    """Changed aircraft -> their flights of the timestep, one row each."""
    legs = pa.RecordBatch.from_struct_array(aircraft.column("legs").flatten())
    delay, brought = legs.column("delay"), legs.column("brought")
    late = pc.fill_null(pc.greater_equal(delay, LATE), False)
    held_up = pc.fill_null(pc.greater_equal(brought, LATE), False)
    flags = {
        "minutes": pc.max_element_wise(pc.fill_null(delay, 0), np.int64(0)),
        "cancelled": pc.is_null(delay),
        "late": late,
        "knock_on": pc.and_(late, held_up),
    }
    for name, values in flags.items():
        legs = legs.append_column(name, values.cast(pa.int64()))
    return legs


def dataflow(flights: Stream, out: Path) -> list[Flow | Stream]:
    """The ends of the dataflow. flights: rows as `data.read_flights` has them."""
    legs = (
        flights.key_by("tailnum")
        .track(follow, state=TRACKED, name="aircraft")
        .map_batches(spread, schema=LEGS, name="legs")
    )
    hours = legs.key_by("hour").aggregate(
        name="hours",
        flights=rc.count(),
        departed=rc.count("delay"),
        mean_delay=rc.mean("delay"),
        late=rc.sum("late"),
        knock_on=rc.sum("knock_on"),
    )
    days = legs.key_by("carrier", "day").aggregate(
        name="days",
        flights=rc.count(),
        cancelled=rc.sum("cancelled"),
        minutes=rc.sum("minutes"),
        late=rc.sum("late"),
        knock_on=rc.sum("knock_on"),
    )
    carriers = days.key_by("carrier").aggregate(
        name="carriers",
        days=rc.count_distinct("day"),
        most_flights=rc.max("flights"),
        most_cancelled=rc.max("cancelled"),
        most_minutes=rc.max("minutes"),
    )
    return [legs.write.parquet(out / "legs"), hours, carriers]
