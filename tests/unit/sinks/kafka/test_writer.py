"""A topic as a sink, over a client that does what a test wants."""

from __future__ import annotations

import threading

import pytest

from rechannel.errors import StorageError
from rechannel.sinks.batch import Batch
from rechannel.sinks.kafka.outlet import KafkaOutlet
from rechannel.sinks.outlet import SinkContext


class Client:
    """A producer whose calls return when a test says so."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.done: list[str] = []

    def send_offsets_to_transaction(self, *_: object) -> None:
        self.goes_on.wait(60)
        self.done.append("offsets")

    def commit_transaction(self, *_: object) -> None:
        self.done.append("commit")


@pytest.fixture
def writer(monkeypatch):
    outlet = KafkaOutlet(bootstrap="h:9092", topic="t", wait_s=0.05)
    made = outlet.open(SinkContext(job="job", name="out"))
    monkeypatch.setattr(made, "_asking", lambda _ask: None)
    return made


def holding(writer, batch: Batch) -> Client:
    """A writer that has sent the rows of a timestep."""
    client = Client()
    writer._producer, writer._open = client, batch
    return client


def test_a_call_that_does_not_return_is_given_up_and_another_producer_tries_again(writer):
    holding(writer, Batch(timestep=3))
    with pytest.raises(StorageError, match=r"topic 't' at h:9092: a call .* did not return within"):
        writer.publish({}, Batch(timestep=3))
    assert writer._producer is None
    assert writer._open is None
    next_one = holding(writer, Batch(timestep=3))
    next_one.goes_on.set()
    writer.publish({}, Batch(timestep=3))
    assert next_one.done == ["offsets", "commit"]
    assert writer._mark.timestep == 3


def test_a_call_that_times_out_by_itself_raises_that(writer):
    client = holding(writer, Batch(timestep=3))

    def refuses(*_: object) -> None:
        raise TimeoutError("of its own")

    client.send_offsets_to_transaction = refuses
    client.purge = lambda: None
    client.abort_transaction = lambda _seconds: client.done.append("abort")
    with pytest.raises(TimeoutError, match="of its own"):
        writer.publish({}, Batch(timestep=3))
    assert client.done == ["abort"]
