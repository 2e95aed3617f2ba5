from __future__ import annotations

import pytest

from rechannel.errors import StorageError
from rechannel.state.stores.faulty import Crash, Fault, FaultKind, FaultyStore
from rechannel.state.stores.memory import MemoryStore

BEFORE = Fault(kind=FaultKind.BEFORE)
AFTER = Fault(kind=FaultKind.AFTER)
FULL = Fault(kind=FaultKind.FULL)
TORN = Fault(kind=FaultKind.TORN, kept=0.75)


@pytest.fixture
def inner():
    return MemoryStore()


def test_the_script_is_read_write_by_write_and_then_all_is_well(inner):
    store = FaultyStore(inner, [None, FULL, None])
    store.put("a", b"1")
    with pytest.raises(StorageError, match="cannot write b: No space left"):
        store.put("b", b"1")
    assert store.create("b", b"2")
    store.delete("a")
    assert list(inner.list("")) == ["b"]
    assert store.writes == 4


def test_a_torn_put_leaves_a_prefix(inner):
    with pytest.raises(Crash, match="write number 1"):
        FaultyStore(inner, [TORN]).put("a", [memoryview(b"abcd"), memoryview(b"efgh")])
    assert bytes(inner.read("a")) == b"abcdef"


@pytest.mark.parametrize(("fault", "left"), [(BEFORE, []), (TORN, []), (AFTER, ["a"])])
def test_a_create_is_whole_or_absent(inner, fault, left):
    with pytest.raises(Crash):
        FaultyStore(inner, [fault]).create("a", b"abcd")
    assert list(inner.list("")) == left


def test_nobody_hears_from_the_dead(inner):
    inner.put("a", b"1")
    store = FaultyStore(inner, [BEFORE])
    with pytest.raises(Crash):
        store.delete("a")
    assert store.crashed
    for call in [
        lambda: store.read("a"),
        lambda: store.size("a"),
        lambda: store.list(""),
        lambda: store.put("b", b""),
        lambda: store.create("b", b""),
        lambda: store.delete("a"),
    ]:
        with pytest.raises(Crash):
            call()
    assert list(FaultyStore(inner).list("")) == ["a"]


def test_a_crash_is_not_caught_as_an_error():
    assert not issubclass(Crash, Exception)


def test_a_fraction_is_a_fraction():
    with pytest.raises(ValueError, match="fraction"):
        Fault(kind=FaultKind.TORN, kept=1.5)
