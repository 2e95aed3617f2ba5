"""What the driver asks the brokers: which topics and partitions there are, and where they begin and end."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rechannel.errors import SetUpError, SourceError
from rechannel.sources.kafka.offsets import Ends, Part, TopicSeen

if TYPE_CHECKING:
    from rechannel.sources.kafka.connector import KafkaConnector

TOPICS_S = 5.0
"""For how long what is known of topics and their first records counts; their ends are asked for at every look."""

CLIENT_S = 2.0
"""How old a client is at least that gets an error, and is replaced."""

MISSING = "reading Kafka needs confluent-kafka: pip install 'rechannel[kafka]'"

T = TypeVar("T")


class Brokers(Protocol):
    """The brokers as a reader sees them."""

    def look(self, *, anew: bool) -> dict[str, TopicSeen]:
        """Return the topics that are to be read. Those that do not exist are absent.

        anew: nothing that was asked earlier counts. Raises SourceError if there is no answer.
        """

    def ids(self, topics: Iterable[str]) -> Mapping[str, str]:
        """Return the ids that topics have now; those that do not exist are absent. Raises SourceError."""

    def starting(self, seen: Mapping[str, TopicSeen]) -> dict[Part, int]:
        """Return where a new stream begins, for partitions that do not begin with their first record."""

    def tell(self, offsets: Mapping[Part, int]) -> None:
        """Tell the consumer group what is committed. What goes wrong with that is logged by the client."""

    def close(self) -> None:
        """Close the connections."""


class KafkaBrokers:
    """Asks real brokers."""

    def __init__(
        self, connector: KafkaConnector, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Connect to nothing yet. clock: seconds."""
        try:
            import confluent_kafka.admin
        except ImportError as error:
            raise SetUpError(MISSING) from error
        self._kafka = confluent_kafka
        self._connector, self._clock = connector, clock
        self._admin = self._connected()
        self._admin_s = self._clock()
        self._consumer: Any = None
        self._known: dict[str, TopicSeen] = {}
        self._asked_s: float | None = None
        self._high: dict[Part, int] = {}
        """Where partitions ended at the last look."""

    def look(self, *, anew: bool) -> dict[str, TopicSeen]:
        """Return the topics that are to be read. See `Brokers`."""
        fresh, before = anew or not self._is_known, self._high
        if fresh:
            self._describe()
        seen = self._seen()
        if fresh or self._high == before or self._is_same():
            return seen
        self._describe()
        return self._seen()

    def _is_same(self) -> bool:
        """Return whether the topics are those that are known: what ends further on may have been made anew."""
        return self.ids(self._known) == {name: of.id for name, of in self._known.items()}

    def ids(self, topics: Iterable[str]) -> Mapping[str, str]:
        """Return the ids of topics. See `Brokers`."""
        return {name: _id(of) for name, of in self._described(list(topics)).items()}

    @property
    def _is_known(self) -> bool:
        return self._asked_s is not None and self._clock() - self._asked_s <= TOPICS_S

    def _connected(self) -> Any:
        return self._kafka.admin.AdminClient(self._connector.client())

    def _connect_anew(self) -> None:
        """Take another client: one asks leaders that are none any more until it looks for others, minutes later."""
        if self._clock() - self._admin_s >= CLIENT_S:
            self._admin, self._admin_s = self._connected(), self._clock()

    def _describe(self) -> None:
        now = self._clock()
        self._known, self._asked_s = self._topics(), now

    def _seen(self) -> dict[str, TopicSeen]:
        high = self._offsets(self._parts(self._known), self._kafka.admin.OffsetSpec.latest())
        self._high = high
        return {
            topic: TopicSeen(
                id=of.id,
                parts={
                    partition: Ends(low=ends.low, high=max(ends.low, high[Part(topic, partition)]))
                    for partition, ends in of.parts.items()
                    if Part(topic, partition) in high
                },
                silent=of.silent | {p for p in of.parts if Part(topic, p) not in high},
            )
            for topic, of in self._known.items()
        }

    def starting(self, seen: Mapping[str, TopicSeen]) -> dict[Part, int]:
        """Return where a new stream begins. See `Brokers`."""
        given = self._connector.starting
        if given == "earliest":
            return {}
        ends = {part: seen[part.topic].parts[part.partition].high for part in self._parts(seen)}
        if isinstance(given, str):
            return ends
        if isinstance(given, datetime):
            spec = self._kafka.admin.OffsetSpec.for_timestamp(int(given.timestamp() * 1e3))
            found = self._offsets(ends, spec)
            if silent := ends.keys() - found.keys():
                raise without_offsets(min(silent), self._connector.bootstrap)
            return {part: ends[part] if at < 0 else at for part, at in found.items()}
        return {Part(topic, p): at for topic, of in given.items() for p, at in of.items()}

    def tell(self, offsets: Mapping[Part, int]) -> None:
        """Tell the consumer group what is committed. See `Brokers`."""
        if self._connector.group is None or not offsets:
            return
        if self._consumer is None:
            told = {"group.id": self._connector.group, "enable.auto.commit": "false"}
            self._consumer = self._kafka.Consumer(self._connector.client() | told)
        positions = [self._kafka.TopicPartition(*part, at) for part, at in offsets.items()]
        self._consumer.commit(offsets=positions, asynchronous=True)

    def close(self) -> None:
        """Close the connections."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _described(self, names: list[str]) -> dict[str, Any]:
        """Return what the brokers say of topics; those that do not exist are absent."""
        if not names:
            return {}
        asked = self._admin.describe_topics(
            self._kafka.TopicCollection(names), request_timeout=self._connector.wait_s
        )
        answers = {
            name: self._answer(answer, f"what topic {name!r} is", absent=True)
            for name, answer in asked.items()
        }
        return {name: found for name, found in answers.items() if found is not None}

    def _topics(self) -> dict[str, TopicSeen]:
        described = self._described(self._names())
        parts = [Part(name, p.id) for name, of in described.items() for p in of.partitions]
        only = self._connector.assignments
        parts = [part for part in parts if not only or part.partition in only[part.topic]]
        low = self._offsets(parts, self._kafka.admin.OffsetSpec.earliest())
        return {
            name: TopicSeen(
                id=_id(of),
                parts={
                    p.partition: Ends(low=at, high=at) for p, at in low.items() if p.topic == name
                },
                silent=frozenset(p.partition for p in parts if p.topic == name and p not in low),
            )
            for name, of in described.items()
        }

    def _names(self) -> list[str]:
        connector = self._connector
        if not connector.pattern:
            return list(connector.topics or connector.assignments)
        try:
            listed = self._admin.list_topics(timeout=connector.wait_s)
        except self._kafka.KafkaException as error:
            raise self._silent("which topics there are", error) from error
        return sorted(name for name in listed.topics if re.fullmatch(connector.pattern, name))

    def _offsets(self, parts: Iterable[Part], spec: Any) -> dict[Part, int]:
        """Return an offset of each partition; absent are those that are gone or have no answer."""
        level = self._kafka.IsolationLevel
        isolation = {
            "read_committed": level.READ_COMMITTED,
            "read_uncommitted": level.READ_UNCOMMITTED,
        }[self._connector.isolation]
        wanted = {self._kafka.TopicPartition(*part): spec for part in parts}
        if not wanted:
            return {}
        asked = self._admin.list_offsets(
            wanted, isolation_level=isolation, request_timeout=self._connector.wait_s
        )
        found = {}
        for position, answer in asked.items():
            part = Part(position.topic, position.partition)
            info = self._answer(answer, f"the offsets of {part}", absent=True)
            # Amid a change of leaders, the client may answer without an error and without an offset.
            if info is not None and info.offset != self._kafka.OFFSET_INVALID:
                found[part] = int(info.offset)
        return found

    def _answer(self, answer: Any, what: str, *, absent: bool) -> Any:
        try:
            return answer.result(self._connector.wait_s + 5)
        except self._kafka.KafkaException as error:
            gone = self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
            if absent and error.args[0].code() == gone:
                return None
            self._connect_anew()
            raise self._silent(what, error) from error
        except TimeoutError as error:
            self._connect_anew()
            raise self._silent(what, error) from error

    def _silent(self, what: str, error: BaseException) -> SourceError:
        cause = (
            error.args[0].str() if isinstance(error, self._kafka.KafkaException) else "no answer"
        )
        return SourceError(
            f"the brokers at {self._connector.bootstrap} do not say {what}: {cause}. Check the address, that they run,"
            " and what the client's options give as security"
        )

    @staticmethod
    def _parts(seen: Mapping[str, TopicSeen]) -> list[Part]:
        return [Part(topic, partition) for topic, of in seen.items() for partition in of.parts]


def without_offsets(part: Part, bootstrap: str) -> SourceError:
    """Return why a new stream does not begin: a partition that it found later would count as an added one."""
    return SourceError(
        f"the brokers at {bootstrap} do not tell the offsets of {part}, as happens while a partition moves. A new"
        " stream with starting= has to know where every partition begins: start again later, or check that the"
        " partition has a leader"
    )


NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""What brokers that know no ids of topics say."""


def _id(described: Any) -> str:
    text = "" if described.topic_id is None else str(described.topic_id)
    return "" if text == NO_ID else text
