"""The surroundings of a soak, and what can be done to them. Each fault says whether it has happened."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psutil

from rechannel.testing.loopback import Host
from rechannel.testing.namespaces import Namespaces, network
from tests.real.components.kafka import Kafka
from tests.real.components.proxy import Faults, Proxy
from tests.real.components.s3 import S3
from tests.real.soak.schedule import HOSTS, Event, Kind
from tests.real.soak.topics import INPUTS, MOST_PARTITIONS, Feed, create
from tests.spark.children import environment

MEMORY_MB = 700
CUT_S, SLOW_S = 30.0, 20.0
SLOW = Faults(latency_s=0.15, refused=0.15)
TIMEOUT = "-Dspark.worker.timeout=24"
CALM = {"log.retention.check.interval.ms": 60_000, "log.cleaner.backoff.ms": 15_000}
"""Of brokers: other tests wait for retention, and have few partitions."""
KNOCK = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 2.0)"


@dataclass
class World:
    """Brokers, a store behind a proxy, and hosts."""

    cluster: Namespaces
    kafka: Kafka
    s3: S3
    proxy: Proxy
    port: int
    """Of the proxy."""
    ends: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    """Faults that last: when they end, by the monotonic clock, and how."""

    @property
    def store(self) -> dict[str, str]:
        """What clients find the store by."""
        return self.s3.environment(self.port, self.cluster.network.driver)

    def end_faults(self, *, at_once: bool = False) -> None:
        """End the faults whose time has come, or all."""
        now = time.monotonic()
        for each in [*self.ends]:
            if at_once or each[0] <= now:
                self.ends.remove(each)
                each[1]()

    def executors(self, host: int) -> list[psutil.Process]:
        """Executors' JVMs on a host."""
        address = self.cluster.network.hosts[host]
        return [
            process
            for process in processes(self.cluster.network.processes(address))
            if "CoarseGrainedExecutorBackend" in command(process)
        ]


def processes(ids: list[int]) -> Iterator[psutil.Process]:
    """Return those that still exist."""
    for each in ids:
        try:
            yield psutil.Process(each)
        except psutil.NoSuchProcess:
            continue


def command(process: psutil.Process) -> str:
    """Return the command line of a process; "" if it has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@contextmanager
def world(place: Path) -> Iterator[World]:
    """Start everything; it ends with the context."""
    with ExitStack() as undo:
        made = undo.enter_context(network(HOSTS))
        path = environment()["PYTHONPATH"]
        around = {"PYTHONPATH": path, "SPARK_MASTER_OPTS": TIMEOUT, "SPARK_WORKER_OPTS": TIMEOUT}
        cluster = Namespaces(place / "cluster", around, made)
        undo.callback(cluster.stop)
        hosts = [
            Host(
                address=each,
                memory_mb=MEMORY_MB,
                # The hosts share this machine's disk, but not their caches.
                environment={"RECHANNEL_CACHE_DIR": str(place / f"cache-{number}")},
            )
            for number, each in enumerate(made.hosts)
        ]
        cluster.add(*hosts)
        kafka = Kafka(place / "kafka", brokers=HOSTS, host=made.driver, more=CALM)
        undo.callback(kafka.kill)
        kafka.start()
        create(kafka)
        (place / "s3").mkdir()
        s3 = S3(place / "s3")
        undo.callback(s3.kill)
        s3.start()
        proxy = Proxy(s3.port, host=made.driver)
        port = proxy.start()
        undo.callback(proxy.stop)
        yield World(cluster=cluster, kafka=kafka, s3=s3, proxy=proxy, port=port)


def kill_executor(around: World, _feed: Feed, event: Event) -> str:
    """Kill an executor, on the host of the event or on a later one."""
    for number in range(event.host, HOSTS):
        for victim in around.executors(number):
            victim.kill()
            victim.wait(30)
            return f"of host {number}"
    return ""


def kill_broker(around: World, _feed: Feed, event: Event) -> str:
    """Kill a broker, and start it again some seconds later."""
    choose = Random(event.seed)
    around.kafka.wait_until_in_sync()
    number = choose.randrange(HOSTS) + 1
    around.kafka.kill(number)
    time.sleep(choose.uniform(0, 5.0))
    around.kafka.start(number)
    return f"number {number}"


def cut_host(around: World, _feed: Feed, event: Event) -> str:
    """Have a host hear nothing of the driver, the brokers and the store for half a minute."""
    net = around.cluster.network
    host, driver = net.hosts[event.host], net.driver
    net.cut(host, driver)
    around.ends.append((time.monotonic() + CUT_S, lambda: net.heal(host, driver)))
    knock = [*net.there(host), sys.executable, "-c", KNOCK, driver, str(around.port)]
    heard = subprocess.run(knock, capture_output=True, check=False, timeout=60)
    return "" if heard.returncode == 0 else f"host {event.host}"


def slow_store(around: World, _feed: Feed, _event: Event) -> str:
    """Have the store answer late, and refuse some requests (503)."""
    before = around.proxy.did["refused"]
    around.proxy.faults = SLOW

    def end() -> None:
        around.proxy.faults = Faults()

    around.ends.append((time.monotonic() + SLOW_S, end))
    deadline = time.monotonic() + SLOW_S
    while time.monotonic() < deadline and around.proxy.did["refused"] == before:
        time.sleep(0.1)
    refused = around.proxy.did["refused"] - before
    return f"{refused} refused" if refused else ""


def add_partition(around: World, feed: Feed, event: Event) -> str:
    """Give a topic one more partition."""
    topic = INPUTS[event.seed % len(INPUTS)]
    more = feed.partitions[topic] + 1
    if more > MOST_PARTITIONS:
        return ""
    around.kafka.wait_until_in_sync()
    around.kafka.add_partitions(topic, more)
    feed.partitions[topic] = more
    return f"{topic} has {more}"


def bad_records(_around: World, feed: Feed, event: Event) -> str:
    """Produce records that cannot be read."""
    number = 1 + event.seed % 50
    feed.spoil(number)
    return f"{number}"


FAULTS: dict[Kind, Callable[[World, Feed, Event], str]] = {
    Kind.KILL_EXECUTOR: kill_executor,
    Kind.KILL_BROKER: kill_broker,
    Kind.CUT_HOST: cut_host,
    Kind.SLOW_STORE: slow_store,
    Kind.ADD_PARTITION: add_partition,
    Kind.BAD_RECORDS: bad_records,
}
"""Each returns what it did, "" if that had no effect."""
