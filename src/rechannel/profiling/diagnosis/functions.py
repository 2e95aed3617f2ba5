"""Python functions that take most of the time of their stages.

While a task waits for its Python worker, its JVM uses no CPU: the time in which it processes rows,
without garbage collection, fetching and writing, is Python's beyond the CPU time of the JVM. Mended,
a tenth of that is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from rechannel.profiling.diagnosis.case import Case, Family, Gain
from rechannel.profiling.diagnosis.change import Change
from rechannel.profiling.diagnosis.skew import by_data, evened
from rechannel.profiling.diagnosis.stage_names import alike, called, place_of
from rechannel.profiling.diagnosis.task_table import StageKey
from rechannel.profiling.diagnosis.words import duration
from rechannel.profiling.model.finding import Certainty, Evidence, Finding
from rechannel.profiling.model.trace import MS
from rechannel.profiling.model.words import listed, percent

MOSTLY = 0.6
"""Share of a stage's run time that Python takes, at least."""
LEFT = 0.1
"""Share of Python's time that is left: assumed."""


def python_function(case: Case) -> Iterator[Finding]:
    """Find stages that mostly wait for Python functions.

    Silent: if neither the plan of a stage nor its RDDs have a Python function; if the log has no CPU
    time; if its JVM is busy for most of its time.
    """
    for family in case.families:
        stage = case.app.stages.get(family.stages[0])
        if stage is None or not (stage.functions or stage.python):
            continue
        if not case.sum(family.stages, "cpu"):
            continue
        if python(case, family.stages) < MOSTLY * case.run(family.stages):
            continue
        gain = _gain(case, family)
        if case.worth(gain):
            yield _finding(case, family, stage.functions, gain)


def _gain(case: Case, family: Family) -> Gain:
    """Return what is gained beyond what even tasks gain: a hot key is a finding of its own."""
    hot = [] if case.streams(family) else by_data(case, family)
    even = {key: evened(case, key) for key in hot}
    mended = {
        key: even.get(key, case.durations(key)) * np.float32(_left(case, key))
        for key in family.stages
    }
    gain = case.gain(Change(durations=mended))
    if not even:
        return gain
    known = case.gain(Change(durations=even))
    return Gain(share=gain.share - known.share, seconds=gain.seconds - known.seconds)


def python(case: Case, stages: Sequence[StageKey]) -> float:
    """Return for how long the tasks of some stages waited for Python, ns."""
    return max(0.0, case.sum(stages, "processing") - case.sum(stages, "cpu"))


def _left(case: Case, key: StageKey) -> float:
    """Return the share of a stage's time that is left."""
    return 1 - (1 - LEFT) * python(case, [key]) / max(1.0, case.sum([key], "lasted"))


def _finding(case: Case, family: Family, names: tuple[str, ...], gain: Gain) -> Finding:
    key = family.stages[0]
    took, lasted = python(case, family.stages), case.sum(family.stages, "lasted")
    cpu = case.sum(family.stages, "cpu")
    rows = case.sum(family.stages, "in_rows", "read_rows")
    unique = list(dict.fromkeys(names))
    what = "functions of its RDDs"
    if unique:
        what = f"function{'s' if len(unique) > 1 else ''} {listed(unique)}"
    return Finding(
        cause="python-function",
        text=(
            f"{called(case, key)}{alike(family.stages)} spends {percent(took / lasted)} of its tasks' time in the"
            f" Python {what}: {duration(took / MS)} in all, while the JVM waits."
        ),
        advice=(
            f"Write {listed(unique) or 'them'} with Spark's own expressions{'' if unique else ' on DataFrames'}, or as"
            " a pandas UDF that works on whole columns; what calls a service should do so with many rows at a time."
            " The gain assumes that a tenth of the time is left."
        ),
        gain=gain.share,
        seconds=gain.seconds,
        certainty=Certainty.POSSIBLE,
        place=place_of(case, key),
        evidence=(
            Evidence(name="time in Python", value=took / MS / 1_000, unit="s"),
            Evidence(name="CPU time of the JVM", value=cpu / MS / 1_000, unit="s"),
            Evidence(name="share of the tasks' time", value=100 * took / lasted, unit="%"),
            Evidence(name="rows read", value=rows, unit="rows"),
        ),
    )
