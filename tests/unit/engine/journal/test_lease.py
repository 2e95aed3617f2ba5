from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from rechannel.engine.journal.lease import (
    FRESH_MS,
    Holder,
    Lease,
    holds,
    process_started,
    process_table,
    read_lease,
)
from rechannel.errors import FencedError, StateInUseError
from rechannel.state.keys import LEASE
from rechannel.state.stores.memory import MemoryStore


class World:
    """A clock to set, and the living processes of host a with their start times."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self.living = {1: 500, 2: 600}
        self.store = MemoryStore()

    def acquire(self, pid: int = 1, host: str = "a", **more) -> Lease:
        started = {1: 500, 2: 600}[pid]
        holder = Holder(host=host, pid=pid, started_ms=started, epoch=pid, heartbeat_ms=0)
        return Lease.acquire(
            self.store, holder, clock=lambda: self.now, started=self.living.get, **more
        )


@pytest.fixture
def world():
    return World()


def test_a_free_lease_is_taken_and_given_back(world):
    lease = world.acquire()
    held = read_lease(world.store)
    assert held == lease.holder
    assert (held.pid, held.heartbeat_ms) == (1, world.now)
    lease.release()
    assert read_lease(world.store) is None
    lease.release()


@pytest.mark.parametrize("host", ["a", "b"])
@pytest.mark.parametrize("age", [-5000, 0, FRESH_MS - 1])
def test_a_holder_that_gives_signs_keeps_others_out(world, host, age):
    world.acquire(1)
    world.now += age
    with pytest.raises(StateInUseError, match=r"process 1 on host a gave a sign .* takeover=True"):
        world.acquire(2, host=host)
    assert read_lease(world.store).pid == 1


def test_signs_keep_it_held(world):
    lease = world.acquire(1)
    for _ in range(5):
        world.now += FRESH_MS - 1
        lease.renew(nobody)
    with pytest.raises(StateInUseError):
        world.acquire(2)


@pytest.mark.parametrize("host", ["a", "b"])
def test_a_stopped_holder_is_replaced(world, host):
    world.acquire(1)
    world.now += FRESH_MS
    assert world.acquire(2, host=host).holder.pid == 2


def test_a_dead_holder_is_replaced_at_once(world):
    world.acquire(1)
    del world.living[1]
    assert world.acquire(2).holder.pid == 2


def test_a_process_id_that_came_again_is_not_the_holder(world):
    world.acquire(1)
    world.living[1] = 900_000
    assert world.acquire(2).holder.pid == 2


def test_who_is_dead_on_another_host_cannot_be_seen(world):
    world.acquire(1)
    del world.living[1]
    with pytest.raises(StateInUseError):
        world.acquire(2, host="b")


def nobody() -> None:
    """The journal fences nobody."""


def test_who_insists_gets_it_and_the_journal_tells_the_other(world):
    old = world.acquire(1)
    new = world.acquire(2, takeover=True)
    with pytest.raises(FencedError, match="took over"):
        old.renew(lambda: FencedError("process 2 took over"))
    old.release()
    assert read_lease(world.store) == new.holder
    new.renew(nobody)


def test_a_sign_that_races_a_takeover_leaves_the_lease_to_the_rightful_holder(world):
    """The last sign of a driver that was replaced comes after the first one of its successor."""
    old = world.acquire(1)
    successors = []

    def replaced_just_after_it_looked() -> None:
        successors.append(world.acquire(2, takeover=True))

    old.renew(replaced_just_after_it_looked)
    assert read_lease(world.store).pid == 1
    (new,) = successors
    new.renew(nobody)
    assert read_lease(world.store) == new.holder
    with pytest.raises(FencedError):
        old.renew(lambda: FencedError("process 2 took over"))
    assert read_lease(world.store) == new.holder
    with pytest.raises(StateInUseError):
        world.acquire(1)


def test_no_sign_is_given_once_it_was_given_back(world):
    lease = world.acquire()
    lease.release()
    lease.renew(nobody)
    assert read_lease(world.store) is None


def test_a_sign_under_way_does_not_outlive_it(world):
    store, clock = world.store, world.now
    started = []

    def now():
        # Between looking who holds it and giving the sign, another thread gives it back.
        if len(started) == 1:
            started.append(threading.Thread(target=lease.release))
            started[1].start()
            started[1].join(0.2)
        return clock

    holder = Holder(host="a", pid=1, started_ms=500, epoch=1, heartbeat_ms=0)
    lease = Lease.acquire(store, holder, clock=now, started=world.living.get)
    started.append(None)
    lease.renew(nobody)
    started[1].join()
    assert read_lease(store) is None


def test_a_torn_lease_is_nobodys(world):
    lease = world.acquire(1)
    world.store.put(LEASE, bytes(world.store.read(LEASE))[:20])
    assert read_lease(world.store) is None
    lease.renew(nobody)
    assert read_lease(world.store) == lease.holder


def test_start_times_of_real_processes():
    started = process_started(os.getpid())
    assert 0 < started <= time.time() * 1000 + 1000
    assert process_started(os.getpid()) == started


def test_the_dead_and_the_unburied_have_none():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    assert process_started(child.pid) is not None
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert process_started(child.pid) is None
    child.wait()
    assert process_started(child.pid) is None


def test_a_clock_that_is_set_does_not_make_another_process(monkeypatch):
    import psutil

    before = process_started(os.getpid())
    boot = psutil.boot_time()
    monkeypatch.setattr("psutil.boot_time", lambda: boot + 5)
    if hasattr(psutil, "_pslinux"):
        monkeypatch.setattr("psutil._pslinux.boot_time", lambda: boot + 5)
    assert process_started(os.getpid()) == before


def test_a_holder_that_was_seen_to_have_ended_keeps_nobody_out_whatever_its_clock_said(world):
    lease = world.acquire(1)
    world.now -= 3_600_000
    with pytest.raises(StateInUseError):
        world.acquire(2, host="b")
    assert world.acquire(2, host="b", ended=lease.holder).holder.pid == 2
    with pytest.raises(StateInUseError):
        world.acquire(1, host="c", ended=lease.holder)


def test_equal_names_of_hosts_are_not_one_process_table():
    assert process_table() == process_table() != ""
    held = Holder(host="a", pid=1, started_ms=5, epoch=0, heartbeat_ms=100, table="t")
    nobody_lives = {}.get
    assert not holds(held, ("a", "t"), 200, nobody_lives)
    assert holds(held, ("a", "u"), 200, nobody_lives)
    assert holds(held, ("a", ""), 200, nobody_lives)
