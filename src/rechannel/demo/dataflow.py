"""The dataflow of the demo: how delays travel with the aircraft.

    flights ── aircraft (track) ── legs ──┬── hours (aggregate)
                                          ├── days (aggregate) ── carriers (aggregate)
                                          └── Parquet files

What a stateful operator emits is one row for every key that changed *in a timestep*: how often a
key is emitted depends on where the stream was cut. So that no result does, everything downstream of an
operator is one of two things:

- `legs` takes from each emitted row what is new in it. The state of an aircraft carries its flights
  of the timestep; put in a row each, they are the flights again, every one exactly once, now with
  what the aircraft had brought along.
- `carriers` reads `days` again and again while a day is still growing. It keeps only maxima and
  distinct counts of columns that never shrink: of those the last value of a day is the largest,
  and seeing an earlier one too, or the same one twice, changes nothing.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rechannel import aggregates as agg
from rechannel.dataflow.streams.stream import Stream
from rechannel.dataflow.streams.writer import Flow

LATE = 15
"""Minutes from which on a flight counts as late, as the U.S. Department of Transportation has it."""

TURNAROUND = timedelta(hours=12)
"""A delay counts as brought along if the aircraft's departure before was at most so long ago."""

KEYS = {
    "aircraft": ("tailnum",),
    "legs": ("number",),
    "hours": ("hour",),
    "days": ("carrier", "day"),
    "carriers": ("carrier",),
}
"""Every result of the demo, and what identifies its rows."""

_AIRCRAFT = (
    "departed TIMESTAMP, behind BIGINT, legs ARRAY<STRUCT<"
    "number BIGINT, carrier STRING, day DATE, hour INT, delay BIGINT, brought BIGINT>>"
)
"""departed: the aircraft's latest departure. `behind`: minutes by which it arrived late on that
flight (null: diverted). legs: its flights of the latest timestep."""

_LEGS = (
    "number BIGINT, carrier STRING, day DATE, hour INT, delay BIGINT, brought BIGINT,"
    " minutes BIGINT, cancelled BIGINT, late BIGINT,"
    " came_late BIGINT, late_again BIGINT, came_on_time BIGINT, late_anew BIGINT"
)
"""delay: minutes (null: cancelled). brought: by how many minutes the aircraft came late (null: not
known). minutes: of delay, 0 for early departures. All others are 1 or 0."""


def follow(tailnum: str | None, aircraft: Any, flights: Any) -> tuple[Any, ...]:
    """An aircraft and its flights of a timestep -> where it stands after them, and what they were.

    Flights without a tail number (most of them cancelled) belong to no aircraft: nothing is brought along.
    """
    departed = None if aircraft is None else aircraft.departed
    behind = None if aircraft is None else aircraft.behind
    legs = []
    for number, scheduled, carrier, day, hour, delay, arrival in zip(
        *(flights[name] for name in ("number", "scheduled", "carrier", "day", "hour")),
        *(flights[name] for name in ("dep_delay", "arr_delay")),
        strict=True,
    ):
        recent = departed is not None and scheduled - departed <= TURNAROUND
        legs.append((number, carrier, day, hour, delay, behind if recent else None))
        if delay is not None and tailnum is not None:
            departed, behind = scheduled, arrival
    return departed, behind, legs


def spread(aircraft: pa.RecordBatch) -> pa.RecordBatch:
    """Changed aircraft -> their flights of the timestep, one row each."""
    legs = pa.RecordBatch.from_struct_array(aircraft.column("legs").flatten())
    delay, brought = legs.column("delay"), legs.column("brought")
    late = pc.fill_null(pc.greater_equal(delay, LATE), False)
    left = pc.is_valid(delay)
    came_late = pc.and_(left, pc.fill_null(pc.greater_equal(brought, LATE), False))
    came_on_time = pc.and_(left, pc.fill_null(pc.less(brought, LATE), False))
    facts = {
        "minutes": pc.max_element_wise(pc.fill_null(delay, 0), pa.scalar(0, pa.int64())),
        "cancelled": pc.invert(left),
        "late": late,
        "came_late": came_late,
        "late_again": pc.and_(came_late, late),
        "came_on_time": came_on_time,
        "late_anew": pc.and_(came_on_time, late),
    }
    columns = [*legs.columns, *(values.cast(pa.int64()) for values in facts.values())]
    return pa.RecordBatch.from_arrays(columns, names=[*legs.schema.names, *facts])


def dataflow(flights: Stream, legs_path: Path) -> list[Flow | Stream]:
    """The ends of the dataflow.

    flights: rows as `data.read_flights` has them. legs_path: where the rows of `legs` go.
    """
    legs = (
        flights.key_by("tailnum")
        .track(follow, state=_AIRCRAFT, name="aircraft")
        .map_batches(spread, schema=_LEGS, name="legs")
    )
    counted = ("late", "came_late", "late_again", "came_on_time", "late_anew")
    hours = legs.key_by("hour").aggregate(
        {name: agg.sum(name) for name in counted},
        flights=agg.count(),
        mean_delay=agg.mean("delay"),
        name="hours",
    )
    days = legs.key_by("carrier", "day").aggregate(
        {name: agg.sum(name) for name in ("cancelled", "minutes", *counted)},
        flights=agg.count(),
        name="days",
    )
    carriers = days.key_by("carrier").aggregate(
        days=agg.count_distinct("day"),
        most_flights=agg.max("flights"),
        most_cancelled=agg.max("cancelled"),
        most_minutes=agg.max("minutes"),
        name="carriers",
    )
    return [legs.write.parquet(legs_path), hours, carriers]
