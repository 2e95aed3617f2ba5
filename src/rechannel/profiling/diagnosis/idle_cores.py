"""Whether an application has more cores than it can use."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from rechannel.profiling.diagnosis.case import Case
from rechannel.profiling.model.finding import Certainty, Evidence, Finding
from rechannel.profiling.model.trace import MS
from rechannel.profiling.model.words import percent, seconds

BUSY = 0.4
"""Share of the cores' time in tasks below which cores may be too many."""
SLOWER = 0.05
"""How much longer the run takes on half the cores, at most, as a share."""
LEAST_CORES = 8
"""Cores of an application for which this is worth saying."""


def too_many_cores(case: Case) -> Iterator[Finding]:
    """Find out whether half the cores would do. It has no gain in time.

    Silent: with fewer than `LEAST_CORES`; if cores are busy; if half of them would take longer; if the
    driver runs the tasks, as there is no executor to do without.
    """
    if case.app.local or case.cores < LEAST_CORES or not len(case.table):
        return
    worked = float(case.table.sums["lasted"].sum()) / MS / 1_000
    busy = 1_000 * worked / max(1.0, case.core_ms)
    if busy >= BUSY or case.with_cores(0.5) > (1 + SLOWER) * case.length:
        return
    yield Finding(
        cause="too-many-cores",
        text=(
            f"There are up to {case.cores:.0f} cores, and they work on tasks for {percent(busy)} of their time: on half"
            f" of them the run would take {seconds(case.with_cores(0.5))} instead of {seconds(case.length)}, and on any"
            f" number of cores at least {seconds(case.with_cores(inf))}."
        ),
        advice=(
            "Use fewer executors (`spark.executor.instances`, `spark.dynamicAllocation.maxExecutors`): it costs less"
            " and takes hardly longer."
        ),
        gain=None,
        certainty=Certainty.LIKELY,
        evidence=(
            Evidence(name="cores", value=case.cores),
            Evidence(name="busy cores", value=100 * busy, unit="%"),
            Evidence(name="on half the cores", value=case.with_cores(0.5), unit="s"),
            Evidence(name="on twice the cores", value=case.with_cores(2.0), unit="s"),
            Evidence(name="critical path", value=case.with_cores(inf), unit="s"),
        ),
    )
