"""How much a timestep may read so that the session's executors have room for it."""

from __future__ import annotations

import re
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
    if context.master.startswith("local"):
        memory, cores = asked.get("spark.driver.memory", "1g"), slots
    else:
        memory = asked.get("spark.executor.memory", "1g")
        cores = int(asked.get("spark.executor.cores", "1"))
    return slots * share_of_memory(memory, cores)


def task_bytes(spark: Any) -> int:
    """Bytes that a task may hold at once: half of what its Python worker may have, where the session says that."""
    if is_connect(spark):
        return TASK_BYTES
    asked = spark.sparkContext.getConf()
    memory, cores = asked.get("spark.executor.pyspark.memory"), asked.get("spark.executor.cores")
    return TASK_BYTES if memory is None else share_of_memory(memory, int(cores or "1"))


def share_of_memory(memory: str, cores: int) -> int:
    """Bytes of a timestep for one task of an executor. memory: as Spark spells it, such as "4g" or "512m"."""
    found = re.fullmatch(r"(\d+)([kmgtp]?)b?", memory.strip().lower())
    if found is None:
        return SLOT_BYTES
    bytes_ = int(found[1]) << (10 * (" kmgtp".index(found[2]) if found[2] else 2))
    return min(MOST_SLOT_BYTES, max(LEAST_SLOT_BYTES, bytes_ // max(1, cores) // 2))
