"""Ranges of offsets, read by tasks.

A worker keeps a consumer for each partition that it has read lately: the next range of it usually begins where the last
one has ended, and the client has fetched its records by then. `range.py` reads one range.

Records are taken some hundreds at a time, and only what is asked of them is kept. Python looks for garbage whenever so
many objects are added that may refer to others. If the client's records were held, it would look at them again and
again, for a third of the time that reading takes.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from rechannel.errors import SetUpError, SourceError
from rechannel.logs import fields
from rechannel.sources.kafka.columns import HEADERS, RECORD
from rechannel.sources.kafka.range import Consumer, Range, close
from rechannel.sources.reader import Split, SplitReader

_LOG = logging.getLogger("rechannel")

BATCH_RECORDS = 50_000
BATCH_BYTES = 16 << 20
"""Of keys and values, after which a batch is complete."""
QUEUE_KB = 4 << 10
"""Kilobytes that a consumer fetches ahead."""
KEPT = 24
"""Consumers that a worker keeps: with three brokers, each has six threads and 14 descriptors. If there are fewer than
partitions, what they have fetched ahead is thrown away."""


_Key = tuple[tuple[tuple[str, str], ...], str, str, int]

_LOCK = threading.Lock()
_KEPT: OrderedDict[_Key, Consumer] = OrderedDict()


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
            close(consumer.client)
            consumer = None
        if consumer is None:
            consumer = self._assigned(split, split["start"])
        reading = Range(consumer, split, self.wait_s, self._assigned, self._made, skips=self.skips)
        try:
            yield from self._batches(reading, split)
        except BaseException:  # a generator that is closed before its end, too
            close(reading.consumer.client)
            raise
        with _LOCK:
            _KEPT[key] = reading.consumer
            surplus = [_KEPT.popitem(last=False)[1] for _ in range(len(_KEPT) - KEPT)]
        for each in surplus:
            close(each.client)

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

    def _assigned(self, split: Split, at: int) -> Consumer:
        """Return a new consumer of a partition that begins at an offset. Raises SetUpError, SourceError."""
        consumer = Consumer(self._made(), at)
        from confluent_kafka import KafkaException, TopicPartition

        try:
            consumer.client.assign([TopicPartition(split["topic"], split["partition"], at)])
        except KafkaException as error:
            close(consumer.client)
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

    def _batches(self, reading: Range, split: Split) -> Iterator[pa.RecordBatch]:
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


def _shown(split: Split) -> str:
    return f"{split['topic']}/{split['partition']} from offset {split['start']} to {split['stop']}"


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
