"""The causes that findings name: what each means, and what to change. `docs/profiling.md` has them as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What a cause means, as sentences in Markdown."""

    means: str
    change: str


CAUSES: Mapping[str, Cause] = {
    "skew": Cause(
        means="A few tasks of a stage have far more rows than the others, which wait for them: a key of a join or an"
        " aggregation is hot.",
        change="Set `spark.sql.adaptive.skewJoin.enabled` for joins, aggregate in two steps with a salted key, or treat"
        " the hot key apart.",
    ),
    "spill": Cause(
        means="Tasks had more rows than memory, and wrote them to disk and read them again.",
        change="Use more partitions (`spark.sql.shuffle.partitions`) or more memory per core"
        " (`spark.executor.memory`).",
    ),
    "too-few-partitions": Cause(
        means="A stage has fewer tasks than the application has cores, so cores have nothing to do.",
        change="`repartition` the input, raise `spark.sql.shuffle.partitions`, or lower"
        " `spark.sql.files.maxPartitionBytes`.",
    ),
    "too-many-partitions": Cause(
        means="Tasks are so short that starting them takes most of the time.",
        change="Lower `spark.sql.shuffle.partitions`, `coalesce`, or let"
        " `spark.sql.adaptive.coalescePartitions.enabled` merge them.",
    ),
    "small-files": Cause(
        means="The input has many files that are far smaller than a partition should be.",
        change="Compact the files, or raise `spark.sql.files.maxPartitionBytes` and lower"
        " `spark.sql.files.openCostInBytes`.",
    ),
    "idle-cores": Cause(
        means="Cores have no task while others still work, for example in the last wave of a stage.",
        change="Use a number of partitions that is a multiple of the number of cores, smaller partitions, or fewer"
        " executors.",
    ),
    "too-many-cores": Cause(
        means="The run would hardly take longer on half of its cores.",
        change="Use fewer executors: `spark.executor.instances`, `spark.dynamicAllocation.maxExecutors`.",
    ),
    "slow-task": Cause(
        means="A task takes much longer than the others of its stage, and reads no more than they do.",
        change="Check its host, or set `spark.speculation`; if it is slow in every run, look at its rows.",
    ),
    "slow-executor": Cause(
        means="One executor needs more time than the others for the same work.",
        change="Check its host; `spark.speculation` starts copies of tasks that lag behind.",
    ),
    "speculation": Cause(
        means="Copies of slow tasks were started, and won, or did their work for nothing.",
        change="Mend what makes the originals slow; `spark.speculation.multiplier` and"
        " `spark.speculation.quantile` say when a copy starts.",
    ),
    "garbage-collection": Cause(
        means="Tasks stand still while the JVM collects garbage.",
        change="Give executors more memory (`spark.executor.memory`) or fewer cores, and cache less.",
    ),
    "python-function": Cause(
        means="A Python function of the program takes most of the time of its stage.",
        change="Use a built-in expression, a pandas or Arrow function that takes many rows at once, or more tasks.",
    ),
    "cache-lost": Cause(
        means="Data that was to be cached did not fit, or was evicted, and was computed again.",
        change="Cache less, use `StorageLevel.DISK_ONLY` or serialised storage, or give executors more memory.",
    ),
    "missed-broadcast": Cause(
        means="A join shuffled both sides although one of them is small.",
        change="Raise `spark.sql.autoBroadcastJoinThreshold`, or use the hint `broadcast`.",
    ),
    "recomputed-stages": Cause(
        means="A stage was computed more than once.",
        change="`persist` what several jobs read, or find out why its output was lost.",
    ),
    "lost-executor": Cause(
        means="An executor was lost, and with it what its tasks had done.",
        change="Its log says why. If it ran out of memory: `spark.executor.memoryOverhead`, or smaller partitions.",
    ),
    "fetch-failure": Cause(
        means="Shuffle files were gone when tasks came to read them, so stages ran again.",
        change="Use an external shuffle service or `spark.decommission.enabled`; look at disks and at lost executors.",
    ),
    "failed-work": Cause(
        means="Attempts of tasks failed or were killed, and their work was done again.",
        change="The reason is on the page of the stage; mend what fails.",
    ),
    "start-up": Cause(
        means="The application had no executor yet, or the session was starting.",
        change="Keep a session for several jobs; use smaller images; `spark.dynamicAllocation.initialExecutors`.",
    ),
    "late-executors": Cause(
        means="Jobs waited for executors that were requested late or came late.",
        change="Raise `spark.dynamicAllocation.minExecutors` or `initialExecutors`, or lower"
        " `schedulerBacklogTimeout`.",
    ),
    "planning": Cause(
        means="The driver analyses and optimises queries while executors wait.",
        change="Make plans smaller: fewer columns and unions, `checkpoint` in loops.",
    ),
    "broadcast-building": Cause(
        means="The driver collects one side of a broadcast join and makes a table of it, while executors wait.",
        change="Lower `spark.sql.autoBroadcastJoinThreshold`, broadcast the smaller side, or select fewer columns.",
    ),
    "collecting-results": Cause(
        means="The driver receives and converts rows that `collect` or `toPandas` asked for.",
        change="Aggregate or write on executors; set `spark.sql.execution.arrow.pyspark.enabled` for `toPandas`.",
    ),
    "driver-program": Cause(
        means="The program itself runs on the driver while no job does, and executors wait.",
        change="Do it on executors, do it in parallel to jobs, or leave it out.",
    ),
    "commit": Cause(
        means="The driver moves and commits the files that tasks have written.",
        change="Write fewer files; use a committer that does not rename (`spark.sql.sources.commitProtocolClass`,"
        " a table format).",
    ),
    "file-listing": Cause(
        means="The driver lists the files of the input.",
        change="Use a table with a catalogue of its files, fewer partitions of the table, or a filter on them.",
    ),
    "idle": Cause(
        means="Nothing was to be done: no job and no batch was running.",
        change="Nothing needs to change. `spark.dynamicAllocation.enabled` gives executors back that have no work.",
    ),
    "small-batches": Cause(
        means="Batches have so few rows that planning and committing them takes most of the time.",
        change="Use a longer trigger interval, or raise `maxOffsetsPerTrigger` or `maxFilesPerTrigger`.",
    ),
    "stream-skew": Cause(
        means="One task has most of the rows of every batch.",
        change="Salt the hot key and aggregate in two steps, or filter it out.",
    ),
    "slow-sink": Cause(
        means="Batches wait for the sink.",
        change="Write in larger units and in parallel; look at the system that receives the rows.",
    ),
    "slow-state-store": Cause(
        means="Tasks spend their time on reading, updating and committing state.",
        change="Use RocksDB with `changelogCheckpointing.enabled`, fewer partitions of state, and a watermark.",
    ),
    "watermark": Cause(
        means="State only grows: there is no watermark, or it holds nothing back.",
        change="Set `withWatermark` on the column of the window or the key, and a shorter delay.",
    ),
    "late-rows": Cause(
        means="Rows came after the watermark and were dropped.",
        change="Raise the delay of `withWatermark`, or find out why rows come so late.",
    ),
    "uneven-batches": Cause(
        means="A few batches take far longer than the others.",
        change="Limit what a batch reads (`maxOffsetsPerTrigger`, `maxFilesPerTrigger`), and look at what is special"
        " about them.",
    ),
    "rate-above-capacity": Cause(
        means="More rows come in than are processed, so the backlog grows.",
        change="Give the query more cores and partitions, or mend its slowest part.",
    ),
    "straggler": Cause(
        means="The others wait for one worker, and a run without its excess is shorter.",
        change="Split or move its hot keys, or check its machine.",
    ),
    "processing": Cause(
        means="Workers are busy with rows.",
        change="Make that part cheaper, or give it more tasks if cores are idle.",
    ),
    "scheduling": Cause(
        means="The driver plans batches, starts tasks and receives their results; tasks are on their way.",
        change="Use larger batches or fewer partitions.",
    ),
    "communication": Cause(
        means="Rows wait for the network or a disk between stages.",
        change="Send fewer: combine before the shuffle, select columns; put what exchanges the most on one host.",
    ),
    "nothing-known": Cause(
        means="The trace does not say what happened.",
        change="Trace more, or look at what the workers waited for.",
    ),
}
