"""Brokers that a client has lost."""

from __future__ import annotations

from confluent_kafka import KafkaError

from rechannel.sinks.kafka.lost import AGAIN_S, LostBrokers


def away(broker: str) -> KafkaError:
    """What a client says of a broker that is away."""
    said = f"{broker}/1: Connect to ipv4#{broker} failed: Connection refused (after 0ms in state CONNECT)"
    return KafkaError(KafkaError._TRANSPORT, said)


def test_a_broker_is_lost_once_however_often_the_client_says_so():
    now = [0.0]
    lost = LostBrokers(clock=lambda: now[0])
    heard = []
    for broker in ("a:1", "a:1", "b:1", "a:1", "b:1"):
        now[0] += AGAIN_S / 2
        lost.note(away(broker))
        heard.append(lost.new)
        lost.renewed()
    assert heard == [True, False, True, False, False]


def test_a_broker_that_was_there_again_is_lost_again():
    now = [0.0]
    lost = LostBrokers(clock=lambda: now[0])
    lost.note(away("a:1"))
    lost.renewed()
    now[0] += AGAIN_S + 1
    lost.note(away("a:1"))
    assert lost.new


def test_other_errors_lose_no_broker_and_one_without_an_address_counts_as_one():
    lost = LostBrokers()
    lost.note(KafkaError(KafkaError._AUTHENTICATION, "no"))
    assert not lost.new
    lost.note(KafkaError(KafkaError._ALL_BROKERS_DOWN, "3/3 brokers are down"))
    assert lost.new
    lost.renewed()
    lost.note(KafkaError(KafkaError._TRANSPORT, "Disconnected"))
    assert not lost.new
