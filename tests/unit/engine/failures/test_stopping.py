"""A stop is not held up by what fails and is tried again: neither by the journal's store nor by a sink."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.failures.stopping import Stopping
from rechannel.errors import NotReadyError, StorageError
from rechannel.job import InProcess, Job
from rechannel.model.patience import Patience
from rechannel.running import RunningJob
from rechannel.settings import Settings
from rechannel.sources.connectors import MemoryConnector
from rechannel.state.keys import JOURNAL, LEASE
from rechannel.state.stores.memory import MemoryStore

FOR_EVER = Patience(seconds=1e8, first_seconds=1e7, most_seconds=1e7, stop_seconds=0.1)


class Away(MemoryStore):
    """A store that is away for some keys as long as a test says so. failed: set when it was asked meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.of: tuple[str, ...] = ()
        self.failed = threading.Event()

    def create(self, key: str, data: bytes) -> bool:
        self._look(key)
        return super().create(key, data)

    def put(self, key: str, data: Any) -> None:
        self._look(key)
        super().put(key, data)

    def _look(self, key: str) -> None:
        if key.startswith(self.of):
            self.failed.set()
            raise StorageError(f"cannot write {key}: nobody answers")


ROWS = [{"k": 1, "v": 2}, {"k": 2, "v": 3}]


def started(
    store: MemoryStore, rows: MemoryConnector, sink: Any = None, **failure: Any
) -> RunningJob:
    counts = rc.read().memory(rows, name="in").key_by("k").aggregate(s=agg.sum("v"), name="sums")
    write = counts.write.on_failure(**failure) if failure else counts.write
    end = write.memory("out") if sink is None else write.for_each_batch(sink, name="out")
    settings = Settings(patience=FOR_EVER, tasks=1)
    return Job("j", end, state=store, settings=settings).start(in_process=InProcess())


def source() -> MemoryConnector:
    return MemoryConnector(schema="k BIGINT, v BIGINT", partitions=1)


def push(rows: MemoryConnector) -> None:
    rows.push(pa.RecordBatch.from_pylist(ROWS))


def sums(job: RunningJob) -> dict[int, int]:
    return {row["k"]: row["s"] for row in job.state("sums").to_pylist()}


@pytest.mark.parametrize("of", [(JOURNAL,), (JOURNAL, LEASE), ("segments/",)])
def test_a_stop_during_an_outage_of_the_store_ends_the_job_and_the_next_start_is_exact(of):
    store, rows = Away(), source()
    job = started(store, rows)
    push(rows)
    job.process_all_available(60)
    store.of = of
    push(rows)
    assert store.failed.wait(60)
    if JOURNAL in of:
        with pytest.raises(StorageError, match="is not retried, since the job is stopping"):
            job.stop(60)
        assert job.status.message.startswith("failed: cannot write journal/")
    else:
        job.stop(
            60
        )  # the timestep is in the journal as an intent, and nothing else has to be written
        assert job.status.message == "stopped"
    assert not job.is_active
    store.of = ()
    again = started(store, rows)
    again.process_all_available(60)
    assert sums(again) == {1: 4, 2: 6}
    again.stop(60)


@pytest.mark.parametrize("then", ["stop", "skip"])
def test_a_stop_is_not_held_up_by_the_attempts_of_a_sink(then):
    tried, shown = threading.Event(), []
    ill = True

    def write(batch: Any, timestep: int) -> None:
        tried.set()
        if ill:
            raise StorageError("cannot write: nobody answers")
        shown.append(timestep)

    store, rows = Away(), source()
    how = {"attempts": 1_000_000, "pause_ms": 60_000, "then": then}
    job = started(store, rows, write, **how)
    push(rows)
    assert tried.wait(60)
    if then == "stop":
        with pytest.raises(StorageError, match="nobody answers"):
            job.stop(60)
    else:  # the sink is not to end the job: what it owes is left to the next start
        job.stop(60)
        assert job.status.message == "stopped"
        assert job.sinks["out"].owed == 1
        assert job.sinks["out"].quarantine is None
    assert not job.is_active
    ill = False
    again = started(store, rows, write, **how)
    again.process_all_available(60)
    again.stop(60)
    assert shown == [1]


def test_a_stop_that_takes_longer_than_its_timeout_says_so():
    store, rows = MemoryStore(), source()
    hold, begun = threading.Event(), threading.Event()

    def write(batch: Any, timestep: int) -> None:
        begun.set()
        hold.wait(60)

    job = started(store, rows, write)
    push(rows)
    assert begun.wait(60)
    with pytest.raises(NotReadyError, match=r"has not ended in 0\.01 s"):
        job.stop(0.01)
    assert job.is_active
    hold.set()
    job.stop(60)


def test_what_is_left_when_a_stop_is_asked_for():
    now = [10.0]
    stopping = Stopping(5.0, clock=lambda: now[0])
    woken: list[bool] = []
    stopping.on_asked(lambda: woken.append(stopping.asked))
    assert (stopping.asked, stopping.left()) == (False, float("inf"))
    stopping.ask()
    now[0] = 12.0
    stopping.ask()
    assert (stopping.asked, stopping.left(), woken) == (True, 3.0, [True])
    now[0] = 99.0
    assert stopping.left() == 0.0
    stopping.sleep(1e6)  # nothing is left to wait for


def test_a_wait_ends_when_a_stop_is_asked_for():
    stopping = Stopping(0.0)
    waiting = threading.Thread(target=stopping.sleep, args=(60.0,))
    waiting.start()
    stopping.ask()
    waiting.join(30)
    assert not waiting.is_alive()
