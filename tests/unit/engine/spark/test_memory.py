"""How much a timestep may read by the memory of executors."""

from __future__ import annotations

import pytest

from rechannel.engine.spark.session.memory import LEAST_SLOT_BYTES, MOST_SLOT_BYTES, share_of_memory
from rechannel.settings import SLOT_BYTES


@pytest.mark.parametrize(
    ("memory", "cores", "share"),
    [
        ("1g", 2, 256 << 20),
        ("4GB", 4, 512 << 20),
        ("800m", 2, 200 << 20),
        ("1024", 2, 256 << 20),
        ("1g", 64, LEAST_SLOT_BYTES),
        ("1t", 1, MOST_SLOT_BYTES),
        ("much", 1, SLOT_BYTES),
    ],
)
def test_a_task_may_have_half_of_its_share(memory, cores, share):
    assert share_of_memory(memory, cores) == share
