"""Aggregate readings in windows of event time; write readings that come too late to a sink of their own.

Prints:

    window 12:00:00 to 12:00:10: oven 2 readings, at most 208
    window 12:00:00 to 12:00:10: room 1 readings, at most 21
    late: oven 999 of 12:00:04
"""

import datetime as dt
import tempfile
from pathlib import Path

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.testing import script

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def reading(sensor: str, degrees: int, second: int) -> dict[str, object]:
    """Make a row."""
    return {"sensor": sensor, "degrees": degrees, "at": NOON + dt.timedelta(seconds=second)}


def main(folder: Path) -> None:
    """Feed four timesteps, and print windows and late rows."""
    readings = script("sensor STRING, degrees BIGINT, at TIMESTAMP")
    # Rows may be two seconds out of order before they count as late.
    timed = rc.read().memory(readings, name="readings").event_time("at", delay="2 seconds")
    highest = (
        timed.key_by("sensor")
        .window(rc.windows.tumbling("10 seconds"))
        .aggregate(n=agg.count(), highest=agg.max("degrees"), name="highest")
    )
    flows = [highest.write.memory("windows"), highest.late.write.memory("late")]
    job = rc.Job("sensors", flows, state=folder / "state").start(in_process=rc.InProcess())

    readings.push([reading("oven", 200, 1), reading("room", 21, 3), reading("oven", 208, 9)])
    readings.push([reading("oven", 210, 12)])  # the watermark is now 12:00:10
    readings.push([reading("oven", 999, 4)])  # its window is complete
    job.process_all_available()

    for row in sorted(job.memory("windows").to_pylist(), key=lambda row: str(row["sensor"])):
        span = f"{row['window_start']:%H:%M:%S} to {row['window_end']:%H:%M:%S}"
        print(f"window {span}: {row['sensor']} {row['n']} readings, at most {row['highest']}")
    for row in job.memory("late").to_pylist():
        print(f"late: {row['sensor']} {row['degrees']} of {row['at']:%H:%M:%S}")
    job.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
