"""Timesteps of random dataflows, committed under random schedules of faults and changes, run again to the same result.

A schedule is that of `test_simulation.py` without changes of the program, but with many versions kept. At the end,
random ranges of what was committed are replayed, with other settings of merging and memory. Output and state are those
that were committed, and the store is as before, byte for byte. What cannot be replayed is refused with a reason, and
with the oldest timestep that can.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from random import Random

import pytest

from rechannel.assembly import ReplayText, replay
from rechannel.dataflow.identity.provided import provided_by
from rechannel.engine.journal.reading import kept_entries, read_only
from rechannel.engine.replay.judging import Shown
from rechannel.engine.replay.selecting import select
from rechannel.errors import RefusedError, UnknownOperatorError
from rechannel.job_seams import InProcess, job_seams, wall_clock
from rechannel.reconfigure.moment import EventMoment
from rechannel.replayed import Replay
from rechannel.state.stores.memory import MemoryStore
from rechannel.state.stores.overlay import OverlayStore
from rechannel.testing import Harness, Process
from tests.property.programs import Writer
from tests.property.reconfigurations import random_change, random_cluster, random_strategy
from tests.property.schedules import check_schedules
from tests.property.test_simulation import (
    Disturbed,
    bench,
    random_configuration,
    random_settings,
)

KEPT = 64
POSSIBLE = re.compile(r"can be replayed is (\d+);|timesteps from (\d+) on can be replayed")
RANGES = 3


class Reconfigured(Disturbed):
    """A schedule in which the Configuration changes, and the program stays."""

    def change(self, process: Process) -> None:
        """Ask for something now and then."""
        if self.rng.random() >= 0.2:
            return
        place = process.position
        moments: list[EventMoment | int | None] = [None, None, place.timestep + 1]
        try:
            process.reconfigure(
                random_change(self.rng, place.configuration, self.program.sources),
                random_strategy(self.rng),
                at=self.rng.choice([*moments, *self.event_moments(place.event_times)]),
                supersede=self.rng.random() < 0.2,
            )
            self.happened["asked"] += 1
        except (RefusedError, UnknownOperatorError):
            self.happened["not accepted"] += 1


def contents(store: MemoryStore) -> Mapping[str, bytes]:
    return {key: bytes(store.read(key)) for key in store.list("")}


def run_again(harness: Harness, asked: range, rng: Random) -> Replay:
    """A replay, under settings of its own. Raises RefusedError."""
    selection = select(read_only(harness.store), kept_entries(harness.store), asked)
    settings = random_settings(rng)
    seams = job_seams(
        "replay",
        store=OverlayStore(MemoryStore(), harness.store),
        settings=settings,
        clock=wall_clock,
        spark=None,
        in_process=InProcess(),
    )
    provided = provided_by(harness.dataflow)
    text = ReplayText(dataflow=harness.dataflow, provided=provided, logic={})
    return replay(seams, harness.store, selection, text, settings=settings, shown=Shown())


def attempt(harness: Harness, asked: range, rng: Random, happened: Counter[str]) -> Replay | range:
    """A replay; if it is refused, the timesteps from the oldest on that is possible as the refusal says."""
    try:
        return run_again(harness, asked, rng)
    except RefusedError as error:
        happened["refused"] += 1
        oldest = POSSIBLE.search(str(error))
    if oldest is None:
        return range(0)
    happened["replayed from the oldest"] += oldest[1] is not None
    happened["rows are gone"] += oldest[2] is not None
    return range(int(oldest[1] or oldest[2]), (harness.journal_state().last_committed or 0) + 1)


def schedule(seed: int) -> Counter[str]:
    """One schedule, and some replays; what happened in them."""
    rng = Random(f"replay {seed}")
    program = Writer(rng).program()
    store = MemoryStore()
    harness = bench(
        program,
        store=store,
        settings=replace(random_settings(rng), keep_versions=KEPT),
        configure=lambda first: random_configuration(rng, first),
        choose=rng.randrange,
        arrival=lambda blobs: rng.sample(blobs, len(blobs)),
        cluster=random_cluster(rng),
    )
    disturbed = Reconfigured(rng, program, harness)
    disturbed.run()
    happened = disturbed.happened
    before = contents(store)
    last = harness.journal_state().last_committed or 0
    for _ in range(RANGES):
        first = rng.randint(1, last)
        asked = range(first, rng.randint(first, last) + 1)
        found = attempt(harness, asked, rng, happened)
        while isinstance(found, range) and found:
            assert found[0] > asked[0], f"{asked} is possible, and refused"
            asked = found
            found = attempt(harness, asked, rng, happened)
        if isinstance(found, range):
            continue
        assert found.equal, f"{asked}: {found}"
        assert found.other_logic == ()
        happened["replayed"] += 1
        happened["timesteps"] += len(found.durations_ms)
        happened["rows"] += sum(part.equal for part in found.output)
        happened["rows of state"] += sum(part.equal for part in found.state)
        versions = {c.version for _, c in harness.journal_state().configurations}
        happened["several Configurations"] += len(versions) > 1
        happened.update(f"replayed {type(step).__name__}" for step in program.keyed)
    assert contents(store) == before
    happened.update({f"injected {kind}": n for kind, n in harness.injected.items()})
    happened["schedules"] += 1
    return happened


NEEDED = (
    "asked",
    "reconfiguration done",
    "replayed",
    "replayed from the oldest",
    "refused",
    "several Configurations",
    "rows",
    "rows of state",
)
MORE = (
    "ran again",
    "killed",
    "withdrawn",
    "rows are gone",
    *(f"replayed {kind}" for kind in ("Aggregate", "Window", "Sessions", "Join", "Sliding")),
    *(f"replayed {kind}" for kind in ("Track", "Asof", "Running", "Lookup", "Processing")),
)


def test_what_was_committed_is_what_runs_again(workers: ProcessPoolExecutor) -> None:
    check_schedules(schedule, range(6), NEEDED, workers)


@pytest.mark.slow
def test_what_many_schedules_committed_is_what_runs_again(workers: ProcessPoolExecutor) -> None:
    check_schedules(schedule, range(600), (*NEEDED, *MORE), workers)
