"""The topics of a soak: a producer at a steady rate, and a consumer that reads what is committed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.real.components.kafka import Kafka
from tests.real.soak.records import DifferenceError, Seen, bad_value, value

INPUTS = ("in-a", "in-b")
COPIES, TOTALS, LETTERS = "copies", "totals", "letters"
PARTITIONS, MOST_PARTITIONS = 12, 24
PATIENCE_S = 600.0
TURN_S = 0.1
NOT_YET = (KafkaError._UNKNOWN_PARTITION, KafkaError._QUEUE_FULL)


def create(kafka: Kafka) -> None:
    """Create all topics."""
    for topic in (*INPUTS, COPIES, TOTALS, LETTERS):
        kafka.create(topic, PARTITIONS)


class Feed:
    """A thread that produces records. What it has counted is in the topics after `pause`."""

    def __init__(self, bootstrap: str, rate: int) -> None:
        """rate: records per second."""
        self._rate = rate
        self.partitions = dict.fromkeys(INPUTS, PARTITIONS)
        self.records = self.bad = 0
        self.failure: Exception | None = None
        self._lock, self._over = threading.Lock(), threading.Event()
        # Idempotent: a record that is sent again because a broker died is there once.
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "compression.type": "lz4",
                "linger.ms": 300,
                "delivery.timeout.ms": int(PATIENCE_S * 1e3),
                # It hears of new partitions in seconds, not in minutes.
                "topic.metadata.refresh.interval.ms": 5_000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def pause(self) -> None:
        """Hold the thread until `resume`, and wait until everything is acknowledged."""
        self._lock.acquire()
        left = self._producer.flush(PATIENCE_S)
        if self.failure is not None or left:
            raise RuntimeError(f"{left} records were not taken by the brokers: {self.failure}")

    def resume(self) -> None:
        """Go on."""
        self._lock.release()

    def spoil(self, number: int) -> None:
        """Produce some bad records."""
        with self._lock:
            for _ in range(number):
                self._put(bad_value(self.bad), self.bad)
                self.bad += 1

    def stop(self) -> None:
        """End the thread."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(30)

    def _run(self) -> None:
        try:
            while not self._over.wait(TURN_S):
                with self._lock:
                    for _ in range(round(self._rate * TURN_S)):
                        self._put(value(self.records), self.records)
                        self.records += 1
                    self._producer.poll(0)
        except Exception as error:
            self.failure = error

    def _put(self, record: bytes, number: int) -> None:
        topic = INPUTS[number % 2]
        partition = number // 2 % self.partitions[topic]
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._producer.produce(
                    topic, record, partition=partition, on_delivery=self._delivered
                )
                break
            except (BufferError, KafkaException) as error:
                # The client has not heard of a new partition yet, or the brokers are slow.
                known = isinstance(error, BufferError) or error.args[0].code() in NOT_YET
                if not known or time.monotonic() > deadline:
                    raise
                self._producer.poll(0.1)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self.failure = RuntimeError(str(error))


class Readers:
    """A consumer of what is committed, that goes on where it was."""

    def __init__(self, bootstrap: str, seen: Seen, inputs: Mapping[str, int]) -> None:
        """seen: takes what is read. inputs: partitions of the topics of the input, which may become more."""
        self.seen, self._inputs = seen, inputs
        self._take: dict[str, Callable[[bytes, bytes], None]] = {
            **dict.fromkeys(INPUTS, lambda _key, value: seen.given(value)),
            COPIES: lambda _key, value: seen.copy(json.loads(value)),
            TOTALS: lambda key, value: seen.total(key, json.loads(value)),
            LETTERS: lambda _key, value: seen.letter(json.loads(value)),
        }
        self._settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": "soak",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "queued.max.messages.kbytes": 8 << 10,
            "log_level": 0,
        }
        self._next: dict[tuple[str, int], int] = {}

    def read(self) -> int:
        """Read all there is now, the input before the output. Returns the number of records.

        By consumers of their own: one that was assigned before may hang when brokers go away (librdkafka 5476).
        """
        outputs = dict.fromkeys((COPIES, TOTALS, LETTERS), PARTITIONS)
        return sum(map(self._read, (self._inputs, outputs)))

    def _read(self, topics: Mapping[str, int]) -> int:
        places = [(topic, each) for topic, count in topics.items() for each in range(count)]
        consumer = Consumer(self._settings)
        try:
            consumer.assign([TopicPartition(*place, self._next.get(place, 0)) for place in places])
            ended, taken, deadline = set[tuple[str, int]](), 0, time.monotonic() + PATIENCE_S
            while len(ended) < len(places):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"no end of what is committed after {PATIENCE_S:g} s")
                for message in consumer.consume(1_000, 0.5):
                    taken += self._one(message, ended)
            return taken
        finally:
            threading.Thread(target=consumer.close, daemon=True).start()

    def _one(self, message: Message, ended: set[tuple[str, int]]) -> int:
        place = (str(message.topic()), int(message.partition() or 0))
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                ended.add(place)
            return 0
        offset, (_, written_ms) = int(message.offset() or 0), message.timestamp()
        if offset < self._next.get(place, 0):
            return 0  # some clients give records again when leaders change
        ended.discard(place)
        try:
            self._take[place[0]](message.key() or b"", message.value() or b"null")
        except DifferenceError as difference:
            at = f"{place[0]}/{place[1]} at offset {offset}, written {written_ms} ms since 1970"
            raise DifferenceError(f"{at}: {difference}") from difference
        self._next[place] = offset + 1
        return 1
