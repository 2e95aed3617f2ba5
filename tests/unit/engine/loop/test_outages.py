"""The store is away for a while, at any write of a run: nothing ends, and nothing shows in the result."""

from __future__ import annotations

from typing import Any

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import StorageError
from rechannel.settings import Settings
from rechannel.state.stores.faulty import FaultyStore
from rechannel.testing import Harness, Outage, Process, script

ROWS = [[{"k": (7 * t + i) % 5, "v": t * i} for i in range(6)] for t in range(1, 7)]


def summed(**options: Any) -> Harness:
    stream = rc.read().memory(script("k long, v long", ROWS), name="in")
    sums = stream.key_by("k").aggregate(total=agg.sum("v"), name="sums")
    settings = Settings(in_flight=2, snapshot_every=3, tasks=2)
    return Harness(sums.write.memory("out", name="out"), settings=settings, **options)


@pytest.fixture(scope="module")
def calm() -> Harness:
    harness = summed()
    harness.start().run()
    return harness


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("calls", [1, 9])
def test_an_outage_at_any_write_ends_nothing(calm, calls, written, thorough):
    opening = writes_of_a_start()
    ran = 0
    for at in range(opening, writes_of_a_run(), 1 if thorough else 3):
        harness = summed(patient=True)
        faults = [*[None] * at, Outage(calls=calls, written=written)]
        process = harness.start(faults=faults)
        run_through(process)
        assert isinstance(process.store, FaultyStore)
        assert process.store.outages == calls, f"write {at}"
        assert harness.outputs() == calm.outputs(), f"write {at}"
        assert harness.state_table("sums").equals(calm.state_table("sums")), f"write {at}"
        assert harness.journal_state().epoch == 1
        ran += process.position.tries
    assert ran, "no timestep ran again"


def run_through(process: Process) -> None:
    """Whoever steps sinks repeats what they cannot read; in a job their threads do."""
    for _ in range(20):
        try:
            process.run()
        except StorageError:
            assert process.publisher.oldest() is not None
        else:
            return
    raise AssertionError("it does not end")


def writes_of_a_start() -> int:
    """Writes before the journal bears outages: whoever starts a job hears of them."""
    return summed(patient=True).start().store.writes


def writes_of_a_run() -> int:
    process = summed(patient=True).start()
    process.run()
    return process.store.writes
