"""Timesteps as transactions of Kafka.

A transaction has the rows of a timestep and, as the committed offset of a consumer group of the sink, the number of
the timestep: both are there or neither. So a driver that takes over knows whether the last transaction of the one
before was committed, and that one can commit nothing more: the transactional ids of the sink are fenced.

Brokers go on with a transaction after they have answered that it is committed: they write its markers. A producer has
to wait for that before its next one, and its client asks only every 20 ms or more. So two producers take turns.

The group's offset is that of partition 0 of the topic, and counts timesteps; its metadata is the digest of the
timestep. No consumer is ever a member of the group.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from rechannel.errors import (
    FencedError,
    NotPermittedError,
    RechannelError,
    RefusedError,
    StorageError,
)
from rechannel.sinks.batch import Batch
from rechannel.sinks.kafka.lost import LostBrokers
from rechannel.sinks.kafka.records import RecordColumns
from rechannel.sinks.marked import mark_name
from rechannel.sinks.marks import Holder, Mark
from rechannel.sinks.outlet import SinkContext
from rechannel.sinks.writer import Rows, Staged
from rechannel.threads import DaemonThreads

if TYPE_CHECKING:
    from rechannel.sinks.kafka.outlet import KafkaOutlet

T = TypeVar("T")

SETTINGS = {
    "enable.idempotence": "true",
    "linger.ms": "5",
    "batch.num.messages": "100000",
    "queue.buffering.max.messages": "500000",
    "queue.buffering.max.kbytes": "131072",
    "compression.type": "lz4",
    # Java's choice of a partition by key: streams that are joined by partition agree on it.
    "partitioner": "murmur2_random",
}
WAITS = 2
"""Times as long as the driver waits for an answer, a transaction may last. While brokers are away, the client gives up
some of its calls only then."""
AGAIN_S = 0.1
"""Between two tries to take the sink over."""
MOST_STUCK = 8
"""Calls that do not return, after which no further producers are made: each holds some 2 MB and 9 threads."""
FULL_S = 1.0
"""For how long a full queue is waited for at once."""
TURNS = ("", "/2")
"""What the transactional ids of a sink's producers add to its name; no sink's name has a slash."""


class KafkaWriter:
    """Writes to one topic."""

    durable = True

    def __init__(self, outlet: KafkaOutlet, columns: RecordColumns, context: SinkContext) -> None:
        """Connect to nothing yet."""
        import confluent_kafka

        self._kafka = confluent_kafka
        self._outlet, self._columns, self._context = outlet, columns, context
        self._id = mark_name(context)
        self._where = f"topic {outlet.topic!r} at {outlet.bootstrap}"
        self._holder = Holder(
            where=self._where,
            name=self._id,
            elsewhere="another topic",
            stays="records of a topic cannot be removed",
        )
        self._producers: list[Any] = []
        """Which take turns; the first one has the open transaction, or the next."""
        self._mark: Mark | None = None
        self._compared = False
        """Whether the first mark that was read has been compared with the journal."""
        self._given_up: Mark | None = None
        """The mark of another history, which the user wants published over."""
        self._begun_s: float | None = None
        """When the transaction that is open has begun, on the monotonic clock."""
        self._open: Batch | None = None
        """The timestep of the transaction that is open."""
        self._doubtful: Batch | None = None
        """The timestep of a transaction that may have been committed."""
        self._lost = LostBrokers()
        self._stuck: list[Future[object]] = []
        """Calls that have not returned, each with its producer."""
        self._caller: DaemonThreads | None = None
        """A thread for calls that may not return."""
        self._group: Any = None
        """What a transaction names its group by; the same for ever, since no consumer is a member."""
        self._failed: str = ""
        """What the brokers said of a record, at least once."""

    def begin(self) -> None:
        """Take the sink over, and compare what the topic has with the journal. See `SinkWriter`."""
        self._connected()

    def stage(self, rows: Rows, batch: Batch) -> Staged:
        """Send the rows of a timestep in a transaction that stays open. See `SinkWriter`."""
        producer = self._connected()
        if self._outlet.exactly_once and self._holder.is_published(self._mark, batch):
            return {}
        try:
            if self._outlet.exactly_once:
                producer.begin_transaction()
                self._begun_s = time.monotonic()
            self._open = batch
            for key, value, at_ms in self._records(rows):
                self._send(producer, key, value, at_ms)
        except self._kafka.KafkaException as error:
            self._give_up(error)
        except BaseException:
            self._drop()
            raise
        return {}

    def _records(self, rows: Rows) -> Iterator[tuple[bytes | None, bytes | None, int | None]]:
        if self._outlet.changes:
            yield from self._columns.changed(rows.table(), self._outlet.changes, self._where)
            return
        for each in rows.batches():
            yield from self._columns.records(each)

    def publish(self, staged: Staged, batch: Batch) -> None:
        """Commit the transaction, with the number of the timestep. See `SinkWriter`."""
        del staged
        if self._open != batch:
            if self._outlet.exactly_once and self._holder.is_published(self._mark, batch):
                return
            msg = (
                f"{self._where}: timestep {batch.timestep} was given up, since the sink was closed"
            )
            raise StorageError(msg)
        producer, wait_s = self._producers[0], self._outlet.wait_s
        if self._have_lost_a_broker():
            self._drop()
            raise StorageError(
                f"{self._where} does not take the rows: a broker went away; new producers try again"
            )
        try:
            if self._outlet.exactly_once:
                metadata = self._group_metadata()
                position = self._position(batch.timestep + 1, batch.digest)
                self._within(
                    lambda: producer.send_offsets_to_transaction([position], metadata, wait_s)
                )
                self._doubtful = batch
                self._within(lambda: producer.commit_transaction(wait_s))
            else:
                self._flush(producer)
        except self._kafka.KafkaException as error:
            self._give_up(error)
        except BaseException:
            self._drop()
            raise
        self._mark, self._open = Mark(batch.timestep, batch.digest), None
        self._begun_s = self._doubtful = None
        self._producers.append(self._producers.pop(0))

    def shows(self, batch: Batch) -> bool:
        """Return whether readers see a timestep; asks the brokers, if its transaction may have been committed.

        Raises StorageError until they answer.
        """
        if self._doubtful != batch:
            return False
        self._connected()
        return self._holder.is_published(self._mark, batch)

    def close(self) -> None:
        """Abort what is open, and close the connections."""
        self._drop()
        if self._caller is not None:
            self._caller.shutdown(wait=False)
            self._caller = None

    # The producers -------------------------------------------------------------------------------------

    def _connected(self) -> Any:
        """Return the producer whose turn it is. All have fenced earlier ones, which aborts what was left open."""
        # Or the attempt before has neither been published nor has it failed.
        if self._have_lost_a_broker() or self._open is not None:
            self._drop()
        if not self._producers:
            self._check_stuck()
            self._lost.renewed()
            told: dict[str, Any] = {"error_cb": self._lost.note}
            producers = [self._kafka.Producer(each | told) for each in self._settings()]
            try:
                self._patiently(lambda: self._check_topic(producers[0]))
                if self._outlet.exactly_once:
                    self._take_over(producers)
            except self._kafka.KafkaException as error:
                self._give_up(error)
            self._producers = producers
        return self._producers[0]

    def _settings(self) -> Iterator[dict[str, str]]:
        """Yield the settings of each producer."""
        settings = SETTINGS | self._outlet.client()
        if not self._outlet.exactly_once:
            yield settings
            return
        lasts = {"transaction.timeout.ms": str(int(self._lasts_s * 1e3))}
        for turn in TURNS:
            yield {**settings, **lasts, "transactional.id": self._id + turn}

    def _take_over(self, producers: list[Any]) -> None:
        """Fence all earlier producers, and only then see what they have committed."""
        for producer in producers:
            self._patiently(partial(producer.init_transactions, self._outlet.wait_s))
        mark = self._patiently(lambda: self._asking(self._marked))
        self._compare(mark)
        self._mark = None if mark == self._given_up else mark
        if self._doubtful is not None and not self._holder.is_published(self._mark, self._doubtful):
            self._doubtful = None  # the producers that could commit it are fenced

    def _compare(self, mark: Mark | None) -> None:
        """Compare the first mark with the journal. Raises RefusedError for that of another history."""
        if not self._compared and self._context.ledger is not None:
            self._given_up = self._holder.compared(mark, self._context.ledger())
        self._compared = True

    @property
    def _lasts_s(self) -> float:
        """How long a transaction may last, in seconds: the brokers abort it then."""
        given = self._outlet.client().get("transaction.timeout.ms")
        return WAITS * self._outlet.wait_s if given is None else float(given) / 1e3

    def _within(self, call: Callable[[], object]) -> None:
        """Make a call of the client, some of which do not keep their time-out (librdkafka issue 5456).

        Raises StorageError if it does not return. Its producer stays with it then, and the next one fences it.
        """
        self._caller = self._caller or DaemonThreads(1, "rechannel-kafka")
        made, waits_s = self._caller.submit(call), WAITS * self._outlet.wait_s
        try:
            made.result(waits_s)
        except TimeoutError as error:
            if made.done():
                raise
            self._caller.shutdown(wait=False)
            self._producers, self._open, self._caller = [], None, None
            self._stuck.append(made)
            late = f"a call of Kafka's client did not return within {waits_s:g} s"
            raise StorageError(f"{self._where}: {late}; a new producer tries again") from error

    def _have_lost_a_broker(self) -> bool:
        """Return whether the producers have lost a broker since they were made; see `lost.py`."""
        if not self._outlet.exactly_once:
            return False
        for each in self._producers:
            each.poll(0)
        return self._lost.new

    def _check_stuck(self) -> None:
        """Raise StorageError where too many calls have not returned: none can be ended, and each holds a producer."""
        self._stuck = [each for each in self._stuck if not each.done()]
        if len(self._stuck) >= MOST_STUCK:
            msg = (
                f"{self._where}: {len(self._stuck)} calls of Kafka's client do not return, with a producer each;"
                " another one is made once one of them does. If that lasts, end this process and start the job again"
            )
            raise StorageError(msg)

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Ask again while brokers change their roles, or end what an earlier producer has left open."""
        until = time.monotonic() + self._outlet.wait_s
        while True:
            try:
                return ask()
            except self._kafka.KafkaException as error:
                passes = type(self._meant(error.args[0])) is StorageError
                if not passes or time.monotonic() > until:
                    raise
                time.sleep(AGAIN_S)

    def _check_topic(self, producer: Any) -> None:
        found = producer.list_topics(self._outlet.topic, timeout=self._outlet.wait_s)
        problem = found.topics[self._outlet.topic].error
        if problem is not None:
            if problem.code() == self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise RefusedError(f"there is no {self._where}: create it, or correct its name")
            raise self._kafka.KafkaException(problem)

    def _send(
        self, producer: Any, key: bytes | None, value: bytes | None, at_ms: int | None
    ) -> None:
        while True:
            try:
                producer.produce(
                    self._outlet.topic,
                    value,
                    key,
                    on_delivery=None if self._outlet.exactly_once else self._delivered,
                    **({} if at_ms is None else {"timestamp": at_ms}),
                )
                return
            except BufferError:
                producer.poll(FULL_S)

    def _delivered(self, error: Any, _record: Any) -> None:
        if error is not None:
            self._failed = error.str()

    def _flush(self, producer: Any) -> None:
        left = producer.flush(self._outlet.wait_s)
        failed, self._failed = self._failed, ""
        if left or failed:
            self._drop()
            why = failed or f"{left} records were not acknowledged within {self._outlet.wait_s:g} s"
            raise StorageError(f"{self._where} does not take the rows: {why}")

    def _drop(self) -> None:
        """Close the producers, which aborts what is open; the next ones find out what was committed."""
        producers, self._producers, self._open = self._producers, [], None
        self._begun_s = None
        if not producers:
            return
        try:
            producers[0].purge()
            if self._outlet.exactly_once:
                producers[0].abort_transaction(1.0)
        except self._kafka.KafkaException:
            pass  # the next producer aborts it

    def _give_up(self, error: Any) -> NoReturn:
        meant, begun_s = self._meant(error.args[0]), self._begun_s
        self._drop()
        lasted_s = 0.0 if begun_s is None else time.monotonic() - begun_s
        if isinstance(meant, FencedError) and lasted_s > self._lasts_s:
            msg = (
                f"{self._where}: the brokers ended a transaction that lasted {lasted_s:.0f} s, longer than the"
                f" {self._lasts_s:g} s that it may last; a new one begins. If timesteps take that long to send, raise"
                " wait_s= or the option transaction.timeout.ms"
            )
            raise StorageError(msg) from error
        raise meant from error

    def _meant(self, error: Any) -> RechannelError:
        codes = self._kafka.KafkaError
        said, code = error.str(), error.code()
        if code in (codes._FENCED, codes.INVALID_PRODUCER_EPOCH, codes.PRODUCER_FENCED):
            return FencedError(f"another driver writes to {self._where} as {self._id!r}: {said}")
        if code in (
            codes.TOPIC_AUTHORIZATION_FAILED,
            codes.GROUP_AUTHORIZATION_FAILED,
            codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ):
            return NotPermittedError(
                f"{self._where} may not be written: {said}. Grant it, and start again"
            )
        if code == codes.MSG_SIZE_TOO_LARGE:
            return RefusedError(
                f"a row is larger than {self._where} takes: {said}; raise message.max.bytes of both"
            )
        return StorageError(f"{self._where} does not take the rows: {said}")

    # What the topic has ---------------------------------------------------------------------------------

    def _asking(self, ask: Callable[[Any], T]) -> T:
        settings = {"group.id": self._id, "enable.auto.commit": "false"}
        consumer = self._kafka.Consumer(self._outlet.client() | settings)
        try:
            return ask(consumer)
        finally:
            consumer.close()

    def _group_metadata(self) -> Any:
        """Return what a transaction names the sink's group by: a consumer is made for it only once."""
        if self._group is None:
            self._group = self._asking(lambda consumer: consumer.consumer_group_metadata())
        return self._group

    def _position(self, offset: int, metadata: str = "") -> Any:
        return self._kafka.TopicPartition(self._outlet.topic, 0, offset, metadata)

    def _marked(self, consumer: Any) -> Mark | None:
        (found,) = consumer.committed([self._position(-1)], self._outlet.wait_s)
        if found.error is not None:
            raise self._kafka.KafkaException(found.error)
        return Mark(found.offset - 1, found.metadata or "") if found.offset >= 0 else None
