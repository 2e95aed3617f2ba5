"""Outages are borne, and a create whose outcome is in doubt is ours exactly if what is there is what we wrote."""

from __future__ import annotations

import pytest

from rechannel.errors import MissingFileError, StorageError
from rechannel.model.patience import Patience
from rechannel.state.stores.faulty import FaultyStore, Outage
from rechannel.state.stores.memory import MemoryStore
from rechannel.state.stores.patient import PatientStore


class World:
    """A store that is away when the script says so, and a clock that only sleeping moves."""

    def __init__(self, *script: Outage | None, patience: Patience | None = None) -> None:
        self.now = 0.0
        self.inner = MemoryStore()
        self.faulty = FaultyStore(self.inner, script)
        self.told: list[str | None] = []
        self.store = PatientStore(
            inner=self.faulty,
            patience=patience or Patience(),
            tell=lambda error: self.told.append(None if error is None else str(error)),
            sleep=self.slept,
            clock=lambda: self.now,
        )

    def slept(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize("written", [False, True])
def test_a_create_that_failed_is_ours_whether_it_arrived_or_not(written):
    world = World(Outage(calls=5, written=written))
    assert world.store.create("journal/1", b"mine")
    assert bytes(world.inner.read("journal/1")) == b"mine"
    assert world.faulty.outages == 5
    assert world.now > 0
    assert world.told[-1] is None
    assert "does not answer" in str(world.told[0])


def test_what_another_wrote_meanwhile_is_not_ours():
    world = World(Outage(calls=3))
    put = world.inner.put

    def slept(seconds: float) -> None:
        put("journal/1", b"another's")
        world.now += seconds

    world.slept = slept  # type: ignore[method-assign]
    store = PatientStore(inner=world.faulty, patience=Patience(), sleep=slept, clock=lambda: 0.0)
    assert not store.create("journal/1", b"mine")
    assert world.faulty.outages == 3


def test_a_key_that_exists_is_refused_also_with_the_same_bytes():
    """Where nothing failed nothing is in doubt: another driver wrote it."""
    world = World()
    world.inner.put("journal/1", b"mine")
    assert not world.store.create("journal/1", b"mine")
    assert world.told == []


def test_every_other_call_is_repeated():
    world = World(Outage(calls=2), Outage(calls=2), None)
    world.store.put("a/1", b"one")
    assert bytes(world.store.read("a/1")) == b"one"
    world.store.delete("a/2")
    assert [*world.store.list("a/")] == ["a/1"]
    assert world.store.size("a/1") == 3
    assert world.faulty.outages == 4


def test_patience_ends():
    world = World(Outage(calls=10_000), patience=Patience(seconds=15))
    with pytest.raises(StorageError, match="does not answer"):
        world.store.put("a/1", b"one")
    assert world.now == 15
    assert None not in world.told


def test_what_is_missing_is_missing_at_once():
    world = World()
    with pytest.raises(MissingFileError):
        world.store.read("a/1")
    assert world.now == 0


def test_an_outage_lasts():
    with pytest.raises(ValueError, match="at least 1 call"):
        Outage(calls=0)
