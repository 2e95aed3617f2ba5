"""What the driver asks the brokers, over a client that answers as a test wants."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException

from rechannel.errors import SourceError
from rechannel.sources.kafka.brokers import CLIENT_S, TOPICS_S, KafkaBrokers
from rechannel.sources.kafka.connector import KafkaConnector
from rechannel.sources.kafka.offsets import Ends


class Answer:
    """A future that is done."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def result(self, _seconds: float) -> Any:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


class Client:
    """A client of a broker with one topic of one partition."""

    topic, high, error = "one", 5, None
    described = 0

    def describe_topics(self, _names: Any, **_: Any) -> dict[str, Answer]:
        self.described += 1
        of = SimpleNamespace(topic_id=self.topic, partitions=[SimpleNamespace(id=0)])
        return {"t": Answer(of)}

    def list_offsets(self, wanted: Any, **_: Any) -> dict[Any, Answer]:
        if self.error is not None:
            return {part: Answer(KafkaException(KafkaError(self.error))) for part in wanted}
        at = {-2: 0, -1: self.high}  # of the specification: earliest, latest
        return {
            part: Answer(SimpleNamespace(offset=at[int(spec._value)]))
            for part, spec in wanted.items()
        }


@pytest.fixture
def clients() -> list[Client]:
    return []


@pytest.fixture
def now() -> list[float]:
    return [100.0]


@pytest.fixture
def brokers(clients: list[Client], now: list[float], monkeypatch: Any) -> KafkaBrokers:
    def connected(_self: KafkaBrokers) -> Client:
        clients.append(Client())
        return clients[-1]

    monkeypatch.setattr(KafkaBrokers, "_connected", connected)
    return KafkaBrokers(KafkaConnector(bootstrap="h:9092", topics=("t",)), clock=lambda: now[0])


def seen(brokers: KafkaBrokers) -> tuple[str, Ends]:
    of = brokers.look(anew=False)["t"]
    return of.id, of.parts[0]


def test_a_topic_that_has_more_is_the_same_or_is_looked_at_anew(brokers, clients):
    (client,) = clients
    assert seen(brokers) == ("one", Ends(low=0, high=5))
    assert seen(brokers) == ("one", Ends(low=0, high=5))
    assert client.described == 1
    client.high = 9
    assert seen(brokers) == ("one", Ends(low=0, high=9))
    assert client.described == 2
    client.topic, client.high = "two", 3  # of a topic of the name that was made a moment ago
    assert seen(brokers) == ("two", Ends(low=0, high=3))


def test_an_answer_without_an_offset_tells_nothing_of_a_partition(brokers, clients, now):
    """It is no end of the partition: records before it would count as lost."""
    (client,) = clients
    assert seen(brokers) == ("one", Ends(low=0, high=5))
    client.high = OFFSET_INVALID
    for later_s in (0.0, TOPICS_S + 1):
        now[0] += later_s
        of = brokers.look(anew=False)["t"]
        assert (of.parts, of.silent) == ({}, {0})
    client.high = 9
    assert seen(brokers) == ("one", Ends(low=0, high=9))


def test_ids_are_asked_for_each_time(brokers, clients):
    assert brokers.ids(["t"]) == {"t": "one"}
    clients[0].topic = "two"
    assert brokers.ids(["t"]) == {"t": "two"}
    assert brokers.ids([]) == {}


def test_a_client_that_asks_a_leader_of_before_is_replaced(brokers, clients, now):
    clients[0].error = KafkaError.FENCED_LEADER_EPOCH
    for _ in range(2):
        with pytest.raises(SourceError, match="do not say the offsets of t/0"):
            brokers.look(anew=False)
    assert len(clients) == 1
    now[0] += CLIENT_S
    with pytest.raises(SourceError):
        brokers.look(anew=False)
    assert len(clients) == 2
    assert seen(brokers) == ("one", Ends(low=0, high=5))
