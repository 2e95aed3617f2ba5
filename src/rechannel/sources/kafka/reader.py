"""Kafka as the driver reads it: how far a timestep may read, and in which splits."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from rechannel.errors import SourceError, StorageError
from rechannel.sources.backlog import Backlog
from rechannel.sources.cutting import row_bytes
from rechannel.sources.kafka.brokers import Brokers, KafkaBrokers, without_offsets
from rechannel.sources.kafka.offsets import (
    Found,
    Lost,
    Part,
    Place,
    TopicSeen,
    found,
    left,
    passed,
    place_of,
    splits,
    taken,
)
from rechannel.sources.kafka.splits import KafkaSplits
from rechannel.sources.native import NativeReader
from rechannel.sources.reader import UNBOUNDED, Bound, Offset, Split, SplitReader

if TYPE_CHECKING:
    from rechannel.sources.kafka.connector import KafkaConnector


MOST_PLANNED = 32


class KafkaReader(NativeReader):
    """Reads a `KafkaConnector`. Offsets: see `offsets.py`.

    While brokers do not answer, nothing new is read and the job shows why, but for the first look of a new stream.
    """

    def __init__(
        self, connector: KafkaConnector, *, name: str = "kafka", brokers: Brokers | None = None
    ) -> None:
        """brokers: None = those of the connector."""
        self._connector, self._name = connector, name
        self._brokers = KafkaBrokers(connector) if brokers is None else brokers
        self._high: dict[Part, int] = {}
        self._passed = 0
        self._told: tuple[Lost, ...] = ()
        self._planned: deque[Offset] = deque(maxlen=MOST_PLANNED)
        """Where timesteps end that were planned lately and that no task has read: their topics were looked at."""
        self.schema: pa.Schema = connector.schema

    def initial(self) -> Offset:
        """Return the offset of a stream that has not looked at its topics."""
        return {"topics": {}}

    def latest(self, start: Offset, stream_ms: int, bound: Bound = UNBOUNDED) -> Offset:
        """Return the offset after the records that a timestep takes. See `SourceReader`."""
        del stream_ms
        place, self._passed = place_of(start), 0
        try:
            looked = self._looked(place)
        except SourceError as error:
            if not place.begun:
                raise
            self.complaint = error
            return start
        self.complaint = self._complaint(looked)
        self._high = dict(looked.high)
        end = taken(looked, self._most(bound))
        if (end.next, end.ids, end.begun) == (place.next, place.ids, place.begun):
            return start
        planned = end.as_offset()
        self._passed = passed(start, planned)
        self._planned.append(planned)
        return planned

    def backlog(self, end: Offset, stream_ms: int) -> Backlog:
        """Return the records that are left; where a log is compacted, fewer are there. See `Backlogged`."""
        del stream_ms
        return Backlog(rows=left(end, self._high), taken_rows=self._passed)

    def layout(self, start: Offset, end: Offset) -> list[Split]:
        """Return ranges of offsets, partition by partition."""
        return splits(start, end)

    def split_reader(self, start: Offset, end: Offset, layout: list[Split]) -> SplitReader:
        """Return what reads the ranges. Raises SourceError for those of a topic that is no longer the same."""
        del start
        connector = self._connector
        return KafkaSplits(
            client=connector.client(),
            isolation=connector.isolation,
            wait_s=connector.wait_s,
            columns=tuple(connector.schema.names),
            skips=connector.on_lost == "skip",
            gone=self._others(end, layout),
        )

    def check_again(self, start: Offset, end: Offset, layout: list[Split]) -> None:
        """Raise SourceError if topics are no longer the same. See `Rereads`."""
        self.split_reader(start, end, layout)

    def _others(self, end: Offset, layout: list[Split]) -> frozenset[str]:
        """Return the topics of ranges that were deleted since they were planned.

        Raises SourceError if records must not be lost, StorageError if the brokers do not answer.
        """
        if end in self._planned:
            self._planned.remove(end)  # an attempt after this one asks
            return frozenset()
        ids = place_of(end).ids
        known = {split["topic"]: ids[split["topic"]] for split in layout}
        others = {topic for topic, id_ in known.items() if id_}
        for _ in range(2):  # what one broker does not know yet, another one does
            if others:
                others -= self._same(known, others)
        if others and self._connector.on_lost == "fail":
            first = min(others)
            why = f"topic {first!r} ({known[first]}) is gone, or was made anew"
            raise self._lost([Lost(part=Part(first, -1), next=0, low=0, why=why)])
        return frozenset(others)

    def _same(self, known: Mapping[str, str], topics: Iterable[str]) -> set[str]:
        """Return those topics whose ids are the known ones, or are not told."""
        try:
            now = self._brokers.ids(topics)
        except SourceError as error:
            raise StorageError(str(error)) from error
        return {topic for topic in topics if now.get(topic) in {known[topic], ""}}

    def committed(self, end: Offset) -> None:
        """Tell the consumer group, if there is one."""
        self._brokers.tell(place_of(end).next)

    def close(self) -> None:
        """Close the connections."""
        self._brokers.close()

    def _looked(self, place: Place) -> Found:
        """Return what the brokers have for a stream. Raises SourceError if they do not answer."""
        wanted = self._connector.wants
        seen = self._brokers.look(anew=not place.begun)
        if not place.begun:
            return found(place, seen, self._starting(seen))
        looked = found(place, seen, {}, wanted)
        if not looked.lost or looked.lost == self._told:
            return looked
        return found(place, self._brokers.look(anew=True), {}, wanted)  # it may be out of date

    def _starting(self, seen: dict[str, TopicSeen]) -> dict[Part, int]:
        wanted = self._connector.topics or tuple(self._connector.assignments)
        missing = [topic for topic in wanted if topic not in seen]
        if missing:
            msg = (
                f"source {self._name!r}: there is no topic {missing[0]!r} at {self._connector.bootstrap}: create it, or"
                " correct its name"
            )
            raise SourceError(msg)
        for topic, partitions in self._connector.assignments.items():
            known = {*seen[topic].parts, *seen[topic].silent}
            absent = [each for each in partitions if each not in known]
            if absent:
                there = ", ".join(map(str, sorted(known)))
                msg = f"source {self._name!r}: topic {topic!r} has no partition {absent[0]}; there are {there}"
                raise SourceError(msg)
        silent = [Part(topic, p) for topic, of in seen.items() for p in of.silent]
        if silent and self._connector.starting != "earliest":
            raise without_offsets(min(silent), self._connector.bootstrap)
        first = self._brokers.starting(seen)
        if unknown := sorted(
            first.keys() - {Part(t, p) for t, of in seen.items() for p in of.parts}
        ):
            msg = (
                f"source {self._name!r}: starting= gives an offset of {unknown[0]}, which is not read: give topics and"
                " partitions of this source"
            )
            raise SourceError(msg)
        return first

    def _complaint(self, looked: Found) -> SourceError | None:
        """Return what the job shows; raise it if records must not be lost. A topic that is gone is named once."""
        told, self._told = self._told, looked.lost
        new = looked.lost if self._connector.on_lost == "fail" else [*{*looked.lost} - {*told}]
        if not new:
            return None
        gone = [each for each in new if each.part.partition < 0]
        error = self._lost(sorted(gone or new, key=lambda each: each.part))
        if self._connector.on_lost == "fail":
            raise error
        return error

    def _lost(self, lost: Sequence[Lost]) -> SourceError:
        first, more = lost[0], len(lost) - 1
        what = first.why if first.part.partition < 0 else f"partition {first.part} {first.why}"
        others = f", and {more} more like it" if more else ""
        skips = self._connector.on_lost == "skip"
        then = (
            "reading continues with the first record that is there"
            if skips
            else "restore the records, or start again with kafka(..., on_lost='skip') to continue without them"
        )
        return SourceError(f"source {self._name!r}: {what}{others}: {then}")

    def _most(self, bound: Bound) -> int | None:
        most = bound.units or self._connector.per_timestep
        if bound.bytes is None:
            return most
        within = max(1, bound.bytes // row_bytes(self.schema))
        return within if most is None else min(most, within)
