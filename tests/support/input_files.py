"""Files for a job that runs: it never finds half of one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def put_parquet(path: Path, table: pa.Table) -> None:
    """Write a table under a name that sources pass over, and rename it."""
    hidden = path.with_name(f"_{path.name}")
    pq.write_table(table, hidden)
    hidden.rename(path)
