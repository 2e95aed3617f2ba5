"""How much a timestep may read so that the session's executors have room for it."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from rechannel.engine.spark.session.session import is_connect
from rechannel.kernels.protocol.program import TASK_BYTES
from rechannel.settings import SLOT_BYTES

LEAST_SLOT_BYTES, MOST_SLOT_BYTES = 64 << 20, 1 << 30
"""Of a task that runs at once with others, whatever memory it has."""


def timestep_bytes(spark: Any) -> int:
    """Bytes of rows that a timestep may read so that every task has room for its part.

    That is half of a task's share of the memory of its executor, which holds the rows and what is made of them.
    """
    if is_connect(spark):
        return SLOT_BYTES * max(1, int(spark.conf.get("spark.sql.shuffle.partitions", "2")))
    context = spark.sparkContext
    slots, asked = int(context.defaultParallelism), context.getConf()
    local = _is_local(context.master)
    memory = asked.get(f"spark.{'driver' if local else 'executor'}.memory", "1g")
    return slots * share_of_memory(memory, _cores(spark, slots))


def _cores(spark: Any, slots: int) -> int:
    """Return the cores of an executor."""
    from py4j.protocol import Py4JError

    from rechannel.engine.spark.private_executors import Executors

    context, executors = spark.sparkContext, 1
    given = context.getConf().get("spark.executor.cores")
    if given is None and _is_standalone(context.master):
        with suppress(Py4JError):  # one with all cores is the least that there is for each
            executors = len(Executors(spark).alive())
    return cores_of(context.master, given, slots, executors)


def cores_of(master: str, given: str | None, slots: int, executors: int) -> int:
    """Return the cores of an executor. given: `spark.executor.cores`. slots: tasks that run at once.

    Without the setting, an executor of a standalone cluster has all cores of its worker, and another one has one.
    """
    if _is_local(master):
        return slots
    if given is not None:
        return int(given)
    return -(-slots // max(1, executors)) if _is_standalone(master) else 1


def _is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def _is_standalone(master: str) -> bool:
    return master.startswith(("spark:", "local-cluster["))


def task_bytes(spark: Any) -> int:
    """Bytes that a task may hold at once: half of what its Python worker may have, where the session says that."""
    if is_connect(spark):
        return TASK_BYTES
    context = spark.sparkContext
    memory = context.getConf().get("spark.executor.pyspark.memory")
    if memory is None:
        return TASK_BYTES
    return share_of_memory(memory, _cores(spark, int(context.defaultParallelism)))


def share_of_memory(memory: str, cores: int) -> int:
    """Bytes of a timestep for one task of an executor. memory: as Spark spells it, such as "4g" or "512m"."""
    found = re.fullmatch(r"(\d+)([kmgtp]?)b?", memory.strip().lower())
    if found is None:
        return SLOT_BYTES
    bytes_ = int(found[1]) << (10 * (" kmgtp".index(found[2]) if found[2] else 2))
    return min(MOST_SLOT_BYTES, max(LEAST_SLOT_BYTES, bytes_ // max(1, cores) // 2))
