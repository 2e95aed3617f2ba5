"""`process` under the schedules of `test_simulation`, against a naive twin: states of all kinds, timers, side outputs.

`RECHANNEL_SEED=n` replays schedule n alone.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from random import Random

from tests.property.programs import NASTY, TAME, Program, Writer
from tests.property.schedules import check_schedules
from tests.property.test_simulation import run_schedule, weak_hash
from tests.property.twin_letters import LETTERS, DeadRows, with_letters
from tests.property.twin_process import Processed, SideRows, random_processed
from tests.property.twin_windows import TIME, LateRows
from tests.property.twins import Step

KINDS = (
    ("", False),
    ("event", False),
    ("processing", False),
    ("both", False),
    ("event", True),
    ("both", True),
    ("", True),
)
"""What timers go by, and whether rows come in the order of event time: every schedule has the next one."""

NEEDED = (
    "killed",
    "timestep failed",
    "reconfigured",
    "taken up again",
    "changed rescale",
    "changed move",
    "changed split",
    "changed merge",
    "changed change_program",
    "weak hash",
    "rows of Processed",
    "rows of SideRows",
    "rows of DeadRows",
    "rows of LateRows",
)


def simulate(seed: int) -> Counter[str]:
    """One schedule; what happened in it."""
    rng, own = Random(f"schedule {seed}"), Random(f"process {seed}")
    program = written(own, *KINDS[seed % len(KINDS)])
    if rng.random() < 0.8:
        return run_schedule(rng, None, program)
    with weak_hash(rng.choice((0, 1, 3))):
        return run_schedule(rng, None, program) + Counter({"weak hash": 1})


def written(rng: Random, timing: str, ordered: bool) -> Program:
    """A random program with a `process`, its side output, and often an operator downstream of it."""
    writer = Writer(rng)
    times, floats = writer.times(), rng.choice((NASTY, TAME))
    source = writer.source(len(times), floats, 0)
    while TIME not in source.columns:
        source = writer.source(len(times), floats, 0)
    steps: list[Step] = [source]
    made = random_processed(rng, source, writer.name("process"), timing, ordered=ordered)
    side = {**{key: made.columns[key] for key in made.keys}, "odd": "long"}
    ends: list[Step] = [SideRows(name=writer.name("side"), columns=side, inputs=(made,)), made]
    if made.modulus:
        ends.append(DeadRows(name=writer.name("dead"), columns=dict(LETTERS), inputs=(made,)))
    if ordered:
        columns = dict(source.columns)
        ends.append(LateRows(name=writer.name("late"), columns=columns, inputs=(made,)))
    if rng.random() < 0.4:
        ends.append(writer.keyed(rng.choice(ends[:2]), len(times)))
    steps += ends
    return writer.ended([*ends, *with_letters(ends, writer.name)], times)


def test_no_schedule_makes_a_difference(thorough: bool, workers: ProcessPoolExecutor) -> None:
    check_schedules(simulate, range(5_000 if thorough else 42), NEEDED, workers)


def test_the_twin_is_one() -> None:
    """A program of each kind is what it says."""
    for timing, ordered in KINDS:
        steps = written(Random(1), timing, ordered).steps
        (made,) = (step for step in steps if isinstance(step, Processed))
        assert (made.timing, made.ordered) == (timing, ordered)
