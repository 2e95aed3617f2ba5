"""Broadcast inputs of `process` under the schedules of `test_simulation`, against a naive twin.

Every timestep reads the table as it is after the rows of that timestep, whatever is rescaled, moved, killed, repeated
or in flight. `RECHANNEL_SEED=n` replays schedule n alone.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from random import Random

from tests.property.programs import NASTY, TAME, Program, Writer
from tests.property.schedules import check_schedules
from tests.property.test_simulation import run_schedule, weak_hash
from tests.property.twin_broadcast import Latest, Ruled, random_ruled, random_table
from tests.property.twins import Step

NEEDED = (
    "killed",
    "timestep failed",
    "reconfigured",
    "taken up again",
    "changed rescale",
    "changed move",
    "changed split",
    "changed change_program",
    "weak hash",
    "rows of Ruled",
    "rows of Latest",
    "rows of Track",
)


def simulate(seed: int) -> Counter[str]:
    """One schedule; what happened in it."""
    rng, own = Random(f"schedule {seed}"), Random(f"broadcast {seed}")
    program = written(own)
    if rng.random() < 0.8:
        return run_schedule(rng, None, program)
    with weak_hash(rng.choice((0, 1, 3))):
        return run_schedule(rng, None, program) + Counter({"weak hash": 1})


def written(rng: Random) -> Program:
    """A random program: events and changes, of one source or two, and one or two readers of the table."""
    writer = Writer(rng)
    times, floats = writer.times(), rng.choice((NASTY, TAME))
    events: Step = writer.source(len(times), floats, 0)
    changes = events if rng.random() < 0.3 else writer.source(len(times), floats, 0)
    table = random_table(rng, changes, writer.name("table"))
    if rng.random() < 0.3:
        # Rows that have a long way let the table run ahead.
        for keys in (("a",), ("a", "b")):
            columns = {key: events.columns[key] for key in keys} | events.columns
            far = Latest(name=writer.name("far"), columns=columns, inputs=(events,), keys=keys)
            events = far
    elif rng.random() < 0.5:
        events = writer.stateless([events], floats)
    ruled = random_ruled(rng, events, table, f"ruled{writer.made}")
    ends: list[Step] = [ruled, table] if rng.random() < 0.5 else [ruled]
    if rng.random() < 0.3:
        ends.append(random_ruled(rng, changes, table, "again"))
    if rng.random() < 0.3:
        ends.append(writer.keyed(ruled, len(times)))
    return writer.ended(ends, times)


def test_no_schedule_makes_a_difference(thorough: bool, workers: ProcessPoolExecutor) -> None:
    check_schedules(simulate, range(5_000 if thorough else 30), NEEDED, workers)


def test_a_program_has_a_table_that_is_read() -> None:
    for seed in range(20):
        steps = written(Random(seed)).steps
        assert all(step.table in steps for step in steps if isinstance(step, Ruled))
        assert any(isinstance(step, Ruled) for step in steps)
