"""The demo's dataflow against loops over dictionaries, whatever the cuts are."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
from hypothesis import given, settings
from hypothesis import strategies as st

import rechannel as rc
from rechannel.demo.dataflow import KEYS, LATE, TURNAROUND, dataflow
from rechannel.job import InProcess
from rechannel.sources.connectors import MemoryConnector

COLUMNS = pa.schema(
    [
        ("number", pa.int64()),
        ("scheduled", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("hour", pa.int32()),
        ("carrier", pa.string()),
        ("tailnum", pa.string()),
        ("dep_delay", pa.int64()),
        ("arr_delay", pa.int64()),
    ]
)
START = datetime(2013, 1, 1, 10, tzinfo=UTC)

delays = st.none() | st.sampled_from([-5, 0, LATE - 1, LATE, 90])
flights_later = st.tuples(
    st.sampled_from([0, 0, 1, 7, 12, 13]),  # hours after the flight before
    st.sampled_from(["AA", "BB"]),
    st.sampled_from([None, "N1", "N2", "N3"]),
    delays,
    delays,
)


def table(flights) -> pa.Table:
    rows, hours = [], 0
    for number, (later, carrier, tailnum, departure, arrival) in enumerate(flights):
        hours += later
        scheduled = START + timedelta(hours=hours)
        rows.append(
            {
                "number": number,
                "scheduled": scheduled,
                "day": (scheduled - timedelta(hours=5)).date(),
                "hour": (scheduled - timedelta(hours=5)).hour,
                "carrier": carrier,
                "tailnum": tailnum,
                "dep_delay": departure,
                "arr_delay": None if departure is None else arrival,
            }
        )
    return pa.Table.from_pylist(rows, schema=COLUMNS)


def naive(flights: pa.Table) -> dict[str, list[dict]]:
    """Every result, flight by flight."""
    aircraft: dict[str | None, tuple] = {}
    legs, hours, days = [], defaultdict(list), defaultdict(list)
    for flight in flights.to_pylist():
        tail, delay = flight["tailnum"], flight["dep_delay"]
        departed, behind = aircraft.setdefault(tail, (None, None))
        recent = departed is not None and flight["scheduled"] - departed <= TURNAROUND
        brought = behind if recent else None
        late = delay is not None and delay >= LATE
        known = delay is not None and brought is not None
        leg = {
            **{name: flight[name] for name in ("number", "carrier", "day", "hour")},
            "delay": delay,
            "brought": brought,
            "minutes": max(delay or 0, 0),
            "cancelled": int(delay is None),
            "late": int(late),
            "came_late": int(known and brought >= LATE),
            "late_again": int(known and brought >= LATE and late),
            "came_on_time": int(known and brought < LATE),
            "late_anew": int(known and brought < LATE and late),
        }
        legs.append(leg)
        hours[leg["hour"]].append(leg)
        days[leg["carrier"], leg["day"]].append(leg)
        if delay is not None and tail is not None:
            aircraft[tail] = (flight["scheduled"], flight["arr_delay"])
    counted = ("late", "came_late", "late_again", "came_on_time", "late_anew")

    def total(group, *names):
        return {name: sum(leg[name] for leg in group) for name in names}

    def mean(group):
        known = [leg["delay"] for leg in group if leg["delay"] is not None]
        return sum(known) / len(known) if known else None

    by_day = [
        {
            "carrier": carrier,
            "day": day,
            "flights": len(group),
            **total(group, "cancelled", "minutes", *counted),
        }
        for (carrier, day), group in days.items()
    ]
    by_carrier = defaultdict(list)
    for row in by_day:
        by_carrier[row["carrier"]].append(row)
    return {
        "aircraft": [
            {"tailnum": tail, "departed": departed, "behind": behind}
            for tail, (departed, behind) in aircraft.items()
        ],
        "legs": legs,
        "hours": [
            {
                "hour": hour,
                "flights": len(group),
                "mean_delay": mean(group),
                **total(group, *counted),
            }
            for hour, group in hours.items()
        ],
        "days": by_day,
        "carriers": [
            {
                "carrier": carrier,
                "days": len(rows),
                "most_flights": max(row["flights"] for row in rows),
                "most_cancelled": max(row["cancelled"] for row in rows),
                "most_minutes": max(row["minutes"] for row in rows),
            }
            for carrier, rows in by_carrier.items()
        ],
    }


def streamed(flights: pa.Table, cuts: list[int], tasks: int) -> dict[str, list[dict]]:
    """Every result of the dataflow over timesteps that begin at the cuts."""
    source = MemoryConnector(schema=COLUMNS, per_timestep=1)
    edges = [0, *sorted(cuts), flights.num_rows]
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "legs"
        job = rc.Job(
            "demo",
            dataflow(rc.read().memory(source, name="flights"), out),
            state=Path(scratch) / "state",
            settings=rc.Settings(tasks=tasks, durability=rc.Durability.PROCESS),
        ).start(in_process=InProcess())
        for start, stop in pairwise(edges):
            piece = flights.slice(start, stop - start).combine_chunks().to_batches()
            if piece:
                source.push(piece[0])
        job.process_all_available(120)
        found = {name: job.state(name).to_pylist() for name in KEYS if name != "legs"}
        job.stop()
        legs = ds.dataset(out, format="parquet", ignore_prefixes=["_", "."])
        found["legs"] = legs.to_table().to_pylist() if flights.num_rows else []
    for row in found["aircraft"]:
        del row["legs"]
    return found


def canonical(rows: list[dict]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


@settings(max_examples=25)
@given(
    st.lists(flights_later, min_size=1, max_size=30),
    st.lists(st.integers(0, 30), max_size=6),
    st.integers(1, 3),
)
def test_every_result_is_that_of_a_loop_whatever_the_cuts(flights, cuts, tasks):
    rows = table(flights)
    found = streamed(rows, [min(cut, len(flights)) for cut in cuts], tasks)
    expected = naive(rows)
    for name in KEYS:
        assert canonical(found[name]) == canonical(expected[name]), name
