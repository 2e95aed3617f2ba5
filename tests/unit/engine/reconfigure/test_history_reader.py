"""A history that is read over and over reads each file once, and is always that of the files."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rechannel.engine.reconfigure.history import AROUND, read_history, record_key, summary
from rechannel.engine.reconfigure.history_reader import HistoryReader
from rechannel.reconfigure.record import Phase
from rechannel.state.sealed import seal
from rechannel.state.stores.memory import MemoryStore
from tests.unit.engine.reconfigure.test_history import DONE


class Counting(MemoryStore):
    """Notes what is read and listed."""

    def __init__(self):
        super().__init__()
        self.read_keys, self.lists = [], 0

    def read(self, key):
        self.read_keys.append(key)
        return super().read(key)

    def list(self, prefix):
        self.lists += 1
        return super().list(prefix)


def write(store, record, after=AROUND):
    body = summary(record) | {"latency_ms": {"after": {"timesteps": after}} if after else {}}
    store.put(record_key(record.id), seal({"format": 1, **body}))


def over(number, **changes):
    return replace(DONE, id=f"r{number}", **changes)


@pytest.fixture
def store():
    return Counting()


def asked(store):
    read, listed = store.read_keys, store.lists
    store.read_keys, store.lists = [], 0
    return read, listed


def test_a_file_that_is_complete_is_read_once(store):
    known = [over(number) for number in (1, 2)]
    for record in known:
        write(store, record)
    reader = HistoryReader(store)
    first = reader.read(known, 50)
    assert first == read_history(store, known, 50)
    asked(store)
    assert reader.read(known, 50) == first
    assert asked(store) == ([], 0)
    known.append(over(3))
    write(store, known[-1])
    assert [one["id"] for one in reader.read(known, 50)] == ["r1", "r2", "r3"]
    assert asked(store) == ([record_key("r3")], 1)


def test_one_whose_later_timesteps_are_not_known_is_read_again(store):
    known = [over(1)]
    write(store, known[0], after=3)
    reader = HistoryReader(store)
    assert reader.read(known)[0]["latency_ms"]["after"]["timesteps"] == 3
    write(store, known[0])
    assert reader.read(known)[0]["latency_ms"]["after"]["timesteps"] == AROUND


def test_one_that_has_just_ended_is_shown_before_it_has_a_file(store):
    reader, known = HistoryReader(store), [over(1)]
    assert reader.read(known) == [summary(known[0])]
    write(store, known[0])
    assert reader.read(known)[0]["latency_ms"]["after"]["timesteps"] == AROUND


def test_one_that_is_undone_is_read_again(store):
    known = [over(1)]
    write(store, known[0])
    reader = HistoryReader(store)
    reader.read(known)
    undone = over(1, phase=Phase.UNDONE, times={**DONE.times, Phase.UNDONE: 9_999})
    write(store, undone)
    assert reader.read([undone])[0]["phase"] == "undone"
    assert reader.read([])[0]["phase"] == "undone"


def test_what_is_kept_is_bounded_and_what_is_deleted_is_gone(store):
    known = [over(number) for number in range(1, 6)]
    for record in known:
        write(store, record)
    reader = HistoryReader(store, kept=2)
    assert len(reader.read(known)) == 5
    asked(store)
    reader.read(known)
    assert len(asked(store)[0]) == 5
    store.delete(record_key("r1"))
    assert [one["id"] for one in reader.read(known[1:])] == ["r2", "r3", "r4", "r5"]
    assert json.dumps(reader.read(known[1:], 1)) == json.dumps(read_history(store, known[1:], 1))
