"""Cells of a profile that may not fit into memory: Parquet files in a temporary directory."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from weakref import finalize

import polars as pl

from rechannel.profiling.model.summaries import CELLS
from rechannel.profiling.storage.temporary import writing

IN_MEMORY = 1 << 22
"""Cells that a store holds in memory before it writes a file."""


class SpilledCells:
    """A `CellStore` that writes files once it holds more than `most` cells.

    The files are deleted with the object.
    """

    def __init__(self, most: int = IN_MEMORY) -> None:
        self._most = most
        self._held: list[pl.DataFrame] = []
        self._files: list[Path] = []
        self._directory: Path | None = None

    def add(self, made: pl.DataFrame) -> None:
        """Add the cells of some windows."""
        self._held.append(made)
        if sum(len(frame) for frame in self._held) > self._most:
            with writing():
                self._write()

    def _write(self) -> None:
        """Write what is in memory."""
        if self._directory is None:
            self._directory = Path(mkdtemp(prefix="rechannel-cells-"))
            finalize(self, rmtree, self._directory, ignore_errors=True)
        file = self._directory / f"{len(self._files)}.parquet"
        pl.concat(self._held).write_parquet(file)
        self._files.append(file)
        self._held = []

    @property
    def files(self) -> int:
        """How many files have been written."""
        return len(self._files)

    def frame(self) -> pl.LazyFrame:
        """Return all cells; collect the frame while this object exists."""
        return pl.concat(
            [
                *(pl.scan_parquet(file) for file in self._files),
                *(frame.lazy() for frame in self._held),
                pl.LazyFrame(schema=CELLS),
            ]
        )
