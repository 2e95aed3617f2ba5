"""What the applications are made of: work that takes a known time, and what is done to executors."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator

import psutil
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

PERIOD = 0.04
"""Seconds after which a slowed process gets its share again."""


def slept(milliseconds: int | str) -> Column:
    """A column, always null, whose every row takes that long without occupying a processor. An SQL expression."""
    return f.expr(f"java_method('java.lang.Thread', 'sleep', bigint({milliseconds}))")


def burnt(steps: int) -> Column:
    """A column whose every row occupies a processor for that many steps, 50 to 100 ns each. It needs a column `id`."""
    return f.expr(f"aggregate(sequence(1, {steps}), 0L, (a, x) -> (a + x * id) % 1000003)")


def drain(rows: DataFrame) -> None:
    """Compute all columns of all rows, and drop them."""
    rows.write.format("noop").mode("overwrite").save()


def describe(spark: SparkSession, text: str) -> None:
    """Name the jobs that follow."""
    spark.sparkContext.setJobDescription(text)


def wait_for_executors(spark: SparkSession, count: int) -> None:
    """Wait until that many executors run tasks. Raises TimeoutError after a minute."""
    deadline = time.monotonic() + 60
    while len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) < count + 1:
        if time.monotonic() > deadline:
            msg = f"there are not {count} executors within a minute"
            raise TimeoutError(msg)
        time.sleep(0.1)


def executors(spark: SparkSession) -> dict[str, int]:
    """Names of the executors that run for this application to the ids of their processes."""
    found = {}
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if spark.sparkContext.applicationId in words and "--executor-id" in words:
            found[words[words.index("--executor-id") + 1]] = process.pid
    return found


def kill_later(process: int, seconds: float) -> threading.Timer:
    """Kill a process after a while."""
    timer = threading.Timer(seconds, os.kill, (process, signal.SIGKILL))
    timer.start()
    return timer


@contextlib.contextmanager
def slowed(process: int, share: float) -> Iterator[None]:
    """Let a process run for that share of the time only, as on a host that is busy with something else."""
    ended = threading.Event()

    def hold() -> None:
        while not ended.is_set():
            os.kill(process, signal.SIGSTOP)
            time.sleep(PERIOD * (1 - share))
            os.kill(process, signal.SIGCONT)
            time.sleep(PERIOD * share)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextlib.contextmanager
def hanging(process: int, after: float) -> Iterator[None]:
    """Stop a process after so many seconds; it goes on at the end of the block."""
    timer = threading.Timer(after, os.kill, (process, signal.SIGSTOP))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        os.kill(process, signal.SIGCONT)
