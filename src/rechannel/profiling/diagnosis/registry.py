"""The findings that there are. A new one is a function in a file of this folder, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rechannel.profiling.diagnosis.case import Case
from rechannel.profiling.model.finding import Finding

Detector = Callable[[Case], Iterable[Finding]]
"""Returns what it finds in an application, with gains that were computed by `Case.replay`."""

DETECTORS: tuple[Detector, ...] = ()


def diagnosed(case: Case) -> list[Finding]:
    """Return everything that stands out, the largest gain first."""
    found = [finding for detect in DETECTORS for finding in detect(case)]
    return sorted(found, key=lambda each: (-(each.gain or 0.0), each.cause, each.text))
