"""Rows in blocks, in memory and in a file."""

from random import Random

import numpy as np

from rechannel.profiling.storage import blocks
from rechannel.profiling.storage.blocks import RowBlocks
from rechannel.profiling.storage.stored import ACTIVITY, activity_blocks


def rows_of(*times):
    rows = np.zeros(len(times), dtype=ACTIVITY)
    rows["start"], rows["end"] = np.array(times).T
    return rows


def test_blocks_in_a_file_have_the_rows_that_were_added(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 10)
    rng = Random(3)
    times = [(at, at + rng.randint(0, 30)) for at in range(95)]
    held, laid = activity_blocks(), RowBlocks(ACTIVITY, "start", "end", held=500)
    for one in (held, laid):
        for at in range(0, 95, 7):
            one.add(rows_of(*times[at : at + 7]))
    assert laid.spilled
    assert not held.spilled
    assert len(held) == len(laid) == 95
    for start, end in ((0, 200), (17, 17), (40, 60), (130, 140)):
        expected = [t for t in times if t[1] >= start and t[0] <= end]
        for one in (held, laid):
            found = one.meeting(start, end)
            assert (
                list(zip(found["start"].tolist(), found["end"].tolist(), strict=True)) == expected
            )
    assert laid.span == (0, max(end for _, end in times))
