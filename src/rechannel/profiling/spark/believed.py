"""Cores of executors, of which a log may tell anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rechannel.profiling.spark.application import Executor
from rechannel.profiling.spark.rows import TaskRows

MOST_OF_ONE = 1 << 12
"""Cores of an executor: more than that is not believed."""
MOST_CORES = 1 << 18
"""Cores of all executors together. If they have more, none has more than it had tasks."""


def believed(executors: Mapping[str, Executor], tasks: TaskRows) -> dict[str, Executor]:
    """Return executors with numbers of cores that can be: at least one."""
    cores = {name: min(max(1, each.cores), MOST_OF_ONE) for name, each in executors.items()}
    if sum(cores.values()) > MOST_CORES:
        had = np.zeros(len(tasks.executors), dtype=np.int64)
        for rows in tasks.each():
            had += np.bincount(rows["executor"], minlength=len(had))
        count = dict(zip(tasks.executors, had.tolist(), strict=True))
        cores = {name: min(told, count.get(name, 0) or 1) for name, told in cores.items()}
    return {
        name: each if each.cores == cores[name] else replace(each, cores=cores[name])
        for name, each in executors.items()
    }
