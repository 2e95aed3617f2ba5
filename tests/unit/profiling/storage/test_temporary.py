"""Temporary files that cannot be written."""

import numpy as np
import polars as pl
import pytest

from rechannel.errors import SetUpError
from rechannel.profiling.model.summaries import CELLS
from rechannel.profiling.storage import blocks
from rechannel.profiling.storage.blocks import RowBlocks
from rechannel.profiling.storage.cells import SpilledCells


def full(*_, **__):
    raise OSError(28, "No space left on device")


def test_rows_that_do_not_fit_say_what_to_do(monkeypatch):
    monkeypatch.setattr(blocks, "_write", full)
    rows = RowBlocks(np.dtype([("a", "i8"), ("b", "i8")]), "a", "b", held=0)
    rows.add(np.zeros(3, dtype=rows.kind))
    with pytest.raises(
        SetUpError, match=r"No space left on device\. Make room there, or set TMPDIR"
    ):
        _ = rows.span


def test_cells_that_do_not_fit_say_what_to_do(monkeypatch):
    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    cells = SpilledCells(most=0)
    with pytest.raises(SetUpError, match="No space left on device"):
        cells.add(pl.DataFrame(schema=CELLS).clear(1))
