"""The queries of NEXMark and of the Yahoo benchmark under random schedules of faults, against an undisturbed run.

A schedule is a number, as in `test_simulation.py`, and what may happen is the same: attempts of tasks die or run twice,
drivers die, sleep and start again, and everything that can be is changed meanwhile. Queries take turns. That an
undisturbed run shows what Spark SQL makes of the same events is a test of its own (`tests/spark/test_nexmark.py`,
`test_yahoo.py`).

`RECHANNEL_SEED=n` replays schedule n alone.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from random import Random

from rechannel.kernels.protocol.two_sides import ROW
from rechannel.settings import Settings
from rechannel.testing import FaultKind, Harness
from tests.property.controlling import JournalledStore
from tests.property.queries import QUERIES, Asked, asked
from tests.property.schedules import check_schedules
from tests.property.test_simulation import (
    Disturbed,
    bench,
    check_extra,
    check_files,
    random_configuration,
    random_settings,
    rows_of,
    sorted_text,
    spread_operators,
    unnumbered,
)

SHAPES = 4
"""Inputs of every query."""


@cache
def undisturbed(name: str, shape: int) -> tuple[Asked, Harness]:
    """A query and its run with one task per operator, one timestep after the other."""
    program = asked(name, shape)
    calm = bench(program, settings=Settings(tasks=1, bins=1, in_flight=1, keep_versions=64))
    calm.start().run()
    return program, calm


def schedule(seed: int) -> Counter[str]:
    """One schedule; what happened in it."""
    rng = Random(seed)
    program, calm = undisturbed(QUERIES[seed % len(QUERIES)], seed // len(QUERIES) % SHAPES)
    store = JournalledStore()
    harness = bench(
        program,
        store=store,
        settings=random_settings(rng),
        configure=lambda first: random_configuration(rng, first),
        choose=rng.randrange,
        arrival=lambda blobs: rng.sample(blobs, len(blobs)),
    )
    disturbed = Disturbed(rng, program, harness)
    disturbed.run()
    check_files(harness)
    check_rows(program, harness, calm)
    check_extra(harness, calm)
    check_states(harness, calm, spread_operators(store.entries))
    happened = disturbed.happened
    happened.update({f"injected {kind}": n for kind, n in harness.injected.items()})
    happened["started again"] += disturbed.lives - 1
    happened["late rows"] += (
        sum(map(len, harness.outputs("late").values())) if "late" in calm.recorders else 0
    )
    happened[f"rows of {program.query}"] += sum(map(len, harness.outputs("out").values()))
    happened["schedules"] += 1
    return happened


def check_rows(program: Asked, harness: Harness, calm: Harness) -> None:
    """Every sink was shown every timestep once, with the rows of the undisturbed run."""
    for sink in calm.recorders:
        got, expected = harness.outputs(sink), calm.outputs(sink)
        assert list(got) == list(expected) == list(range(1, program.timesteps + 1))
        for timestep, table in expected.items():
            where = f"{program.query}, {sink}, timestep {timestep}"
            assert sorted_text(got[timestep]) == sorted_text(table), where


def check_states(harness: Harness, calm: Harness, spread: set[str]) -> None:
    """State after every kept timestep is that of the undisturbed run, byte for byte.

    spread: operators of which tasks shared keys; their rows are compared without their numbers.
    """
    here, there = harness.journal_state(), calm.journal_state()
    for name in (stage.name for stage in calm.plan.stateful):
        for timestep in here.versions:
            got = harness.state_table(name, timestep=timestep, journal=here)
            expected = calm.state_table(name, timestep=timestep, journal=there)
            assert got.schema == expected.schema
            if ROW.name in got.schema.names and name in spread:
                got, expected = unnumbered(got), unnumbered(expected)
            assert repr(rows_of(got)) == repr(rows_of(expected)), f"{name} after {timestep}"


NEEDED = (
    *(f"store {kind}" for kind in FaultKind),
    "fell asleep",
    "killed",
    "started again",
    "reconfigured",
    "reconfiguration done",
    "reconfiguration aborted",
    "changed change_program",
    "changed rescale",
    "late rows",
    *(f"rows of {name}" for name in QUERIES),
)


def test_no_schedule_makes_a_difference_to_a_query(
    thorough: bool, workers: ProcessPoolExecutor
) -> None:
    seeds = range((60 if thorough else 1) * len(QUERIES))
    check_schedules(schedule, seeds, NEEDED, workers, brief=not thorough)
