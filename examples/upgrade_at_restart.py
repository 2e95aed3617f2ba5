"""Stop a job, start a new version of its program, and go on with the state of the old one.

Functions and sinks may change between two starts. What state depends on, such as a key, may not: a
start that would misread state is refused.

Prints:

    version 1: {'Ann': 1, 'ann': 1, 'bob': 1}
    version 2: {'Ann': 1, 'ann': 3, 'bob': 2}
    version 3: OtherDataflowError
"""

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import OtherDataflowError


def as_written(row: Any) -> tuple[str, str]:
    """Version 1: take names as they are written."""
    return row.user, row.page


def in_lower_case(row: Any) -> tuple[str, str]:
    """Version 2: names that differ in case are one."""
    return row.user.lower(), row.page


def run(folder: Path, clean: Callable[[Any], tuple[str, str]], key: str) -> dict[str, int]:
    """Read what is new in the folder, and return the counts."""
    clicks = rc.read().files(
        f"{folder}/clicks/*.parquet", schema="user STRING, page STRING", name="clicks"
    )
    cleaned = clicks.map(clean, "user STRING, page STRING", name="cleaned")
    counts = cleaned.key_by(key).aggregate(n=agg.count(), name="counts")
    job = rc.Job("clicks", counts.write.parquet(str(folder / "out")), state=folder / "state")
    running = job.start(in_process=rc.InProcess())
    running.process_all_available()
    state: Any = running.state("counts")  # a table of Arrow; on Spark a DataFrame
    rows = state.sort_by(key).to_pylist()
    running.stop()
    return {row[key]: row["n"] for row in rows}


def write(folder: Path, name: str, users: Iterable[str]) -> None:
    """Add a file of clicks."""
    (folder / "clicks").mkdir(exist_ok=True)
    table = pa.table({"user": list(users), "page": ["/"] * len(list(users))})
    pq.write_table(table, folder / "clicks" / name)


def main(folder: Path) -> None:
    """Run three versions of a program on one state directory."""
    write(folder, "monday.parquet", ["Ann", "ann", "bob"])
    print("version 1:", run(folder, as_written, "user"))
    write(folder, "tuesday.parquet", ["ANN", "ann", "Bob"])
    print("version 2:", run(folder, in_lower_case, "user"))
    try:
        run(folder, in_lower_case, "page")
    except OtherDataflowError as refusal:
        print("version 3:", type(refusal).__name__)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
