"""Two hosts over one shared store, on one machine: a standalone cluster of two loopback workers.

Each host has one core, a cache of its own (cold at first) and a line of stated bandwidth to the shared store. One host
alone, as an appendix, has both cores. Whatever a task reads that its host has not written or read before travels over
that line, as it would over a network card.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rechannel as rc
from benchmarks.harness import Parameters
from benchmarks.session import shared_settings
from rechannel.engine.spark.cluster import spark_cluster
from rechannel.state.cache.host_cache import VARIABLE as CACHE
from rechannel.state.stores.local import Durability, LocalStore
from rechannel.state.stores.shared import SharedStore
from rechannel.testing.loopback import Host, Loopback, loopback
from rechannel.testing.throttled import ThrottledStore

ADDRESSES = ("127.0.0.2", "127.0.0.3")
LINE = "RECHANNEL_BENCH_LINE"
"""Environment variable: the file of a host's line."""
CORES = 2
"""Of all hosts together."""
PATIENCE_SECONDS = 120.0
MEGABYTE = 1_000_000


def environment(scratch: Path, name: str) -> dict[str, str]:
    """What a host finds its cache and its line by."""
    return {CACHE: str(scratch / "cache" / name), LINE: str(scratch / f"line-{name}")}


def addresses(parameters: Parameters) -> tuple[str, ...]:
    """Of the ``hosts``: 1 or 2."""
    return ADDRESSES[: parameters["hosts"]]


def memory_mb(parameters: Parameters) -> int:
    """Of each host."""
    return int(parameters["host_memory_mb"]) * CORES // len(addresses(parameters))


@contextmanager
def cluster(parameters: Parameters) -> Iterator[Loopback]:
    """The hosts, as long as the context lasts."""
    scratch = Path(parameters["scratch"])
    hosts = [
        Host(
            address=address,
            cores=CORES // len(addresses(parameters)),
            memory_mb=memory_mb(parameters),
            environment=environment(scratch, address),
        )
        for address in addresses(parameters)
    ]
    with loopback(scratch / "cluster", hosts) as made:
        yield made


def session(url: str, parameters: Parameters) -> Any:
    """A session on the cluster, with all executors there.

    Copies of slow tasks are off, and tasks wait for the host on which their state is: otherwise a
    task that fetches would be copied to, or begun on, the other host, and state would travel for
    another reason than the change.
    """
    os.environ.update(environment(Path(parameters["scratch"]), "driver"))
    spark = rc.session(url, speculation=False, **_named(settings(parameters)))
    until = time.monotonic() + PATIENCE_SECONDS
    known = spark_cluster(spark)
    while len(known.executors()) < len(addresses(parameters)):
        if time.monotonic() > until:
            raise RuntimeError(f"executors did not come within {PATIENCE_SECONDS:g} s")
        time.sleep(0.05)
    return spark


def settings(parameters: Parameters) -> dict[str, str]:
    """Session settings, for every side."""
    shared = shared_settings({**parameters, "cores": 1})
    del shared["spark.master"]
    memory = f"{memory_mb(parameters) - 100}m"
    return {
        **shared,
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": memory,
        "spark.locality.wait": "10s",
    }


def _named(found: Mapping[str, str]) -> dict[str, Any]:
    return {name.replace(".", "__"): value for name, value in found.items()}


def store(parameters: Parameters) -> SharedStore:
    """The shared store in ``scratch``, reached through lines of ``bandwidth_mb`` MB/s."""
    scratch = Path(parameters["scratch"])
    slow = ThrottledStore(
        LocalStore(scratch / "state", Durability(parameters["durability"])),
        bandwidth=parameters["bandwidth_mb"] * MEGABYTE,
        line=f"${LINE}",
    )
    return SharedStore(slow, cache=str(scratch / "cache" / "other"))
