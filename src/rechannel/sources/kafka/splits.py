"""Ranges of offsets, read by tasks.

A worker keeps a consumer for each partition that it has read lately: the next range of it usually begins where the last
one has ended, and the client has fetched its records by then. Every wait is bounded: a range that gives nothing for
`wait_s` fails its task, and the driver runs the timestep again, as with a store that does not answer. The threads of
librdkafka can wait for each other for ever when a broker goes away (its issue 5476). `assign` would then wait with them
and keep every other thread of the process from running. So a consumer is assigned once, when it is new; for a range
that begins elsewhere, another one is made, and none is waited for when it is closed.

Records are taken some hundreds at a time, and only what is asked of them is kept. Python looks for garbage whenever so
many objects are added that may refer to others. If the client's records were held, it would look at them again and
again, for a third of the time that reading takes.

Offsets have gaps, where transactions end and where a log is compacted, so a range ends with a record at or after its
end, or with the end of the partition. No record is taken twice, whatever the client gives.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import lt
from typing import Any

import pyarrow as pa

from rechannel.errors import SetUpError, SourceError, StorageError
from rechannel.logs import fields
from rechannel.sources.kafka.columns import HEADERS, RECORD
from rechannel.sources.reader import Split, SplitReader
from rechannel.threads import daemon_thread

_LOG = logging.getLogger("rechannel")

BATCH_RECORDS = 50_000
RECORDS_AT_ONCE = 500
"""Fewer than the objects after which Python looks for garbage by default (700)."""
BATCH_BYTES = 16 << 20
"""Of keys and values, after which a batch is complete."""
QUEUE_KB = 4 << 10
"""Kilobytes that a consumer fetches ahead."""
POLL_S = 0.1
KEPT = 32
"""Consumers that a worker keeps. If there are fewer than partitions, what they have fetched ahead is thrown away."""


@dataclass(slots=True)
class _Consumer:
    """A consumer of one partition."""

    client: Any
    at: int
    """Offset that it gives next; -1 = anywhere."""
    pending: list[Any] = field(default_factory=list)
    """Records that it has given and that were after the end of the range."""
    ended: int = -1
    """Offset of the end of the partition that it has told last, after all records before it; it tells an end once."""


_Key = tuple[tuple[tuple[str, str], ...], str, str, int]

_LOCK = threading.Lock()
_KEPT: OrderedDict[_Key, _Consumer] = OrderedDict()


@dataclass(frozen=True, kw_only=True)
class KafkaSplits:
    """Reads ranges of partitions."""

    client: Mapping[str, str]
    isolation: str
    wait_s: float
    columns: tuple[str, ...]
    skips: bool = False
    """Whether records that are gone are left out."""
    gone: frozenset[str] = frozenset()
    """Topics that were deleted since the ranges were planned."""

    def only(self, columns: tuple[str, ...]) -> SplitReader:
        """Return a reader of these columns, in this order."""
        return replace(self, columns=columns)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range. Raises StorageError without an answer, SourceError if records are gone."""
        if split["topic"] in self.gone:
            _LOG.warning(
                "the records of %s are gone: they are left out",
                _shown(split),
                extra=fields("records_gone"),
            )
            return
        # The id of a topic tells it from an earlier one of its name; ranges of earlier releases have none.
        settings = tuple(sorted(self._settings().items()))
        key = (settings, split["topic"], split.get("id", ""), split["partition"])
        with _LOCK:
            consumer = _KEPT.pop(key, None)
        if consumer is not None and consumer.at != split["start"]:
            _close(consumer.client)
            consumer = None
        if consumer is None:
            consumer = self._assigned(split, split["start"])
        reading = _Range(consumer, split, self.wait_s, self._assigned, self._made, skips=self.skips)
        try:
            yield from self._batches(reading, split)
        except BaseException:  # a generator that is closed before its end, too
            _close(reading.consumer.client)
            raise
        with _LOCK:
            _KEPT[key] = reading.consumer
            surplus = [_KEPT.popitem(last=False)[1] for _ in range(len(_KEPT) - KEPT)]
        for each in surplus:
            _close(each.client)

    def _settings(self) -> dict[str, str]:
        return {
            "group.id": "rechannel",
            "queued.min.messages": "100000",
            "queued.max.messages.kbytes": str(QUEUE_KB),
            "fetch.queue.backoff.ms": "5",
            "fetch.wait.max.ms": "50",
            **self.client,
            "isolation.level": self.isolation,
            "enable.auto.commit": "false",
            "enable.auto.offset.store": "false",
            "enable.partition.eof": "true",
            "auto.offset.reset": "error",
        }

    def _assigned(self, split: Split, at: int) -> _Consumer:
        """Return a new consumer of a partition that begins at an offset. Raises SetUpError, SourceError."""
        consumer = _Consumer(self._made(), at)
        from confluent_kafka import KafkaException, TopicPartition

        try:
            consumer.client.assign([TopicPartition(split["topic"], split["partition"], at)])
        except KafkaException as error:
            _close(consumer.client)
            where = f"{split['topic']}/{split['partition']}"
            msg = f"{where} cannot be read at offset {at}: {error.args[0].str()}"
            raise SourceError(msg) from error
        return consumer

    def _made(self) -> Any:
        try:
            import confluent_kafka
        except ImportError as error:
            from rechannel.sources.kafka.brokers import MISSING

            raise SetUpError(f"{MISSING}, on every executor") from error
        return confluent_kafka.Consumer(self._settings())

    def _batches(self, reading: _Range, split: Split) -> Iterator[pa.RecordBatch]:
        held = _Held(self.columns)
        for got in reading.records():
            held.add(got)
            del got
            if held.count >= BATCH_RECORDS or held.size >= BATCH_BYTES:
                yield held.batch(split)
                held = _Held(self.columns)
        if held.count:
            yield held.batch(split)


class _Held:
    """What is asked of some records, by column."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._columns = columns
        self._values: dict[str, list[Any]] = {name: [] for name in columns if name in _TAKEN}
        self.count = self.size = 0
        """Records, and bytes of their values."""

    def add(self, records: list[Any]) -> None:
        for name, values in self._values.items():
            values.extend(_TAKEN[name](records))
        self.count += len(records)
        self.size += sum(map(len, records))

    def batch(self, split: Split) -> pa.RecordBatch:
        schema = _schema(self._columns)
        columns = [self._column(field, split) for field in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _column(self, field: pa.Field, split: Split) -> pa.Array:
        if field.name not in self._values:  # it is the same in the whole range
            return pa.repeat(pa.scalar(split[field.name], field.type), self.count)
        values = self._values[field.name]
        if field.name == "timestamp":
            return pa.array(values, pa.timestamp("ms", "UTC")).cast(field.type)
        return pa.array(values, field.type)


class _Range:
    """Reads one range with a consumer."""

    def __init__(
        self,
        consumer: _Consumer,
        split: Split,
        wait_s: float,
        assigned: Callable[[Split, int], _Consumer],
        made: Callable[[], Any],
        *,
        skips: bool = False,
    ) -> None:
        """assigned: makes a consumer of the partition that begins at an offset. made: makes one of no partition."""
        self.consumer, self._assigned, self._made = consumer, assigned, made
        self._split = split
        self._at, self._stop, self._wait_s = split["start"], split["stop"], wait_s
        self._until, self._skips = 0.0, skips
        self._first = -1
        """Offset of the first record that is there, if some before it are gone."""
        self._given = split["start"] - 1
        """Offset of the last record that was given."""

    @property
    def _where(self) -> str:
        return f"{self._split['topic']}/{self._split['partition']}"

    def records(self) -> Iterator[list[Any]]:
        """Yield the records of the range, in order. Raises StorageError, SourceError."""
        from confluent_kafka import KafkaException

        self.consumer.at = -1  # until the range is read
        reached = -1
        try:
            while self._at < self._stop:
                if self._at > reached:
                    reached, self._until = self._at, time.monotonic() + self._wait_s
                got = self._within(self._without_events(self._fetched()))
                if got:
                    yield got
            self.consumer.at = max(self._stop, self._first)
        except KafkaException as error:
            raise self._unreadable(error.args[0]) from error

    def _fetched(self) -> list[Any]:
        """Return what the client has: at least one record or event, unless it has told that the range ends."""
        pending, self.consumer.pending = self.consumer.pending, []
        if pending:
            return pending
        if self.consumer.ended >= self._stop:
            self._at = self._stop
            return []
        # With a time-out, `consume` would wait for as many records as there are offsets, and some have none.
        got: list[Any] = self.consumer.client.consume(
            min(RECORDS_AT_ONCE, self._stop - self._at), 0
        )
        while not got:
            if time.monotonic() > self._until:
                msg = (
                    f"{self._where}: the brokers gave no record from offset {self._at} on, of a range that ends at"
                    f" {self._stop}, within {self._wait_s:g} s"
                )
                raise StorageError(msg)
            one = self.consumer.client.poll(POLL_S)
            got = [] if one is None else [one]
        return got

    def _without_events(self, got: list[Any]) -> list[Any]:
        """Return the records alone. The end of a partition moves the offset that is next."""
        from confluent_kafka import KafkaError

        events = [each for each in got if each.error() is not None]
        for each in events:
            error = each.error()
            if error.code() == KafkaError._PARTITION_EOF:
                self.consumer.ended = each.offset()
                self._at = max(self._at, each.offset())
            elif error.code() == KafkaError._AUTO_OFFSET_RESET and self._skips:
                self._skip()
                return []
            elif not error.retriable():
                raise self._unreadable(error)
        return [each for each in got if each.error() is None] if events else got

    def _within(self, got: list[Any]) -> list[Any]:
        """Return the records before the end of the range; the others are for the next one."""
        got = self._each_once(got)
        if not got:
            return got
        if got[-1].offset() < self._stop:
            self._at = max(self._at, got[-1].offset() + 1)
            return got
        self.consumer.pending = [each for each in got if each.offset() >= self._stop]
        self._at = self._stop
        return got[: len(got) - len(self.consumer.pending)]

    def _each_once(self, got: list[Any]) -> list[Any]:
        """Return records without those that were given before.

        When leaders change, clients of some releases have begun again with records that they had given already
        (librdkafka 2.1.0 and those before 2.4, see its issues 4261 and 4636).
        """
        offsets = [each.offset() for each in got]
        rise = all(map(lt, offsets, offsets[1:]))
        if got and not (rise and offsets[0] > self._given):
            given, again, before = list[Any](), list[int](), self._given
            for each, offset in zip(got, offsets, strict=True):
                if offset > before:
                    given.append(each)
                    before = offset
                else:
                    again.append(offset)
            _LOG.warning(
                "%s: the client gave %d records again, the first one at offset %d: they are left out",
                self._where,
                len(again),
                again[0],
                extra=fields("records_again"),
            )
            got = given
        if got:
            self._given = got[-1].offset()
        return got

    def _skip(self) -> None:
        """Go on with the first record that is there, or at the end of a partition that has become shorter.

        Raises StorageError if the brokers do not tell, or tell that the record should be there.
        """
        low, high = self._watermarks()
        # Before that, the error may be one of what was asked for earlier.
        late = time.monotonic() > self._until
        first = max(low, self._at)
        if late and self._at > high:
            first = self._stop
        elif late and low <= self._at:
            msg = f"{self._where} cannot be read at offset {self._at}, and begins at {low}"
            raise StorageError(msg)
        if first > self._at:
            what = "%s: the records from offset %d to %d are gone and are left out"
            _LOG.warning(
                what, self._where, self._at, min(first, self._stop), extra=fields("records_gone")
            )
        self._first = first
        _close(self.consumer.client)
        self.consumer = self._assigned(self._split, first)
        self._at = min(first, self._stop)

    def _watermarks(self) -> tuple[int, int]:
        """Return the offsets of the first record and after the last one. Raises StorageError.

        A new consumer asks: that of the partition may wait for its own threads for ever.
        """
        from confluent_kafka import KafkaException, TopicPartition

        part = TopicPartition(self._split["topic"], self._split["partition"])
        asking = self._made()
        try:
            low, high = asking.get_watermark_offsets(part, self._wait_s)
        except KafkaException as error:
            msg = f"{self._where}: the brokers do not say which records there are: {error.args[0].str()}"
            raise StorageError(msg) from error
        finally:
            _close(asking)
        if min(low, high) < 0:  # amid a change of leaders
            msg = f"{self._where}: the brokers do not say which records there are"
            raise StorageError(msg)
        return low, high

    def _unreadable(self, error: Any) -> SourceError:
        where = f"at offset {self._at}, of a range that ends at {self._stop}"
        gone = "" if self._skips else f". {_IF_GONE}"
        return SourceError(f"{self._where} cannot be read {where}: {error.str()}{gone}")


_IF_GONE = "If its records are gone, restore them, or start with kafka(..., on_lost='skip') to go on without them"


def _shown(split: Split) -> str:
    return f"{split['topic']}/{split['partition']} from offset {split['start']} to {split['stop']}"


def _close(client: Any) -> None:
    """Close a consumer, in a thread that may never come to its end."""
    daemon_thread(client.close, "rechannel-kafka-close").start()


def _schema(columns: tuple[str, ...]) -> pa.Schema:
    every = RECORD.append(HEADERS)
    return pa.schema([every.field(name) for name in columns])


def _timestamps(records: list[Any]) -> list[int | None]:
    """Unix milliseconds; None where a record has no time."""
    times = [m.timestamp() for m in records]
    return [millis if kind else None for kind, millis in times]


def _headers(records: list[Any]) -> list[list[dict[str, Any]] | None]:
    named = [m.headers() for m in records]
    return [None if of is None else [{"key": k, "value": v} for k, v in of] for of in named]


_TAKEN = {
    "key": lambda records: [m.key() for m in records],
    "value": lambda records: [m.value() for m in records],
    "offset": lambda records: [m.offset() for m in records],
    "timestamp": _timestamps,
    "headers": _headers,
}
"""What is taken of records, by column."""
