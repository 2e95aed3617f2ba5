"""Real Kafka brokers on loopback, each a controller too (KRaft)."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.real.components.jars import resolved

ARCHIVES = ("org.apache.kafka:kafka_2.13:4.4.0", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.5")
READY_S = 180.0

PROPERTIES = """process.roles=broker,controller
node.id={id}
controller.quorum.voters={voters}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
offsets.topic.num.partitions=1
offsets.topic.replication.factor={copies}
default.replication.factor={copies}
min.insync.replicas={least}
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor={copies}
transaction.state.log.min.isr={least}
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor={copies}
share.coordinator.state.topic.min.isr={least}
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=1500
broker.heartbeat.interval.ms=300
auto.create.topics.enable=false
log.retention.hours=-1
log.retention.check.interval.ms=500
log.initial.task.delay.ms=100
log.cleaner.backoff.ms=200
"""

LOGGING = """Configuration:
  status: warn
  Appenders: {Console: {name: C, PatternLayout: {pattern: "%d %p %c %m%n"}}}
  Loggers: {Root: {level: WARN, AppenderRef: {ref: C}}}
"""


def free_port() -> int:
    """Return a port that nothing listened on just now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def archives() -> Path:
    """Return the folder with the broker's classes."""
    return resolved("kafka", *ARCHIVES)


class Broker:
    """One broker. Its data outlive a kill."""

    def __init__(self, folder: Path, number: int, host: str, more: Mapping[str, object]) -> None:
        """folder: for its settings, data and log. number: from 1. host: the address where it listens.

        more: properties beside those of all tests, or in their place.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self.number, self.host, self._more = folder, number, host, more
        self.port, self.controller = free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._classes = f"{folder}:{archives()}/*"

    def start(self, voters: str, copies: int) -> None:
        """Start it. voters: addresses of all controllers. copies: of each partition."""
        properties = self._folder / "server.properties"
        if not properties.exists():
            said = PROPERTIES.format(
                id=self.number,
                host=self.host,
                voters=voters,
                port=self.port,
                controller=self.controller,
                copies=copies,
                least=max(1, copies - 1),
                data=self._folder / "data",
            )
            said += "".join(f"{name}={value}\n" for name, value in self._more.items())
            properties.write_text(said)
            (self._folder / "log4j2.yaml").write_text(LOGGING)
            self._tool(
                "kafka.tools.StorageTool", "format", "--cluster-id", "rechannel-test-cluster0",
                "--config", str(properties),
            )  # fmt: skip
        self._log = (self._folder / "broker.log").open("ab")
        command = self._java("-Xms256m", "-Xmx512m", "kafka.Kafka", str(properties))
        self._process = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT)

    def wait_until_ready(self) -> None:
        """Wait until it answers."""
        deadline = time.monotonic() + READY_S
        while not self._answers():
            ended = self._process is None or self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                said = (self._folder / "broker.log").read_text(errors="replace")[-3_000:]
                self.end(signal.SIGKILL)
                raise RuntimeError(f"the broker did not start:\n{said}")
            time.sleep(0.1)

    def end(self, number: int) -> None:
        """End its process with a signal."""
        if self._process is not None:
            self._process.send_signal(number)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(30)
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def _java(self, *arguments: str) -> list[str]:
        options = [each for each in arguments if each.startswith("-X")]
        rest = [each for each in arguments if not each.startswith("-X")]
        quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        return ["java", *options, *quick, "-cp", self._classes, *rest]

    def _tool(self, *arguments: str) -> None:
        command = self._java("-Xmx256m", *arguments)
        done = subprocess.run(command, capture_output=True, text=True, timeout=READY_S, check=False)
        if done.returncode:
            raise RuntimeError(f"{arguments[0]} failed:\n{done.stdout}\n{done.stderr}")

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection((self.host, self.port), 1.0):
            client = AdminClient({"bootstrap.servers": f"{self.host}:{self.port}", "log_level": 0})
            try:
                return self.number in client.list_topics(timeout=5).brokers
            except KafkaException:
                return False
        return False


class Kafka:
    """One broker, or several that have a copy of every partition each."""

    def __init__(
        self,
        folder: Path,
        brokers: int = 1,
        host: str = "127.0.0.1",
        more: Mapping[str, object] | None = None,
    ) -> None:
        """folder: for settings, data and logs. host: the address where they listen. more: further properties."""
        numbers = range(1, brokers + 1)
        self._brokers = [Broker(folder / str(n), n, host, more or {}) for n in numbers]
        self._voters = ",".join(f"{b.number}@{host}:{b.controller}" for b in self._brokers)
        self._admin: AdminClient | None = None

    @property
    def bootstrap(self) -> str:
        """Addresses."""
        return ",".join(f"{broker.host}:{broker.port}" for broker in self._brokers)

    def start(self, number: int | None = None) -> None:
        """Start all brokers, or one, and wait until they answer."""
        some = [b for b in self._brokers if number in (None, b.number)]
        for broker in some:
            broker.start(self._voters, len(self._brokers))
        for broker in some:
            broker.wait_until_ready()

    def kill(self, number: int | None = None) -> None:
        """Take the processes of all brokers, or of one, away."""
        for broker in self._brokers:
            if number in (None, broker.number):
                broker.end(signal.SIGKILL)

    def stop(self) -> None:
        """Have them end orderly."""
        for broker in self._brokers:
            broker.end(signal.SIGTERM)

    def admin(self) -> AdminClient:
        """Return the client. What it is asked ends with it, so there is one."""
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        return self._admin

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        """Create a topic."""
        settings = {name.replace("_", "."): value for name, value in config.items()}
        made = NewTopic(topic, partitions, len(self._brokers), config=settings)
        for attempt in range(100):  # a topic that was just deleted may still be in the way
            try:
                self.admin().create_topics([made])[topic].result(30)
                break
            except KafkaException:
                if attempt == 99:
                    raise
                time.sleep(0.1)
        self._settled(topic, partitions)

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Have a topic have more partitions."""
        self.admin().create_partitions([NewPartitions(topic, partitions)])[topic].result(30)
        self._settled(topic, partitions)

    def wait_until_in_sync(self) -> None:
        """Wait until every broker has every partition, so that any one of them may be killed."""
        deadline, behind = time.monotonic() + READY_S, ["all"]
        while time.monotonic() < deadline:
            with suppress(KafkaException):
                topics = self.admin().list_topics(timeout=10).topics.values()
                behind = [
                    f"{topic.topic}/{each.id}"
                    for topic in topics
                    for each in topic.partitions.values()
                    if len(each.isrs) < len(self._brokers)
                ]
                if not behind:
                    return
            time.sleep(0.2)
        raise RuntimeError(f"brokers lag behind after {READY_S:g} s: {behind[:5]}")

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self.admin().delete_topics([topic])[topic].result(30)

    def _settled(self, topic: str, partitions: int) -> None:
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            found = self.admin().list_topics(topic, timeout=10).topics[topic].partitions
            if len(found) >= partitions and all(each.leader >= 0 for each in found.values()):
                return
            time.sleep(0.05)
        raise RuntimeError(f"topic {topic!r} has no {partitions} partitions with leaders")
