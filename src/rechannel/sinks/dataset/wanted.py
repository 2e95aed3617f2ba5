"""What a user wants of a dataset. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from rechannel.errors import DataflowError
from rechannel.sinks.dataset.merging import Policy

COMPRESSIONS = ("zstd", "snappy", "lz4", "gzip", "none")
LEAST_BYTES = 1 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Columns, sizes and times."""

    keys: tuple[str, ...] = ()
    """Columns by which a row takes the place of an earlier one; empty to append."""
    changes: str = ""
    """Column of changes, as in a changelog; empty if rows are no changes."""
    partitions: tuple[str, ...] = ()
    """Columns by whose values rows get into files of their own."""
    metadata: tuple[str, ...] = ()
    """What rows say about their timestep, as columns: of `columns.METADATA`."""
    target: int = 128 << 20
    """Bytes of a file."""
    rows: int | None = None
    """Rows of a file at most; None = any number."""
    keep_ms: int = 3_600_000
    """How long files stay for readers once they are replaced."""
    rate: int = 16 << 20
    """Bytes per second that compaction reads; 0 = none."""
    compression: str = "zstd"

    def __post_init__(self) -> None:
        """Check the sizes. Raises DataflowError."""
        if self.target < LEAST_BYTES:
            raise DataflowError(
                f"write.dataset: file_bytes must be at least 1,024, not {self.target}"
            )
        if self.rows is not None and self.rows < 1:
            raise DataflowError(f"write.dataset: file_rows must be at least 1, not {self.rows}")
        if self.rate < 0:
            raise DataflowError(f"write.dataset: compact must be at least 0, not {self.rate}")
        if self.compression not in COMPRESSIONS:
            names = ", ".join(COMPRESSIONS)
            msg = f"write.dataset: compression {self.compression!r} is not one of {names}"
            raise DataflowError(msg)

    @property
    def policy(self) -> Policy:
        """How files are merged."""
        return Policy(target=self.target, rows=self.rows, keyed=bool(self.keys))
