"""When a driver that stands by may start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rechannel.engine.journal.lease import FRESH_MS, Holder
from rechannel.engine.journal.standby import Standby, wait
from rechannel.errors import NotPermittedError, StorageError
from rechannel.model.codec import encode
from rechannel.state.keys import LEASE
from rechannel.state.sealed import seal
from rechannel.state.stores.memory import MemoryStore

ELSEWHERE = Holder(host="elsewhere", pid=7, started_ms=1_000, epoch=3, heartbeat_ms=5)
HERE = replace(ELSEWHERE, host="here", table="table")


def standing_by(alive: dict[int, int] | None = None) -> Standby:
    return Standby(where=("here", "table"), started=(alive or {}).get)


def test_a_lease_that_is_given_back_is_free():
    assert standing_by().is_free(None, 0)


@pytest.mark.parametrize("ahead_ms", [-3_600_000, 0, 3_600_000])
def test_a_holder_elsewhere_has_ended_when_nothing_changed_for_ten_seconds_of_this_clock(ahead_ms):
    standby = standing_by()
    for second in range(30):
        sign = replace(ELSEWHERE, heartbeat_ms=ahead_ms + 1_000 * second)
        assert not standby.is_free(sign, 1_000 * second)
    last = 29_000
    assert not standby.is_free(sign, last + FRESH_MS - 1)
    assert standby.is_free(sign, last + FRESH_MS)


def test_a_holder_here_has_ended_with_its_process():
    assert not standing_by({7: 1_000}).is_free(HERE, 0)
    assert standing_by({}).is_free(HERE, 0)
    assert standing_by({7: 60_000}).is_free(HERE, 0), "another process has its number"


@pytest.mark.parametrize("table", ["other", ""])
def test_a_host_of_the_same_name_has_other_processes(table):
    holder = replace(HERE, table=table)
    assert not standing_by().is_free(holder, 0)


class Time:
    """Passes only when someone sleeps. `then`: what happens at which second."""

    def __init__(self, then):
        self.now, self.then = 0.0, then

    def clock(self):
        return self.now * 1e3

    def sleep(self, seconds):
        self.now += seconds
        self.then.get(self.now, lambda: None)()


class Unreadable(MemoryStore):
    error: Exception | None = None

    def read(self, key, *more, **given):
        if self.error:
            raise self.error
        return super().read(key, *more, **given)


def held(store, holder):
    store.put(LEASE, seal({"format": 2, **encode(holder)}))


def waited(store, then, stop=lambda: False):
    time, told = Time(then), []
    free = wait(
        store, standing_by(), clock=time.clock, sleep=time.sleep, stop=stop, tell=told.append
    )
    return free, time.now, [holder.epoch for holder in told]


def test_it_waits_for_one_driver_after_the_other():
    store = MemoryStore()
    held(store, ELSEWHERE)
    then = {
        4.0: lambda: held(store, replace(ELSEWHERE, epoch=4)),
        9.0: lambda: store.delete(LEASE),
    }
    assert waited(store, then) == (True, 9.0, [3, 4])


def test_an_outage_of_the_store_is_no_silence_of_the_holder():
    store = Unreadable()
    held(store, ELSEWHERE)

    def out():
        store.error = StorageError("the store is away")

    def back():
        store.error = None

    free, at, _ = waited(store, {2.0: out, 40.0: back})
    assert (free, at) == (True, 40.0 + FRESH_MS / 1e3)


def test_a_store_that_may_not_be_read_is_an_error():
    store = Unreadable()
    store.error = NotPermittedError("no")
    with pytest.raises(NotPermittedError):
        waited(store, {})


def test_it_gives_up_when_it_is_asked_to():
    store, asked = MemoryStore(), []
    held(store, ELSEWHERE)
    then = {3.0: lambda: asked.append(True)}
    assert waited(store, then, lambda: bool(asked)) == (False, 3.0, [3])
