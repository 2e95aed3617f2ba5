"""Tasks whose output was lost, compared with a set."""

import numpy as np

from rechannel.profiling.spark.lost import LostTasks


def test_lost_tasks_are_found_whenever_they_are_noted():
    rng = np.random.default_rng(3)
    lost, twin = LostTasks(), set()
    for _ in range(5):
        asked = rng.integers(0, 1 << 40, 30)
        for number in [*asked[:7].tolist(), *list(twin)[:2]]:
            lost.add(number)
            twin.add(number)
        numbers = np.concatenate([asked, np.array(sorted(twin))])
        found = lost.among(numbers)
        assert found.tolist() == [number in twin for number in numbers.tolist()]
        assert found.any()
        assert not found.all()
    assert lost.among(np.empty(0, dtype=np.int64)).tolist() == []


def test_without_any_nothing_is_lost():
    assert LostTasks().among(np.arange(3)).tolist() == [False] * 3
