"""One contract, inherited by every store."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from rechannel.errors import MissingFileError
from rechannel.state.store import Backing, Store
from rechannel.state.stores.faulty import FaultyStore
from rechannel.state.stores.local import Durability, LocalStore
from rechannel.state.stores.memory import MemoryStore
from rechannel.state.stores.objects import ObjectStore
from rechannel.state.stores.overlay import OverlayStore
from rechannel.state.stores.shared import SharedStore
from rechannel.testing.throttled import ThrottledStore


class StoreContract:
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        raise NotImplementedError

    def test_is_a_store(self, store):
        assert isinstance(store, Store)

    @pytest.mark.parametrize("key", ["a/b.arrow", "a/b.json"])
    def test_reads_what_was_put(self, store, key):
        store.put(key, b"abcdef")
        assert bytes(store.read(key)) == b"abcdef"
        assert store.size(key) == 6

    @pytest.mark.parametrize("key", ["a.arrow", "a.json"])
    def test_reads_a_range(self, store, key):
        store.put(key, b"abcdef")
        assert bytes(store.read(key, 2)) == b"cdef"
        assert bytes(store.read(key, 2, 3)) == b"cde"
        assert bytes(store.read(key, 4, 9)) == b"ef"
        assert bytes(store.read(key, 0, 0)) == b""

    @pytest.mark.parametrize("key", ["a.arrow", "a.json"])
    def test_keeps_nothing_under_a_key(self, store, key):
        store.put(key, b"")
        assert bytes(store.read(key)) == b""
        assert store.size(key) == 0

    def test_puts_pieces_one_behind_the_other(self, store):
        pieces = [memoryview(b"ab"), memoryview(b""), memoryview(b"xxcdxx")[2:4]]
        store.put("a.arrow", pieces)
        assert bytes(store.read("a.arrow")) == b"abcd"

    def test_puts_more_pieces_than_one_system_call_takes(self, store):
        store.put("a.arrow", [memoryview(bytes([i % 256])) for i in range(3000)])
        assert bytes(store.read("a.arrow")) == bytes(i % 256 for i in range(3000))

    def test_puts_pieces_of_wider_items(self, store):
        store.put("a.arrow", [memoryview(b"abcdefgh").cast("i"), memoryview(b"z")])
        assert bytes(store.read("a.arrow")) == b"abcdefghz"

    @pytest.mark.parametrize("key", ["a.arrow", "a.json"])
    def test_put_replaces_and_old_views_stay(self, store, key):
        store.put(key, b"old")
        view = store.read(key)
        store.put(key, b"newer")
        assert bytes(store.read(key)) == b"newer"
        assert bytes(view) == b"old"

    def test_create_writes_only_what_is_absent(self, store):
        assert store.create("a/1.json", b"mine")
        assert not store.create("a/1.json", b"yours")
        assert bytes(store.read("a/1.json")) == b"mine"
        store.delete("a/1.json")
        assert store.create("a/1.json", b"again")

    def test_one_of_many_creators_wins(self, store):
        won = []
        start = threading.Barrier(8)

        def race(n: int) -> None:
            start.wait()
            if store.create("journal/1.json", str(n).encode()):
                won.append(n)

        racers = [threading.Thread(target=race, args=(n,)) for n in range(8)]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        assert [str(n).encode() for n in won] == [bytes(store.read("journal/1.json"))]

    def test_misses_what_is_not_there(self, store):
        store.put("a/x.arrow", b"1")
        for key in ["b.arrow", "b.json", "a/y.arrow", "a/x.arrow/z.arrow"]:
            with pytest.raises(MissingFileError, match=key):
                store.read(key)
            with pytest.raises(MissingFileError, match=key):
                store.size(key)

    def test_delete_forgets_a_key_and_does_not_mind_its_absence(self, store):
        store.put("a/x.arrow", b"1")
        store.delete("a/x.arrow")
        store.delete("a/x.arrow")
        store.delete("nowhere/x.arrow")
        assert list(store.list("")) == []
        with pytest.raises(MissingFileError):
            store.read("a/x.arrow")

    def test_lists_by_prefix_in_order_of_keys(self, store):
        keys = ["a/10", "a/2", "a.b", "a/b/c", "ab/1", "a-b/1", "b"]
        for key in keys:
            store.put(key, b"1")
        assert list(store.list("")) == sorted(keys)
        assert list(store.list("a")) == sorted(k for k in keys if k.startswith("a"))
        assert list(store.list("a/")) == ["a/10", "a/2", "a/b/c"]
        assert list(store.list("a/1")) == ["a/10"]
        assert list(store.list("a/b/")) == ["a/b/c"]
        assert list(store.list("zz/")) == []

    @pytest.mark.parametrize(
        "key", ["", "/a", "a/", "../a", "a/../b", "a//b", ".a", "a/.b", "./a", "a\0b"]
    )
    def test_refuses_keys_that_could_leave_or_hide(self, store, key):
        with pytest.raises(ValueError, match="is not a key"):
            store.put(key, b"1")
        with pytest.raises(ValueError, match="is not a key"):
            store.create(key, b"1")
        with pytest.raises(ValueError, match="is not a key"):
            store.read(key)
        with pytest.raises(ValueError, match="is not a key"):
            store.delete(key)


class TestLocalStoreForPower(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        return LocalStore(tmp_path / "state", Durability.POWER)


class TestLocalStoreForProcess(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        return LocalStore(tmp_path / "state", Durability.PROCESS)


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self):
        return MemoryStore()


class TestFaultyStoreWithoutFaults(StoreContract):
    @pytest.fixture
    def store(self):
        return FaultyStore(MemoryStore())


class TestOverlayStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        return OverlayStore(MemoryStore(), LocalStore(tmp_path / "state", Durability.PROCESS))


class BackingContract(StoreContract):
    def test_is_a_backing(self, store):
        assert isinstance(store, Backing)

    def test_fetches_ranges_in_their_order(self, store):
        store.put("a.arrow", b"abcdefgh")
        parts = store.fetch("a.arrow", [(6, 8), (0, 1), (2, 5)])
        assert [bytes(part) for part in parts] == [b"gh", b"a", b"cde"]
        assert bytes(store.fetch("a.arrow", [(6, 99)])[0]) == b"gh"
        with pytest.raises(MissingFileError, match=r"b\.arrow"):
            store.fetch("b.arrow", [(0, 1)])

    def test_a_version_is_never_that_of_other_bytes(self, store):
        store.put("a.arrow", b"old")
        old = store.facts("a.arrow")
        assert old.size == 3
        assert store.facts("a.arrow") == old
        store.put("a.arrow", b"new")
        store.put("b.arrow", b"old")
        versions = {old.version, store.facts("a.arrow").version, store.facts("b.arrow").version}
        assert len(versions) == 3
        with pytest.raises(MissingFileError, match=r"c\.arrow"):
            store.facts("c.arrow")


class TestLocalStoreFromAfar(BackingContract):
    @pytest.fixture
    def store(self, tmp_path):
        return LocalStore(tmp_path / "state", Durability.PROCESS)


class TestThrottledStore(BackingContract):
    @pytest.fixture
    def store(self, tmp_path):
        local = LocalStore(tmp_path / "state", Durability.PROCESS)
        return ThrottledStore(local, bandwidth=1e9, line=str(tmp_path / "line"))


class TestObjectStoreInMemory(BackingContract):
    @pytest.fixture
    def store(self, tmp_path):
        return ObjectStore(f"memory://{tmp_path}")


class TestObjectStoreInADirectory(BackingContract):
    @pytest.fixture
    def store(self, tmp_path):
        (tmp_path / "bucket").mkdir()
        return ObjectStore(f"file://{tmp_path}/bucket")


class TestSharedStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        local = LocalStore(tmp_path / "state", Durability.PROCESS)
        return SharedStore(local, str(tmp_path / "cache"))


class TestSharedStoreOfObjects(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        return SharedStore(ObjectStore(f"memory://{tmp_path}"), str(tmp_path / "cache"))
