"""Which core a task runs on."""

import numpy as np

from rechannel.profiling.spark.cores import ExecutorCores
from rechannel.profiling.spark.rows import TASK_ROW


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
