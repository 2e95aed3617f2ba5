"""The findings that there are. A new one is a function in a file of this folder, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rechannel.profiling.diagnosis.cached import computed_again
from rechannel.profiling.diagnosis.case import Case
from rechannel.profiling.diagnosis.driver import on_driver
from rechannel.profiling.diagnosis.failures import failures
from rechannel.profiling.diagnosis.functions import python_function
from rechannel.profiling.diagnosis.idle_cores import too_many_cores
from rechannel.profiling.diagnosis.joins import missed_broadcasts
from rechannel.profiling.diagnosis.memory import garbage, spill
from rechannel.profiling.diagnosis.partitions import too_few, too_many
from rechannel.profiling.diagnosis.skew import skew
from rechannel.profiling.diagnosis.slow_executors import slow_executor
from rechannel.profiling.diagnosis.small_files import small_files
from rechannel.profiling.diagnosis.speculation import speculation
from rechannel.profiling.model.finding import Finding

Detector = Callable[[Case], Iterable[Finding]]
"""Returns what it finds in an application; gains are those of `Case.gain`, or follow from the driver's time."""

DETECTORS: tuple[Detector, ...] = (
    on_driver,
    failures,
    computed_again,
    missed_broadcasts,
    skew,
    too_few,
    too_many,
    small_files,
    spill,
    garbage,
    slow_executor,
    speculation,
    python_function,
    too_many_cores,
)


def diagnosed(case: Case) -> list[Finding]:
    """Return everything that stands out, the largest gain first."""
    found = [finding for detect in DETECTORS for finding in detect(case)]
    return sorted(found, key=lambda each: (-(each.gain or 0.0), each.cause, each.text))
