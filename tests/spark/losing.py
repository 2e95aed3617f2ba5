"""A stream on two hosts of one core each, whose executors a test kills."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

import rechannel as rc
from rechannel.testing.loopback import Host, loopback
from tests.spark.children import environment
from tests.spark.programs import session

KEYS, PER_TIMESTEP = 1000, 1000


def numbers(start: int, stop: int) -> pa.RecordBatch:
    """Rows as a function of their number."""
    number = np.arange(start, stop, dtype=np.int64)
    return pa.record_batch({"k": number * 7919 % KEYS, "v": number * 31 % 1000})


def executors(place: str) -> list[psutil.Process]:
    """Processes of the executors of a cluster below a place."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        line = " ".join(process.info["cmdline"] or [])
        if "CoarseGrainedExecutorBackend" in line and str(process.info["cwd"]).startswith(place):
            found.append(process)
    return found


@contextmanager
def two_hosts(place: str, timesteps: int) -> Iterator[tuple[Any, Any]]:
    """The session, and the numbers of so many timesteps by `k`; stops the session."""
    path = environment()["PYTHONPATH"]
    hosts = [Host(address=f"127.0.0.{n}", environment={"PYTHONPATH": path}) for n in (2, 3)]
    with loopback(Path(place) / "cluster", hosts) as cluster:
        spark = session(
            place,
            cluster.url,
            **cluster.settings,
            spark__executor__memory="600m",
            spark__executorEnv__PYTHONPATH=path,
        )
        source = rc.read(spark).generator(
            numbers,
            schema="k BIGINT, v BIGINT",
            rows=timesteps * PER_TIMESTEP,
            per_timestep=PER_TIMESTEP,
            name="numbers",
        )
        yield spark, source.key_by("k")
        spark.stop()
