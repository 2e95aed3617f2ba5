"""A job always ends: whatever fails while it closes, and also when its driver hangs."""

from __future__ import annotations

import threading
from functools import partial
from importlib import import_module
from typing import Any

import pytest

import rechannel as rc
from rechannel import job_seams
from rechannel.engine.journal.lease import read_lease
from rechannel.engine.loop import life
from rechannel.engine.loop.heartbeat import signs
from rechannel.engine.stages.inprocess import InProcessRunner
from rechannel.errors import (
    RefusedError,
    SessionError,
    StateInUseError,
    StorageError,
    UserFunctionError,
)
from rechannel.job import InProcess, Job
from rechannel.running import RunningJob
from rechannel.running import job as running_job
from rechannel.sources.native import NativeReader
from rechannel.state.keys import LEASE
from rechannel.state.stores.memory import MemoryStore
from rechannel.testing import script


def started(store: MemoryStore, function: Any = lambda batch: batch) -> RunningJob:
    rows = script("x bigint", [[{"x": 1}]])
    stream = rc.read().memory(rows, name="in").map_batches(function, schema="x bigint", name="f")
    return Job("j", stream.write.memory("out"), state=store).start(in_process=InProcess())


def no_luck(batch: Any) -> Any:
    raise ValueError("no luck")


def test_a_job_ends_as_failed_though_nothing_can_be_put_away(monkeypatch):
    def refuses(*_: Any) -> None:
        raise ConnectionError("nobody answers")

    for step in ("cancel", "close"):
        monkeypatch.setattr(InProcessRunner, step, refuses)
    store = MemoryStore()
    job = started(store, no_luck)
    with pytest.raises(UserFunctionError, match="no luck"):
        job.await_termination(60)
    assert not job.is_active
    assert job.status.message.startswith("failed: ")
    assert read_lease(store) is None


def test_a_lease_that_cannot_be_given_back_does_not_keep_the_job_from_ending():
    class Stuck(MemoryStore):
        def delete(self, key: str) -> None:
            if key == LEASE:
                raise StorageError("cannot delete the lease")
            super().delete(key)

    job = started(Stuck())
    job.process_all_available(60)
    job.stop(60)
    assert not job.is_active
    assert job.status.message == "stopped"


@pytest.fixture
def mortal(monkeypatch):
    """A Spark that dies when a test says so, and is looked at all the time."""
    died = threading.Event()

    def gone(self: InProcessRunner) -> str | None:
        return "Spark's JVM (process 7) has ended by signal SIGKILL" if died.is_set() else None

    monkeypatch.setattr(InProcessRunner, "gone", gone)
    monkeypatch.setattr(life, "GRACE_SECONDS", 0.05)
    return died


def test_a_job_whose_spark_dies_while_it_is_idle_ends(mortal):
    store = MemoryStore()
    job = started(store)
    job.process_all_available(60)
    mortal.set()
    with pytest.raises(SessionError, match=r"JVM \(process 7\) has ended by signal SIGKILL"):
        job.await_termination(60)
    assert job.status.active is False
    assert read_lease(store) is None


def test_a_job_whose_driver_hangs_in_a_call_to_a_dead_spark_ends(mortal, monkeypatch):
    called, hang = threading.Event(), threading.Event()

    def hangs(*_: Any) -> list[Any]:
        called.set()
        hang.wait(60)
        return []

    monkeypatch.setattr(InProcessRunner, "run", hangs)
    store = MemoryStore()
    job = started(store)
    assert called.wait(60)
    mortal.set()
    try:
        with pytest.raises(SessionError, match="start the job again in a new process"):
            job.await_termination(60)
        with pytest.raises(SessionError):
            job.stop(60)
        with pytest.raises(RefusedError, match="does not run"):
            job.reconfigure(rc.changes.set_interval(5))
        assert read_lease(store) is None
    finally:
        hang.set()


def test_troubles_are_shown_while_they_last(monkeypatch):
    class Hiccup(MemoryStore):
        ill = False

        def put(self, key: str, data: Any) -> None:
            if key == LEASE and self.ill:
                raise StorageError("cannot write lease.json: stale handle\nand more")
            super().put(key, data)

    store = Hiccup()
    monkeypatch.setattr(running_job, "RENEW_SECONDS", 0.005)
    job = started(store)
    beat = job._hub.troubles
    try:
        assert job.status.troubles == {}
        store.ill = True
        wait_until(lambda: job.status.troubles)
        assert job.status.troubles == {"lease": "cannot write lease.json: stale handle"}
        store.ill = False
        wait_until(lambda: not job.status.troubles)
        assert beat.counts["lease"] >= 1
    finally:
        job.stop(60)


def wait_until(condition: Any) -> None:
    for _ in range(2000):
        if condition():
            return
        threading.Event().wait(0.005)
    raise AssertionError("it did not happen")


def test_a_driver_gives_signs_while_it_opens(monkeypatch):
    """Else another one would take a driver that loads a large state for a dead one."""
    store, seen = MemoryStore(), set()

    def seen_three() -> bool:
        holder = read_lease(store)
        assert holder is not None
        seen.add(holder.heartbeat_ms)
        return len(seen) == 3

    def loads(*_: Any) -> None:
        wait_until(seen_three)

    monkeypatch.setattr(job_seams, "signs", partial(signs, seconds=0.005))
    monkeypatch.setattr(import_module("rechannel.assembly.assemble"), "load_initial", loads)
    job = started(store)
    job.process_all_available(60)
    job.stop(60)
    assert len(seen) == 3


def test_a_start_that_is_refused_leaves_nothing_open(monkeypatch):
    store = MemoryStore()
    job = started(store)
    closed = []

    def close(reader: NativeReader) -> None:
        closed.append(reader)

    monkeypatch.setattr(NativeReader, "close", close)
    with pytest.raises(StateInUseError):
        started(store)
    assert len(closed) == 1
    job.stop(60)
    assert len(closed) == 2
