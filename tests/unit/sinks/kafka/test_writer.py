"""A topic as a sink, over a client that does what a test wants."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from rechannel.errors import FencedError, RefusedError, StorageError
from rechannel.sinks.batch import Batch
from rechannel.sinks.claims import Ledger
from rechannel.sinks.kafka.outlet import KafkaOutlet
from rechannel.sinks.kafka.writer import MOST_STUCK
from rechannel.sinks.marks import Mark
from rechannel.sinks.outlet import SinkContext


class Client:
    """A producer whose calls return when a test says so."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.done: list[str] = []

    def poll(self, _seconds: float) -> None: ...

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
    writer._producers, writer._open = [client], batch
    return client


def test_a_call_that_does_not_return_is_given_up_and_another_producer_tries_again(writer):
    holding(writer, Batch(timestep=3))
    with pytest.raises(StorageError, match=r"topic 't' at h:9092: a call .* did not return within"):
        writer.publish({}, Batch(timestep=3))
    assert writer._producers == []
    assert writer._open is None
    next_one = holding(writer, Batch(timestep=3))
    next_one.goes_on.set()
    writer.publish({}, Batch(timestep=3))
    assert next_one.done == ["offsets", "commit"]
    assert writer._mark.timestep == 3


def test_no_more_producers_are_made_than_may_be_stuck(writer):
    stuck = [holding(writer, Batch(timestep=3))]
    for _ in range(MOST_STUCK):
        with pytest.raises(StorageError, match="did not return within"):
            writer.publish({}, Batch(timestep=3))
        stuck.append(holding(writer, Batch(timestep=3)))
    writer._producers, writer._open = [], None
    with pytest.raises(StorageError, match=r"8 calls of Kafka's client do not return"):
        writer.begin()
    for client in stuck:
        client.goes_on.set()
    for each in writer._stuck:
        each.result(60)
    writer._check_stuck()
    assert writer._stuck == []


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


class Ending:
    """A client whose transaction the brokers have ended."""

    def poll(self, _seconds: float) -> None: ...

    def begin_transaction(self) -> None: ...

    def produce(self, *_: object, **__: object) -> None: ...

    def send_offsets_to_transaction(self, *_: object) -> None:
        raise KafkaException(KafkaError(KafkaError.INVALID_PRODUCER_EPOCH))

    def purge(self) -> None: ...

    def abort_transaction(self, _seconds: float) -> None: ...


@pytest.mark.parametrize(
    ("passes_s", "error"), [(0.0, FencedError), (0.2, StorageError)], ids=["taken over", "too long"]
)
def test_a_transaction_that_lasted_too_long_is_no_other_driver(
    writer, monkeypatch, passes_s, error
):
    at_s = [100.0]
    monkeypatch.setattr("rechannel.sinks.kafka.writer.time", FakeTime(at_s))
    writer._producers = [Ending()]
    batch = Batch(timestep=3)
    writer.stage(rows_of(pa.table({"value": [b"x"]})), batch)
    at_s[0] += passes_s
    with pytest.raises(error):
        writer.publish({}, batch)
    assert writer._producers == []


def test_the_first_mark_is_compared_whoever_reads_it(writer, monkeypatch):
    """A writer that was added while the job ran has not begun."""
    known = Ledger(
        opening="", epoch=1, openings=frozenset(), committed=2, digests={}, remove_later=False
    )
    monkeypatch.setattr(writer, "_context", replace(writer._context, ledger=lambda: known))
    monkeypatch.setattr(writer, "_check_topic", lambda _producer: None)
    monkeypatch.setattr(writer, "_patiently", lambda ask: ask())
    monkeypatch.setattr(writer, "_asking", lambda _ask: Mark(5, "of another history"))
    monkeypatch.setattr(writer._kafka, "Producer", lambda _settings: Beginning())
    with pytest.raises(
        RefusedError, match=r"has timestep 5 .* which this state directory does not"
    ):
        writer.stage(rows_of(pa.table({"value": [b"x"]})), Batch(timestep=3))


class Beginning:
    """A client that takes the sink over."""

    def poll(self, _seconds: float) -> None: ...

    def init_transactions(self, _seconds: float) -> None: ...


@dataclass
class FakeTime:
    """The module `time` at a time of the test."""

    at_s: list[float]

    def monotonic(self) -> float:
        return self.at_s[0]


def rows_of(table: pa.Table) -> Any:
    return SimpleNamespace(table=lambda: table, batches=table.to_batches)


def test_one_consumer_serves_all_transactions(writer, monkeypatch):
    asked = list[int]()

    def asking(ask: Any) -> Any:
        asked.append(len(asked))
        return ask(SimpleNamespace(consumer_group_metadata=lambda: "group"))

    monkeypatch.setattr(writer, "_asking", asking)
    given = list[object]()
    for timestep in (1, 2, 3):
        client = holding(writer, Batch(timestep=timestep))
        client.goes_on.set()
        monkeypatch.setattr(
            client, "send_offsets_to_transaction", lambda _, group, *__: given.append(group)
        )
        writer.publish({}, Batch(timestep=timestep))
    assert asked == [0]
    assert given == ["group"] * 3


class Taking:
    """A client that writes down what it does."""

    def __init__(self, settings: dict[str, Any], said: list[str]) -> None:
        self._id, self._said = settings["transactional.id"], said
        self.tell = settings["error_cb"]
        self.heard: list[KafkaError] = []

    def poll(self, _seconds: float) -> None:
        while self.heard:
            self.tell(self.heard.pop())

    def init_transactions(self, _seconds: float) -> None:
        self._said.append(f"{self._id} fences")

    def begin_transaction(self) -> None:
        self._said.append(f"{self._id} begins")

    def produce(self, *_: object, **__: object) -> None: ...

    def send_offsets_to_transaction(self, positions: list[Any], *_: object) -> None:
        self._said.append(f"{self._id} gives {positions[0].offset}")

    def commit_transaction(self, *_: object) -> None:
        self._said.append(f"{self._id} commits")

    def purge(self) -> None: ...

    def abort_transaction(self, _seconds: float) -> None: ...


def test_two_producers_take_turns_and_have_fenced_all_others_before_the_mark_is_read(
    writer, monkeypatch
):
    """So no transaction of another driver can be committed after the mark was read."""
    said = list[str]()

    def asking(ask: Any) -> Any:
        said.append("mark")
        return Mark(2, "") if ask == writer._marked else "group"

    monkeypatch.setattr(writer, "_asking", asking)
    monkeypatch.setattr(writer, "_check_topic", lambda _producer: None)
    monkeypatch.setattr(writer._kafka, "Producer", lambda settings: Taking(settings, said))
    writer.begin()
    one, two = "rechannel-job-out", "rechannel-job-out/2"
    assert said == [f"{one} fences", f"{two} fences", "mark"]
    for timestep in (3, 4, 5):
        said.clear()
        writer.stage(rows_of(pa.table({"value": [b"x"]})), Batch(timestep=timestep))
        writer.publish({}, Batch(timestep=timestep))
        by = two if timestep == 4 else one
        expected = [f"{by} begins", f"{by} gives {timestep + 1}", f"{by} commits"]
        assert [each for each in said if each != "mark"] == expected


@pytest.mark.parametrize("sent", [False, True], ids=["before its rows", "before its commit"])
def test_producers_that_have_lost_a_broker_are_replaced(writer, monkeypatch, sent):
    """Their calls would wait until that broker is back."""
    said, made = list[str](), list[Taking]()

    def producer(settings: dict[str, Any]) -> Taking:
        made.append(Taking(settings, said))
        return made[-1]

    def asking(ask: Any) -> Any:
        return Mark(2, "") if ask == writer._marked else "group"

    monkeypatch.setattr(writer, "_asking", asking)
    monkeypatch.setattr(writer, "_check_topic", lambda _producer: None)
    monkeypatch.setattr(writer._kafka, "Producer", producer)
    writer.begin()
    batch, rows = Batch(timestep=3), rows_of(pa.table({"value": [b"x"]}))
    lost, other = KafkaError(KafkaError._TRANSPORT), KafkaError(KafkaError._AUTHENTICATION)
    made[0].heard.append(other)
    if sent:
        writer.stage(rows, batch)
        made[1].heard.append(lost)
        with pytest.raises(StorageError, match="a broker went away; new producers try again"):
            writer.publish({}, batch)
    else:
        made[1].heard.append(lost)
    said.clear()
    writer.stage(rows, batch)
    writer.publish({}, batch)
    one, two = "rechannel-job-out", "rechannel-job-out/2"
    assert len(made) == 4
    assert said[:3] == [f"{one} fences", f"{two} fences", f"{one} begins"]
    assert said[-1] == f"{one} commits"
    # While it is away, the client goes on telling so.
    made[3].heard.append(lost)
    writer.stage(rows, Batch(timestep=4))
    writer.publish({}, Batch(timestep=4))
    assert len(made) == 4


def test_calls_share_a_thread_until_one_does_not_return(writer, monkeypatch):
    made = list[threading.Thread]()

    def publish(timestep: int, *, returns: bool = True) -> None:
        client = holding(writer, Batch(timestep=timestep))
        if returns:
            client.goes_on.set()
        monkeypatch.setattr(
            client, "commit_transaction", lambda _: made.append(threading.current_thread())
        )
        writer.publish({}, Batch(timestep=timestep))

    publish(1)
    publish(2)
    with pytest.raises(StorageError, match="did not return"):
        publish(3, returns=False)
    publish(3)
    first, second, third = made
    assert first is second
    assert third is not second
    monkeypatch.setattr(writer, "_producers", [])
    writer.close()
    third.join(10)
    assert not third.is_alive()


class Losing(Taking):
    """A client whose commit is decided by the brokers while the answer to it is lost."""

    def commit_transaction(self, *_: object) -> None:
        super().commit_transaction()
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def purge(self) -> None: ...

    def abort_transaction(self, _seconds: float) -> None: ...


@pytest.mark.parametrize("committed", [True, False])
def test_whether_a_commit_without_an_answer_was_made_is_asked_before_rows_go_elsewhere(
    writer, monkeypatch, committed
):
    said = list[str]()
    batch = Batch(timestep=3, digest="d")
    marks = [Mark(2, ""), Mark(3, "d") if committed else Mark(2, "")]

    def asking(ask: Any) -> Any:
        return marks.pop(0) if ask == writer._marked else "group"

    monkeypatch.setattr(writer, "_asking", asking)
    monkeypatch.setattr(writer, "_check_topic", lambda _producer: None)
    monkeypatch.setattr(writer._kafka, "Producer", lambda settings: Losing(settings, said))
    assert not writer.shows(batch)
    writer.stage(rows_of(pa.table({"value": [b"x"]})), batch)
    with pytest.raises(StorageError, match=r"[Tt]imed out"):
        writer.publish({}, batch)
    said.clear()
    assert writer.shows(batch) is committed
    assert said == ["rechannel-job-out fences", "rechannel-job-out/2 fences"]
    assert writer.shows(batch) is committed
    assert not writer.shows(Batch(timestep=4))


def test_a_timestep_is_not_published_once_the_sink_was_closed_between_its_rows_and_its_commit(
    writer,
):
    client = holding(writer, Batch(timestep=3))
    client.purge = lambda: None
    client.abort_transaction = lambda _seconds: client.done.append("abort")
    writer.close()
    with pytest.raises(StorageError, match="timestep 3 was given up, since the sink was closed"):
        writer.publish({}, Batch(timestep=3))
    assert client.done == ["abort"]
