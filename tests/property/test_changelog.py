"""Changelogs of random dataflows, under the schedules of `test_simulation`, against a twin that compares dicts.

Every operator that has a changelog gets one, and a sink. It shows, timestep by timestep, what the twin finds by
comparing the table before with the table after; so do operators downstream of it. Applied row by row, without the twin,
it gives the table, and each row goes with those before it.

`RECHANNEL_SEED=n` replays schedule n alone.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from random import Random

from tests.property.programs import NASTY, TAME, Program, Writer
from tests.property.schedules import check_schedules
from tests.property.test_simulation import run_schedule, weak_hash
from tests.property.twin_changes import Changes, Table, check_fold, kind_of, told, with_changelogs
from tests.property.twin_letters import with_letters
from tests.property.twin_timers import trackable
from tests.property.twin_windows import TIME
from tests.property.twins import Keyed, Step

KINDS = (
    "Aggregate",
    "Reduce",
    "Track",
    "TrackBatches",
    "FailingTrack",
    "timers of event time",
    "timers of processing time",
    "Top",
    "Processing on update",
    "Window on update",
    "Window on close",
    "Window early",
    "Copied on update",
    "Copied on close",
    "Copied early",
    "Sessions on update",
    "Sessions on close",
    "Sessions early",
)
"""Of operators, by what makes the table: every schedule has one of the next kind."""

LATER = 12
"""Rows after those of the first timestep, at least: keys have to change."""

ENDING = ("Track", "TrackBatches", "timers of event time", "timers of processing time")
"""Kinds of which keys end; sessions grow together."""

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
    "rows of Changes",
    "rows of Aggregate",
    *(f"insert of {kind}" for kind in KINDS),
    *(f"update_{when} of {kind}" for kind in KINDS for when in ("before", "after")),
    *(f"delete of {kind}" for kind in (*ENDING, "Sessions on update", "Sessions early")),
)


def simulate(seed: int) -> Counter[str]:
    """One schedule; what happened in it."""
    rng, own = Random(f"schedule {seed}"), Random(f"changelogs {seed}")
    program = with_changelogs(written(own, KINDS[seed % len(KINDS)]), own)
    happened = told_by(program)
    if rng.random() < 0.8:
        return run_schedule(rng, None, program) + happened
    with weak_hash(rng.choice((0, 1, 3))):
        return run_schedule(rng, None, program) + happened + Counter({"weak hash": 1})


def written(rng: Random, kind: str) -> Program:
    """A random program with an operator of a kind that has a changelog, and often another one downstream of it."""
    writer = Writer(rng)
    times, floats = writer.times(), rng.choice((NASTY, TAME))
    while len(times) < 3:
        times = writer.times()
    source = writer.source(len(times), floats, 0)
    while TIME not in source.columns or sum(map(len, source.batches[1:])) < LATER:
        source = writer.source(len(times), floats, 0)
    steps: list[Step] = [source]
    if rng.random() < 0.4:
        steps.append(writer.stateless([source], floats))
    made: Step | None = None
    while made is None or kind_of(made) != kind or not told(made):
        made = one_of(writer, rng.choice(steps), len(times))
    steps.append(made)
    if rng.random() < 0.4:
        steps.append(writer.keyed(made, len(times)))
    return writer.ended([steps[-1], *with_letters(steps, writer.name)], times)


def one_of(writer: Writer, up: Step, timesteps: int) -> Step | None:
    """Any operator that may replace rows, of one that is not; None where there is none."""
    choices = ["keyed", "top", "processing"] + ["window", "window", "timed"] * (TIME in up.columns)
    match writer.rng.choice(choices):
        case "window":
            return writer.window(up)
        case "processing":
            return writer.window(up, processing=True)
        case "top":
            return writer.top(up)
        case "timed" if keys := trackable(up):
            return writer.tracking(up, (writer.rng.choice(keys),))
    return writer.keyed(up, timesteps)


def told_by(program: Program) -> Counter[str]:
    """Fold the changelogs of the twin; how often each change is in them. The job shows the same, as is seen later."""
    happened: Counter[str] = Counter()
    outputs, _ = program.run()
    for name, step in program.ends.items():
        if not isinstance(step, Changes):
            continue
        (operator,) = step.inputs
        assert isinstance(operator, Keyed)
        kind = kind_of(operator)
        happened.update(f"{row[-1]} of {kind}" for rows in outputs[name].values() for row in rows)
        if step.before:
            table: Table = check_fold(name, outputs[name], operator)
            assert table.keys() == step.table.keys()
    return happened


def test_changelogs_lead_from_table_to_table_whatever_happens(
    thorough: bool, workers: ProcessPoolExecutor
) -> None:
    check_schedules(simulate, range(3_600 if thorough else 36), NEEDED, workers, brief=not thorough)
