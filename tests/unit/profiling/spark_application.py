"""The applications whose event logs are in `spark_logs/`: what they do is known, so what the logs have to say is.

`python spark_application.py CASE TARGET CODEC` runs one with the PySpark of that interpreter, 3.3 or later, and writes
its log to TARGET as this Spark lays it down by default: a file, or from 4.0 on a directory of rolled files; compressed
by Spark's own CODEC. `make_spark_logs.py` does so with every version.

The line with the environment is dropped, and paths, hosts and names of whoever runs this are replaced (`Disguise`):
so logs are written plainly first, and compressed when they are clean.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import add
from pathlib import Path
from typing import Any, TypeVar

from pyspark import InheritableThread, TaskContext
from pyspark.sql import SparkSession

T = TypeVar("T")

SHUFFLE_PARTITIONS = 2
SCANNED = 3
"""Partitions that the SQL query reads."""
BATCHES = 3
TOGETHER = ("left", "right")
"""Descriptions of the two jobs that run at the same time."""
NUMBERS = "numbers by remainder"
RETRIED = "a task fails once"
PAUSE_MS = 1_000
ALONE = 4
"""Tasks of every first stage in which an executor is lost, or a task is slow."""
LOSSES = ("without a shuffle", "in the first stage", "in the second stage")
"""Descriptions of the jobs that lose an executor."""

CODECS = {
    "lz4": "LZ4CompressionCodec",
    "snappy": "SnappyCompressionCodec",
    "lzf": "LZFCompressionCodec",
    "zstd": "ZStdCompressionCodec",
}
OPTIONS = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.logBlockUpdates.enabled": "false",
    "spark.eventLog.includeTaskMetricsAccumulators": "false",
    "spark.eventLog.stageExecutorMetrics.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.executor.memory": "512m",
    "spark.cores.max": "2",
}


def ordinary(spark: SparkSession, place: Path) -> None:
    """A query with a shuffle, two jobs at the same time, a task that fails once, three batches of a stream."""
    context = spark.sparkContext
    context.setJobDescription(NUMBERS)
    spark.range(0, 1_000, 1, SCANNED).selectExpr("id % 7 AS rest").groupBy("rest").count().collect()
    threads = [InheritableThread(target=_pause, args=(spark, name)) for name in TOGETHER]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    context.setJobDescription(RETRIED)
    context.parallelize(range(4), 2).mapPartitionsWithIndex(_fails_once).count()
    context.setJobDescription(None)  # type: ignore[arg-type]  # clears it
    files = place / "words"
    files.mkdir()
    for number in range(BATCHES):
        (files / f"{number}.txt").write_text("one\ntwo\ntwo\n")
    words = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(f"file://{files}")
    writer = words.groupBy("value").count().writeStream.queryName("words").outputMode("complete")
    writer = writer.format("noop").option("checkpointLocation", f"file://{place}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


def lost(spark: SparkSession, place: Path) -> None:
    """Three jobs, each of which loses an executor and what it did.

    Executors have one core. In the first two jobs a task of the first stage ends its executor, which has done one task
    before: in the first job the driver has that one's result; in the second its output is lost, and it is run again.
    In the third job a task of the second stage ends its executor, and with it outputs of the first one.
    """
    context = spark.sparkContext
    for number, where in enumerate(LOSSES):
        _wait_for_executors(spark, 2)
        context.setJobDescription(where)
        ending = _ends_executor(ALONE - 1 if number < 2 else None, place / f"lost-{number}")
        rows = context.parallelize(range(ALONE), ALONE).mapPartitionsWithIndex(ending)
        if number == 0:
            rows.count()
            continue
        sums = rows.map(lambda row: (row % 2, row)).reduceByKey(add, SHUFFLE_PARTITIONS)
        ending = _ends_executor(
            SHUFFLE_PARTITIONS - 1 if number == 2 else None, place / f"lost-{number}"
        )
        sums.mapPartitionsWithIndex(ending).collect()


def speculation(spark: SparkSession, place: Path) -> None:
    """The first attempt of a task is slow; a speculative one overtakes it."""
    del place
    _wait_for_executors(spark, 2)
    spark.sparkContext.setJobDescription("one is slow")
    spark.sparkContext.parallelize(range(ALONE), ALONE).mapPartitionsWithIndex(_is_slow).count()
    time.sleep(5)  # Until the slow attempt has been killed, and the log says so.


def _pause(spark: SparkSession, name: str) -> None:
    """A job of one task that sleeps."""
    spark.sparkContext.setJobDescription(name)
    pause = f"java_method('java.lang.Thread', 'sleep', {PAUSE_MS}L)"
    spark.range(0, 1, 1, 1).selectExpr(pause).collect()


def _fails_once(partition: int, rows: Iterable[T]) -> Iterable[T]:
    if partition == 1 and _attempt() == 0:
        msg = "the first attempt fails"
        raise RuntimeError(msg)
    return rows


def _attempt() -> int:
    context: Any = TaskContext.get()
    return int(context.attemptNumber())


def _is_slow(partition: int, rows: Iterable[T]) -> Iterable[T]:
    first = _attempt() == 0
    time.sleep(60 if first and partition == ALONE - 1 else 0.5)
    return rows


def _ends_executor(partition: int | None, mark: Path) -> Callable[[int, Iterable[T]], Iterable[T]]:
    """A function that kills the executor of a partition, once. The partition before takes so long that it runs on."""
    name = str(mark)

    def act(number: int, rows: Iterable[T]) -> Iterable[T]:
        time.sleep(3 if number + 1 == partition else 0.5)
        if number == partition and not os.path.exists(name):  # noqa: PTH110 - runs on executors
            os.close(os.open(name, os.O_CREAT))
            os.kill(os.getppid(), signal.SIGKILL)  # Without the daemon, the parent is the executor.
            time.sleep(60)
        return rows

    return act


def _wait_for_executors(spark: SparkSession, count: int) -> None:
    deadline = time.monotonic() + 60
    while len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) < count + 1:
        if time.monotonic() > deadline:
            msg = f"there are not {count} executors within a minute"
            raise TimeoutError(msg)
        time.sleep(0.2)


@contextlib.contextmanager
def cluster(cores: int = 1) -> Iterator[str]:
    """A cluster of two hosts with so many cores each, which speculation asks for: the address of its master."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"spark://127.0.0.1:{port}"
    command = [f"{os.environ['SPARK_HOME']}/bin/spark-class"]
    worker = ["org.apache.spark.deploy.worker.Worker", "--cores", str(cores), "--memory", "1g"]
    master = ["org.apache.spark.deploy.master.Master", "--port", str(port)]
    commands = [
        [*command, *master, "--host", "127.0.0.1", "--webui-port", "0"],
        *(
            [*command, *worker, "--host", f"127.0.0.{host}", "--webui-port", "0", address]
            for host in (2, 3)
        ),
    ]
    started = [subprocess.Popen(each, stderr=subprocess.DEVNULL) for each in commands]
    try:
        yield address
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(20)


CASES = {
    "ordinary": (ordinary, "local[2,2]", {}),
    "lost": (lost, "local-cluster[2,1,1024]", {"spark.python.use.daemon": "false"}),
    "speculation": (
        speculation,
        None,
        {
            "spark.speculation": "true",
            "spark.speculation.quantile": "0.5",
            "spark.speculation.multiplier": "1.1",
        },
    ),
}


@dataclass(frozen=True)
class Disguise:
    """What is written in place of what. paths: the longest first."""

    paths: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, place: Path) -> Disguise:
        """Of this process."""
        java = os.environ.get("JAVA_HOME", "/usr/lib/jvm")
        known = {
            str(place): "/data",
            os.environ["SPARK_HOME"]: "/spark",
            str(Path(__file__).parent): "/app",
            sys.prefix: "/environment",
            sys.base_prefix: "/python",
            java: "/java",
        }
        return cls(paths=tuple(sorted(known.items(), key=lambda pair: -len(pair[0]))))

    def apply(self, line: bytes) -> bytes | None:
        """A line without traces of this machine; None for one that goes. Raises ValueError where some are left."""
        if line.startswith(b'{"Event":"SparkListenerEnvironmentUpdate"'):
            return None
        for old, new in self.paths:
            line = line.replace(old.encode(), new.encode())
        line = re.sub(rb"/tmp/[\w./-]+", b"/data/scratch", line)
        host = re.escape(socket.gethostname().encode())
        left = re.search(
            rb"/(tmp|root|home|work|Users)\b[^\"]*|\b" + host + rb"\b|\"User\":\"(?!user\")", line
        )
        if left:
            msg = f"{left[0]!r} is left in {line[:200]!r}"
            raise ValueError(msg)
        return line


def _pack(context: Any, logs: Path, target: Path, codec: str, disguise: Disguise) -> None:
    """Write a log that lies in a directory as it lies there, clean and compressed."""
    (log,) = logs.iterdir()
    rolled = sorted(log.glob("events_*")) if log.is_dir() else [log]
    if log.is_dir():
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        (target / "appstatus_app").touch()
    name = getattr(context._jvm.org.apache.spark.io, CODECS[codec])
    for number, file in enumerate(rolled, 1):
        place = (
            target / f"events_{number}_app.{codec}" if log.is_dir() else Path(f"{target}.{codec}")
        )
        lines = (disguise.apply(line) for line in file.read_bytes().splitlines(keepends=True))
        out = name(context._conf._jconf).compressedOutputStream(
            context._jvm.java.io.FileOutputStream(str(place))
        )
        out.write(bytearray(b"".join(line for line in lines if line is not None)))
        out.close()


def main(case: str, target: Path, codec: str) -> None:
    """Run an application and write its log."""
    run, master, more = CASES[case]
    import pyspark

    home = Path(pyspark.__file__).parent
    os.environ.update(
        {
            "SPARK_HOME": str(home),
            "SPARK_USER": "user",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_HOSTNAME": "localhost",
            "PYSPARK_PYTHON": sys.executable,
        }
    )
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as held:
        place = Path(scratch)
        os.chdir(place)
        (place / "logs").mkdir()
        builder = SparkSession.builder.appName(case)
        builder = builder.master(master or held.enter_context(cluster()))
        for name, value in {
            **OPTIONS,
            **more,
            "spark.eventLog.dir": f"file://{place}/logs",
        }.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        context = spark.sparkContext
        run(spark, place)
        spark.stop()
        _pack(context, place / "logs", target, codec, Disguise.of(place))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).absolute(), sys.argv[3])
