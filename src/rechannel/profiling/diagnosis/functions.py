"""Python functions that take most of the time of their stages.

While a task waits for its Python worker, its JVM uses no CPU: what its run time has beyond the CPU
time of its JVM, garbage collection, fetching and writing is Python's. Mended, a tenth of that is left.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rechannel.profiling.diagnosis.case import Case, Family, Gain
from rechannel.profiling.diagnosis.change import Change
from rechannel.profiling.diagnosis.stage_names import alike, called, place_of
from rechannel.profiling.diagnosis.task_table import StageKey
from rechannel.profiling.diagnosis.words import duration
from rechannel.profiling.model.finding import Certainty, Evidence, Finding
from rechannel.profiling.model.trace import MS
from rechannel.profiling.model.words import listed, percent
from rechannel.profiling.spark.rows import TASK_STEPS

MOSTLY = 0.6
"""Share of a stage's run time that Python takes, at least."""
LEFT = 0.1
"""Share of Python's time that is left: assumed."""
_RUN = [name for name in TASK_STEPS if name not in {"deserialization", "serialization"}]
_ELSE = [name for name in _RUN if name != "processing"]


def python_function(case: Case) -> Iterator[Finding]:
    """Find stages that mostly wait for Python functions.

    Silent: if the plan of a stage has no Python function; if the log has no CPU time; if its JVM is
    busy for most of its time.
    """
    for family in case.families:
        stage = case.app.stages.get(family.stages[0])
        names = () if stage is None else stage.functions
        run = sum(case.sum(family, name) for name in _RUN)
        if not names or not case.sum(family, "cpu") or python(case, family) < MOSTLY * run:
            continue
        mended = {key: case.durations(key) * np.float32(_left(case, key)) for key in family.stages}
        gain = case.gain(Change(durations=mended))
        if case.worth(gain):
            yield _finding(case, family, names, gain)


def python(case: Case, family: Family) -> float:
    """Return for how long the tasks of a family waited for Python, ns."""
    known = case.sum(family, "cpu") + sum(case.sum(family, name) for name in _ELSE)
    return max(0.0, sum(case.sum(family, name) for name in _RUN) - known)


def _left(case: Case, key: StageKey) -> float:
    """Return the share of a stage's time that is left."""
    one = Family(name="", stages=[key], seconds=0.0)
    return 1 - (1 - LEFT) * python(case, one) / max(1.0, case.sum(one, "lasted"))


def _finding(case: Case, family: Family, names: tuple[str, ...], gain: Gain) -> Finding:
    key = family.stages[0]
    took, lasted = python(case, family), case.sum(family, "lasted")
    rows = case.sum(family, "in_rows") + case.sum(family, "read_rows")
    unique = list(dict.fromkeys(names))
    plural = "functions" if len(unique) > 1 else "function"
    return Finding(
        cause="python-function",
        text=(
            f"{called(case, key)}{alike(family)} spends {percent(took / lasted)} of its tasks' time in the Python"
            f" {plural} {listed(unique)}: {duration(took / MS)} in all, while the JVM waits."
        ),
        advice=(
            f"Write {listed(unique)} with Spark's own expressions, or as a pandas UDF that works on whole columns;"
            " if it calls a service, call it with many rows at a time. The gain assumes that a tenth of its time is"
            " left."
        ),
        gain=gain.share,
        seconds=gain.seconds,
        certainty=Certainty.POSSIBLE,
        place=place_of(case, key),
        evidence=(
            Evidence(name="time in Python", value=took / MS / 1_000, unit="s"),
            Evidence(
                name="CPU time of the JVM", value=case.sum(family, "cpu") / MS / 1_000, unit="s"
            ),
            Evidence(name="share of the tasks' time", value=100 * took / lasted, unit="%"),
            Evidence(name="rows read", value=rows, unit="rows"),
        ),
    )
