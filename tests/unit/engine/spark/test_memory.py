"""How much a timestep may read by the memory of executors."""

from __future__ import annotations

import pytest

from rechannel.engine.spark.memory import (
    LEAST_SLOT_BYTES,
    MOST_SLOT_BYTES,
    cores_of,
    share_of_memory,
)
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


@pytest.mark.parametrize(
    ("master", "given", "slots", "executors", "cores"),
    [
        ("local[4]", None, 4, 0, 4),
        ("spark://h:7077", None, 16, 1, 16),
        ("spark://h:7077", None, 20, 3, 7),
        ("spark://h:7077", None, 2, 0, 2),
        ("spark://h:7077", "4", 16, 4, 4),
        ("yarn", None, 16, 16, 1),
        ("local-cluster[2,3,1024]", "3", 6, 2, 3),
    ],
)
def test_the_tasks_of_an_executor_share_its_memory(master, given, slots, executors, cores):
    assert cores_of(master, given, slots, executors) == cores
