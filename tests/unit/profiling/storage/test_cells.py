"""Cells in files are those that were added."""

import polars as pl

from rechannel.profiling.model import summaries
from rechannel.profiling.model.summaries import CellsInMemory
from rechannel.profiling.storage.cells import SpilledCells


def test_cells_in_files_are_the_same():
    frames = [
        pl.DataFrame(
            {
                name: [window] if kind.is_numeric() else [False]
                for name, kind in summaries.CELLS.items()
            },
            schema=summaries.CELLS,
        )
        for window in range(10)
    ]
    held, laid = CellsInMemory(), SpilledCells(most=3)
    for frame in frames:
        held.add(frame)
        laid.add(frame)
    assert laid.files == 2
    assert held.frame().sort("window").collect().equals(laid.frame().sort("window").collect())
