"""Ranges of a partition as tasks read them, with a client that gives what a test wants."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from rechannel.errors import SourceError, StorageError
from rechannel.sources.kafka import range as kafka_range
from rechannel.sources.kafka import splits
from rechannel.sources.kafka.splits import KafkaSplits


@dataclass(frozen=True)
class Message:
    """A record, or an event at an offset."""

    at: int
    event: int | None = None

    def offset(self):
        return self.at

    def error(self):
        return None if self.event is None else KafkaError(self.event)

    def value(self):
        return b"%d" % self.at

    def __len__(self):
        return 1


def end(offset: int) -> Message:
    return Message(offset, KafkaError._PARTITION_EOF)


class Partition:
    """What brokers have of a partition, and the clients that read it."""

    def __init__(self, *log: Message) -> None:
        self.log = list(log)
        self.clients: list[Client] = []
        self.low = 0

    @property
    def assigned(self) -> list[int | None]:
        """Where each client began."""
        return [client.begins for client in self.clients]


class Client:
    """Has a queue of records and events. It tells each end of the partition once, as librdkafka does."""

    def __init__(self, partition: Partition) -> None:
        self.partition, self.queue = partition, deque[Message]()
        self.begins: int | None = None
        self.closed = threading.Event()

    def assign(self, positions):
        assert self.begins is None, "to assign again may take for ever"
        (position,) = positions
        self.begins, log = position.offset, self.partition.log
        if not self.partition.low <= self.begins <= max(each.at for each in log) + 1:
            self.queue.append(Message(0, KafkaError._AUTO_OFFSET_RESET))
            return
        self.queue.extend(each for each in log if each.at >= self.begins or each.event is not None)

    def get_watermark_offsets(self, part, timeout):
        assert self.begins is None, "a client with a partition may never answer"
        return self.partition.low, max(each.at for each in self.partition.log)

    def consume(self, most, timeout):
        return [self.queue.popleft() for _ in range(min(most, len(self.queue)))]

    def poll(self, timeout):
        return self.queue.popleft() if self.queue else None

    def close(self):
        self.closed.set()


@pytest.fixture(autouse=True)
def no_consumers_kept(monkeypatch):
    monkeypatch.setattr(splits, "_KEPT", OrderedDict())
    monkeypatch.setattr(kafka_range, "POLL_S", 0.0)


class Reader(KafkaSplits):
    """Reads with clients that a test has at hand."""

    def __init__(self, partition: Partition, wait_s: float = 0.05, *, skips: bool = False) -> None:
        super().__init__(
            client={},
            isolation="read_committed",
            wait_s=wait_s,
            columns=("offset", "value"),
            skips=skips,
        )
        object.__setattr__(self, "given", partition)

    def _made(self):
        self.given.clients.append(Client(self.given))
        return self.given.clients[-1]

    def offsets(self, start: int, stop: int) -> list[int]:
        split = {"topic": "t", "partition": 0, "start": start, "stop": stop}
        return [at for batch in self.read(split) for at in batch.column("offset").to_pylist()]


def records(*offsets: int) -> list[Message]:
    return [Message(at) for at in offsets]


def test_ranges_one_after_the_other_are_read_by_one_client():
    partition = Partition(*records(0, 1, 2, 3, 4, 5), end(6))
    reader = Reader(partition)
    assert reader.offsets(0, 4) == [0, 1, 2, 3]
    assert reader.offsets(4, 6) == [4, 5]
    assert partition.assigned == [0]
    assert reader.offsets(1, 3) == [1, 2]
    assert partition.assigned == [0, 1]
    assert partition.clients[0].closed.wait(10)
    assert not partition.clients[1].closed.is_set()


def test_records_that_retention_took_before_they_were_read_are_left_out_where_that_is_allowed():
    for low, left in ((3, [3, 4]), (5, []), (9, [])):
        partition = Partition(*records(*range(low, 12)), end(12))
        partition.low = low
        strict = Reader(partition)
        with pytest.raises(
            SourceError, match=r"at offset 2, of a range that ends at 5: .* on_lost='skip'"
        ):
            strict.offsets(2, 5)
        skipping = Reader(partition, skips=True)
        assert skipping.offsets(2, 5) == left
        assert skipping.offsets(5, 12) == list(range(max(low, 5), 12))


def test_a_range_behind_the_end_of_a_partition_that_became_shorter_has_no_records():
    partition = Partition(*records(*range(4)), end(4))
    skipping = Reader(partition, wait_s=0.01, skips=True)
    assert skipping.offsets(7, 9) == []
    assert partition.assigned[-1] == 9


def test_records_after_a_range_are_kept_for_the_next_one():
    reader = Reader(Partition(*records(0, 1, 5, 6, 7)))  # the others are marks of transactions
    assert reader.offsets(0, 5) == [0, 1]
    assert reader.offsets(5, 7) == [5, 6]
    assert reader.offsets(7, 8) == [7]


def test_an_end_that_is_told_with_the_range_before_ends_the_next_one():
    reader = Reader(Partition(*records(0, 1, 5), end(7)))  # 6 is the mark of a transaction
    assert reader.offsets(0, 5) == [0, 1]
    assert reader.offsets(5, 7) == [5]


def test_an_end_that_is_told_early_ends_several_ranges_and_none_that_is_longer():
    partition = Partition(*records(0), end(5))
    reader = Reader(partition)
    assert reader.offsets(0, 2) == [0]
    assert reader.offsets(2, 3) == []
    assert reader.offsets(3, 5) == []
    partition.clients[0].queue.extend([*records(5, 6), end(7)])
    assert reader.offsets(5, 7) == [5, 6]
    assert partition.assigned == [0]


def test_an_end_told_to_another_place_does_not_count():
    partition = Partition(*records(0, 1), end(2))
    reader = Reader(partition)
    assert reader.offsets(0, 2) == [0, 1]
    assert reader.offsets(1, 2) == [1]


def test_a_range_without_an_answer_fails_and_its_consumer_is_closed():
    partition = Partition(*records(0, 1))
    with pytest.raises(StorageError, match=r"t/0: .* no record from offset 2 on, .* ends at 4"):
        Reader(partition).offsets(0, 4)
    assert partition.clients[0].closed.wait(10)


def test_a_client_that_cannot_be_closed_holds_nobody_up(monkeypatch):
    entered, released, ended = threading.Event(), threading.Event(), threading.Event()

    def close(_: Client) -> None:
        entered.set()
        released.wait(60)
        ended.set()

    monkeypatch.setattr(Client, "close", close)
    reader = Reader(Partition(*records(0, 1, 2, 3)))
    assert reader.offsets(0, 2) == [0, 1]
    assert reader.offsets(3, 4) == [3]
    assert entered.wait(10)
    assert not ended.is_set()
    released.set()


@given(st.sets(st.integers(0, 30)), st.lists(st.integers(1, 12), min_size=1, max_size=6), st.data())
def test_every_record_is_in_its_range_wherever_ends_are_told(there, sizes, data):
    high = sum(sizes)
    held = sorted(at for at in there if at < high)
    told = {at: end(at) for at in data.draw(st.sets(st.integers(0, high))) | {high}}
    queue = []
    for at in range(high + 1):
        queue += [told[at]] if at in told else []
        queue += records(at) if at in held else []
    splits._KEPT.clear()
    reader, start = Reader(Partition(*queue)), 0
    for size in sizes:
        expected = [at for at in held if start <= at < start + size]
        assert reader.offsets(start, start + size) == expected
        start += size


@given(
    there=st.sets(st.integers(0, 40)),
    sizes=st.lists(st.integers(1, 15), min_size=1, max_size=4),
    data=st.data(),
)
def test_records_that_a_client_gives_again_are_taken_once(there, sizes, data):
    high = sum(sizes)
    held = sorted(at for at in there if at < high)
    queue = []
    for place, at in enumerate(held):
        queue += records(at)
        back = data.draw(st.integers(0, 3))
        queue += records(*held[max(0, place + 1 - back) : place + 1])  # leaders have changed
    queue.append(end(high))
    splits._KEPT.clear()
    reader, start = Reader(Partition(*queue)), 0
    for size in sizes:
        expected = [at for at in held if start <= at < start + size]
        assert reader.offsets(start, start + size) == expected
        start += size


def test_it_is_told_when_a_client_gives_records_again(caplog):
    reader = Reader(Partition(*records(3, 4, 5, 4, 5, 6, 7, 8), end(9)))
    assert reader.offsets(3, 9) == [3, 4, 5, 6, 7, 8]
    (told,) = caplog.records
    assert told.event == "records_again"
    assert "t/0: the client gave 2 records again, the first one at offset 4" in caplog.text
