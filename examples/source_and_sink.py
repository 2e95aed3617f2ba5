"""Read from a function of your own and write to a database of your own, exactly once.

`for_each_batch` delivers a timestep at least once: after a crash again, with the same rows and the
same digest. The sink keeps the digest next to its rows, in one transaction, and skips a timestep
that it has.

Prints:

    timestep 1: 3 rows
    timestep 2: 3 rows
    timestep 2: had it
    {'ann': 14, 'bob': 13, 'eve': 13}
"""

import sqlite3
import tempfile
from pathlib import Path

import pyarrow as pa

import rechannel as rc
from rechannel import aggregates as agg

USERS = ["ann", "bob", "eve"]


def clicks(start: int, stop: int) -> pa.RecordBatch:
    """Make the rows at some offsets: always the same ones, so that a timestep can be read again."""
    return pa.record_batch({"user": [USERS[number % 3] for number in range(start, stop)]})


class Database:
    """A table of counts, and the timesteps that it includes."""

    def __init__(self, path: Path) -> None:
        """Create the tables."""
        self.path = path
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE counts (user PRIMARY KEY, n)")
            connection.execute(
                "CREATE TABLE seen (sink, timestep, digest, PRIMARY KEY (sink, timestep))"
            )

    def write(self, rows: pa.Table, timestep: int, batch: rc.sinks.Batch) -> None:
        """Take the rows of a timestep, unless they are there. On Spark, `rows` is a DataFrame."""
        identity = (batch.incarnation, timestep)
        with sqlite3.connect(self.path) as connection:
            query = "SELECT digest FROM seen WHERE (sink, timestep) = (?, ?)"
            if connection.execute(query, identity).fetchone() == (batch.digest,):
                print(f"timestep {timestep}: had it")
                return
            pairs = [(row["user"], row["n"]) for row in rows.to_pylist()]
            connection.executemany("INSERT OR REPLACE INTO counts VALUES (?, ?)", pairs)
            connection.execute(
                "INSERT OR REPLACE INTO seen VALUES (?, ?, ?)", (*identity, batch.digest)
            )
        print(f"timestep {timestep}: {len(pairs)} rows")

    def counts(self) -> dict[str, int]:
        """Read the table."""
        with sqlite3.connect(self.path) as connection:
            return dict(connection.execute("SELECT user, n FROM counts ORDER BY user"))


def main(folder: Path) -> None:
    """Run two timesteps, deliver the second one again, and print the table."""
    database = Database(folder / "counts.db")
    delivered: list[tuple[pa.Table, int, rc.sinks.Batch]] = []

    def write(rows: pa.Table, timestep: int, batch: rc.sinks.Batch) -> None:
        delivered.append((rows, timestep, batch))
        database.write(rows, timestep, batch)

    stream = rc.read().generator(
        clicks, schema="user STRING", rows=40, per_timestep=20, name="clicks"
    )
    counts = stream.key_by("user").aggregate(n=agg.count(), name="counts")
    flow = counts.write.for_each_batch(write, name="database")
    job = rc.Job("clicks", flow, state=folder / "state").start(in_process=rc.InProcess())
    job.process_all_available()
    job.stop()

    # What a job does whose driver died before it could note that the timestep was delivered:
    database.write(*delivered[-1])
    print(database.counts())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
