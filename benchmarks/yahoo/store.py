"""Where both sides write every update: one file per timestep or batch. It stands for the Redis of the original."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

COLUMNS = ("campaign_id", "window_start", "count")
_SCHEMA = pa.schema(
    [
        ("campaign_id", pa.string()),
        ("window_ms", pa.int64()),
        ("count", pa.int64()),
        ("number", pa.int64()),
        ("visible_ns", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Store:
    """Writes the updates of a timestep: a function of (rows, number), as `for_each_batch` and `foreachBatch` take it.

    The updates are visible from the moment at which the file gets its name. Written again, it is the same.
    """

    directory: str

    def __call__(self, rows: Any, number: int) -> None:
        """Write a DataFrame, or an Arrow table."""
        table = rows if isinstance(rows, pa.Table) else rows.toArrow()
        path = Path(self.directory) / _name(number)
        half = path.with_suffix(".half")
        with pa.OSFile(str(half), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        half.rename(path)


def visible(directory: Path) -> dict[int, int]:
    """When the updates of every timestep became visible, in ns since 1970, by its number."""
    # Renaming the finished file into place is the last change of its inode.
    files = sorted(directory.glob("*.arrow"))
    return {int(path.stem): path.stat().st_ctime_ns for path in files}


def last_updates(directory: Path) -> pa.Table:
    """Of every campaign and window: count, number and visible_ns of the last update, and how many there were."""
    parts = [_updates(directory, *each) for each in visible(directory).items()]
    rows = pa.concat_tables([_SCHEMA.empty_table(), *parts])
    last = rows.group_by(["campaign_id", "window_ms"], use_threads=False).aggregate(
        [("count", "last"), ("number", "last"), ("visible_ns", "last"), ("number", "count")]
    )
    found = ("campaign_id", "window_ms", "count_last", "number_last", "visible_ns_last")
    return last.select([*found, "number_count"]).rename_columns([*_SCHEMA.names, "updates"])


def _updates(directory: Path, number: int, visible_ns: int) -> pa.Table:
    with pa.memory_map(str(directory / _name(number))) as file:
        rows = pa.ipc.open_file(file).read_all()
    campaign, start, count = (rows[name] for name in COLUMNS)
    ms = pc.divide(start.cast(pa.timestamp("us", "UTC")).cast(pa.int64()), 1_000)
    same = [pa.array([value] * len(rows), pa.int64()) for value in (number, visible_ns)]
    return pa.table([campaign, ms, count, *same], schema=_SCHEMA)


def _name(number: int) -> str:
    return f"{number:09d}.arrow"
