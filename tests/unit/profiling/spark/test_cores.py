"""Which core a task runs on."""

import numpy as np
import pytest

from rechannel.profiling.spark.cores import ExecutorCores
from rechannel.profiling.spark.rows import TASK_ROW, leaving


def test_a_task_takes_the_core_of_its_number_or_the_one_that_was_freed_last():
    cores = ExecutorCores(np.array([2]))
    rows = np.zeros(6, dtype=TASK_ROW)
    rows["index"] = [1, 0, 3, 4, 5, 6]
    rows["arrive"] = [0, 1, 10, 20, 20, 21]
    rows["steps"][:, 0] = [10, 8, 30, 30, 30, 30]
    cores.place(rows)
    # 3 finds both free and has an odd number; 5 finds its own busy, and so is the other one then: it gets one more.
    assert rows["core"].tolist() == [1, 0, 1, 0, 2, 3]
    assert cores.crowded == 2
    assert cores.used.tolist() == [4]
    # 1 finds its own free, 3 does not, but 0 is; for 5 there are only others, of which 3 was freed last.
    later = np.zeros(3, dtype=TASK_ROW)
    later["index"], later["arrive"], later["steps"][:, 0] = [1, 3, 5], [45, 60, 61], [100, 9, 1]
    cores.place(later)
    assert later["core"].tolist() == [1, 0, 3]


def test_a_task_leaves_sooner_if_its_core_is_needed_and_it_may_have_arrived_sooner():
    cores = ExecutorCores(np.array([1]))
    rows = np.zeros(4, dtype=TASK_ROW)
    rows["launch"], rows["arrive"] = [0, 95, 190, 280], [10, 105, 195, 290]
    rows["finish"] = 1_000
    rows["steps"][:, 0] = [92, 92, 110, 10]
    cores.place(rows)
    # The second one leaves at 197, and may arrive when the first one leaves, 3 ns sooner; the third
    # one may not arrive soon enough.
    assert rows["core"].tolist() == [0, 0, 0, 1]
    assert rows["arrive"].tolist() == [10, 102, 195, 290]
    assert cores.crowded == 1


@pytest.mark.parametrize("seed", range(20))
def test_tasks_on_a_core_follow_one_another(seed):
    rng = np.random.default_rng(seed)
    rows = np.zeros(300, dtype=TASK_ROW)
    rows["executor"], rows["index"] = rng.integers(0, 2, 300), rng.integers(0, 9, 300)
    rows["launch"] = np.sort(rng.integers(0, 3_000, 300))
    rows["arrive"] = rows["launch"] + rng.integers(0, 8, 300)
    rows["steps"][:, 0] = rng.integers(1, 25, 300)
    rows["finish"] = leaving(rows) + rng.integers(0, 12, 300)
    known, cores = rows.copy(), ExecutorCores(np.array([2, 3]))
    cores.place(rows)
    assert (rows["launch"] <= rows["arrive"]).all()
    assert (rows["arrive"] <= known["arrive"]).all()
    assert (leaving(rows) <= rows["finish"]).all()
    assert (rows["finish"] <= known["finish"]).all()
    assert (rows["launch"] >= known["launch"]).all()
    assert (rows["steps"] == known["steps"]).all()
    for one in np.unique(rows["executor"].astype(np.int64) << 8 | rows["core"]):
        mine = rows[(rows["executor"] == one >> 8) & (rows["core"] == one & 255)]
        mine = mine[np.argsort(mine["arrive"], kind="stable")]
        assert (leaving(mine)[:-1] <= mine["arrive"][1:]).all()
        # The driver has the end of a task when it launches the next one.
        follows = leaving(mine)[:-1] < mine["arrive"][1:]
        assert (mine["finish"][:-1] <= mine["launch"][1:])[follows].all()
