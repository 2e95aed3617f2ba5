"""One range of offsets of one partition, read with a consumer.

Every wait is bounded: a range that gives nothing for some time fails its task, and the driver runs the timestep again,
as with a store that does not answer. The threads of librdkafka can wait for each other for ever when a broker goes away
(its issue 5476). `assign` would then wait with them and keep every other thread of the process from running. So a
consumer is assigned once, when it is new; for a range that begins elsewhere, another one is made, and none is waited
for when it is closed.

Offsets have gaps, where transactions end and where a log is compacted, so a range ends with a record at or after its
end, or with the end of the partition. No record is taken twice, whatever the client gives.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import lt
from typing import Any

from rechannel.errors import SourceError, StorageError
from rechannel.logs import fields
from rechannel.sources.reader import Split
from rechannel.threads import daemon_thread

_LOG = logging.getLogger("rechannel")

RECORDS_AT_ONCE = 500
"""Fewer than the objects after which Python looks for garbage by default (700)."""
POLL_S = 0.1


@dataclass(slots=True)
class Consumer:
    """A consumer of one partition."""

    client: Any
    at: int
    """Offset that it gives next; -1 = anywhere."""
    pending: list[Any] = field(default_factory=list)
    """Records that it has given and that were after the end of the range."""
    ended: int = -1
    """Offset of the end of the partition that it has told last, after all records before it; it tells an end once."""


class Range:
    """Reads one range with a consumer."""

    def __init__(
        self,
        consumer: Consumer,
        split: Split,
        wait_s: float,
        assigned: Callable[[Split, int], Consumer],
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
        close(self.consumer.client)
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
            close(asking)
        if min(low, high) < 0:  # amid a change of leaders
            msg = f"{self._where}: the brokers do not say which records there are"
            raise StorageError(msg)
        return low, high

    def _unreadable(self, error: Any) -> SourceError:
        where = f"at offset {self._at}, of a range that ends at {self._stop}"
        gone = "" if self._skips else f". {_IF_GONE}"
        return SourceError(f"{self._where} cannot be read {where}: {error.str()}{gone}")


_IF_GONE = "If its records are gone, restore them, or start with kafka(..., on_lost='skip') to go on without them"


def close(client: Any) -> None:
    """Close a consumer, in a thread that may never come to its end."""
    daemon_thread(client.close, "rechannel-kafka-close").start()
