"""Sessions of each user, in a dataset with files of their own for each day; late rows aside.

A session that gets a late row is written again and takes the place of its earlier row, since the
dataset goes by keys.
In the end the clicks are to be read again. A reset of the source is refused, since their rows would
count twice; a fork that begins before they were read counts them once.

Prints:

    2026-01-01 ann 3 clicks
    2026-01-01 ann 1 clicks
    2026-01-01 bob 1 clicks
    2026-01-02 bob 1 clicks
    late: [('bob', '/late')]
    reset: RefusedError
    in the fork: 2026-01-01 ann 3 clicks
    in the fork: 2026-01-01 ann 1 clicks
    in the fork: 2026-01-01 bob 1 clicks
    in the fork: 2026-01-02 bob 1 clicks
"""

import datetime as dt
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import RefusedError

CLICKS = "user STRING, page STRING, at TIMESTAMP"
KEYS = ["day", "user", "window_start"]
FIRST = [("ann", "/", "1 12:00"), ("bob", "/", "1 12:03"), ("ann", "/shop", "1 12:20")]
SECOND = [("ann", "/", "1 13:55")]
THIRD = [("ann", "/pay", "1 12:45"), ("bob", "/late", "1 12:40")]
FOURTH = [("bob", "/", "2 00:10"), ("ann", "/", "2 02:00")]
"""What arrives, by day of January and time: of the third file, one row joins a session, and one is late."""


def write(folder: Path, name: str, clicks: list[tuple[str, str, str]]) -> None:
    """Add a file: under a name that readers skip, until it is complete."""
    rows = [
        {
            "user": user,
            "page": page,
            "at": dt.datetime.strptime(f"2026 1 {at} +0000", "%Y %m %d %H:%M %z"),
        }
        for user, page, at in clicks
    ]
    (folder / "in").mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / f"in/_{name}.parquet")
    (folder / f"in/_{name}.parquet").rename(folder / f"in/{name}.parquet")


def program(folder: Path, out: str = "out", state: str = "state") -> rc.Job:
    """Return the job."""
    clicks = rc.read().files(f"{folder}/in/*.parquet", schema=CLICKS, per_timestep=1, name="clicks")
    timed = clicks.event_time("at", delay="10 minutes")
    sessions = (
        timed.key_by("user")
        .window(rc.windows.sessions("30 minutes"), lateness="1 hour")
        .aggregate(clicks=agg.count(), name="sessions")
    )
    by_day = sessions.select(
        *("user", "window_start", "window_end", "clicks"),
        day=rc.computed(lambda start: pc.cast(start, pa.date32()), "window_start"),
    )
    ends = [
        by_day.write.dataset(f"{folder}/{out}/sessions", keys=KEYS, partitions="day"),
        sessions.late.write.parquet(f"{folder}/{out}/late"),
    ]
    return rc.Job("sessions", ends, state=folder / state)


def rows(folder: Path, out: str) -> list[str]:
    """Return the sessions that a dataset has."""
    table = (
        rc.read_output(f"{folder}/{out}/sessions")
        .table()
        .sort_by([("day", "ascending"), ("user", "ascending")])
    )
    return [f"{row['day']} {row['user']} {row['clicks']} clicks" for row in table.to_pylist()]


def main(folder: Path) -> None:
    """Read four files, then three of them again."""
    job = program(folder).start(in_process=rc.InProcess())
    write(folder, "1", FIRST)
    job.process_all_available()
    job.savepoint("after-first")
    for name, clicks in (("2", SECOND), ("3", THIRD), ("4", FOURTH)):
        write(folder, name, clicks)
        job.process_all_available()
    job.stop()
    print(*rows(folder, "out"), sep="\n")
    late = ds.dataset(folder / "out/late", format="parquet").to_table().to_pylist()
    print("late:", [(row["user"], row["page"]) for row in late])

    try:
        program(folder).reset("clicks", in_process=rc.InProcess())
    except RefusedError as refusal:
        print("reset:", type(refusal).__name__)
    program(folder).fork(folder / "again", at="after-first")
    job = program(folder, out="out-again", state="again").start(in_process=rc.InProcess())
    job.process_all_available()
    job.stop()
    print(*(f"in the fork: {row}" for row in rows(folder, "out-again")), sep="\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
