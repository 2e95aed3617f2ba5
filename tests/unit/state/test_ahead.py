"""Keys are read in order, several at a time from a store on other hosts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing

import pytest

from rechannel.errors import StorageError
from rechannel.state import ahead
from rechannel.state.ahead import AT_A_TIME, read_in_order
from rechannel.state.store import is_remote
from rechannel.state.stores.memory import MemoryStore
from rechannel.state.stores.objects import ObjectStore
from rechannel.state.stores.shared import SharedStore
from tests.support.elsewhere import Elsewhere

pytest.importorskip("obstore")

KEYS = [f"journal/{number}" for number in range(40)]


class Counted(Elsewhere):
    """Counts the reads under way; `hold` is called in each."""

    def __init__(self, hold: Callable[[str], object] = lambda _: None) -> None:
        super().__init__()
        self.under_way = self.most = self.begun = 0
        self._hold, self._lock = hold, threading.Lock()
        for key in KEYS:
            self.put(key, key.encode())

    def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        with self._lock:
            self.begun += 1
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        try:
            self._hold(key)
            return super().read(key, start, length)
        finally:
            with self._lock:
                self.under_way -= 1


def test_which_stores_take_a_request_for_each_read(tmp_path):
    bucket = ObjectStore("memory://ahead")
    assert is_remote(bucket)
    assert is_remote(SharedStore(bucket, str(tmp_path)))
    assert is_remote(Elsewhere())
    assert not is_remote(MemoryStore())
    assert not is_remote(SharedStore(MemoryStore(), str(tmp_path)))


@pytest.mark.parametrize("remote", [True, False])
def test_keys_come_in_order_and_missing_ones_as_none(remote):
    store = Counted() if remote else MemoryStore()
    store.put("journal/3", b"3")
    store.put("journal/39", b"39")
    if remote:
        store.delete("journal/7")
    found = [*read_in_order(store, KEYS)]
    assert bytes(found[3]) == b"3"
    assert bytes(found[39]) == b"39"
    assert found[7] is None
    assert len(found) == len(KEYS)


def test_reads_are_under_way_together_and_not_too_many():
    together = threading.Barrier(AT_A_TIME)
    store = Counted(lambda key: together.wait(10) if KEYS.index(key) < AT_A_TIME else None)
    assert [bytes(data) for data in read_in_order(store, KEYS)] == [key.encode() for key in KEYS]
    assert store.most == AT_A_TIME


def test_large_keys_are_read_one_by_one(monkeypatch):
    monkeypatch.setattr(ahead, "BYTES", len(KEYS[0]))
    store = Counted()
    reading = read_in_order(store, KEYS)
    for _ in range(AT_A_TIME + 1):
        next(reading)
    begun = store.begun
    next(reading)
    assert store.begun == begun + 1
    reading.close()


def test_an_error_comes_in_its_place_and_ends_the_reading():
    def fail(key: str) -> None:
        if key == KEYS[20]:
            raise StorageError("no answer")

    store, found = Counted(fail), list[bytes]()
    with pytest.raises(StorageError, match="no answer"):
        found.extend(bytes(data) for data in read_in_order(store, KEYS))
    assert found == [key.encode() for key in KEYS[:20]]


def test_a_reader_that_stops_leaves_no_threads():
    with closing(read_in_order(Counted(), KEYS)) as reading:
        next(reading)
        named = [each for each in threading.enumerate() if each.name.startswith("rechannel-read")]
        assert named
    for each in named:
        each.join(10)
        assert not each.is_alive()
