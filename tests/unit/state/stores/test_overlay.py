from __future__ import annotations

import pickle

import pytest

from rechannel.errors import MissingFileError, NotPermittedError
from rechannel.state.store import ranges_of
from rechannel.state.stores.local import Durability, LocalStore
from rechannel.state.stores.memory import MemoryStore
from rechannel.state.stores.overlay import OverlayStore
from rechannel.state.stores.shared import SharedStore


@pytest.fixture
def lower(tmp_path) -> LocalStore:
    store = LocalStore(tmp_path / "lower", Durability.PROCESS)
    for key in ("a.arrow", "b/c.arrow", "b/d.json"):
        store.put(key, f"lower {key}".encode())
    return store


@pytest.fixture
def overlay(lower) -> OverlayStore:
    return OverlayStore(MemoryStore(), lower)


def contents(store) -> dict[str, bytes]:
    return {key: bytes(store.read(key)) for key in store.list("")}


def test_it_reads_what_lies_under_it(overlay, lower):
    assert contents(overlay) == contents(lower)
    assert overlay.size("b/c.arrow") == lower.size("b/c.arrow")
    with pytest.raises(MissingFileError):
        overlay.read("none.arrow")


def test_what_is_written_covers_it_and_does_not_reach_it(overlay, lower):
    before = contents(lower)
    overlay.put("a.arrow", b"upper")
    overlay.put("b/bb.arrow", b"upper too")
    assert not overlay.create("b/d.json", b"mine")
    assert overlay.create("b/e.json", b"mine")
    overlay.delete("b/e.json")
    assert contents(lower) == before
    assert contents(overlay) == {**before, "a.arrow": b"upper", "b/bb.arrow": b"upper too"}
    assert list(overlay.list("b/")) == ["b/bb.arrow", "b/c.arrow", "b/d.json"]
    assert overlay.size("a.arrow") == 5


def test_a_key_that_lies_under_it_cannot_be_deleted(overlay, lower):
    overlay.put("a.arrow", b"upper")
    with pytest.raises(NotPermittedError, match=r"a\.arrow belongs to the store under"):
        overlay.delete("a.arrow")
    assert bytes(lower.read("a.arrow")) == b"lower a.arrow"


def test_files_in_parts_stay_so_where_the_store_under_it_fetches_parts(tmp_path, lower):
    shared = OverlayStore(MemoryStore(), SharedStore(lower, str(tmp_path / "cache")))
    ranges = ranges_of(shared, "a.arrow")
    assert ranges is not None
    assert len(ranges.view) == lower.size("a.arrow")
    shared.put("a.arrow", b"upper")
    assert ranges_of(shared, "a.arrow") is None
    assert ranges_of(OverlayStore(MemoryStore(), lower), "a.arrow") is None


def test_it_travels_to_workers(tmp_path, lower):
    upper = LocalStore(tmp_path / "upper", Durability.PROCESS)
    sent = pickle.loads(pickle.dumps(OverlayStore(upper, lower)))
    sent.put("x.arrow", b"from a worker")
    assert bytes(upper.read("x.arrow")) == b"from a worker"
    assert sent == OverlayStore(upper, lower)
