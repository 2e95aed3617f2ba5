"""The rate of what arrives, averaged over the last windows, but for jumps. Pure.

The rate of one short window is above the mean half of the time, and cores for the largest of many windows are more than
anyone needs: what a window brings too much, the next ones work off. So the mean of the last windows counts. But a rate
that differs from that mean by more than a share is another load, and the mean begins anew with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from rechannel.scaling.policies.policy import Arrivals

Windows: TypeAlias = Mapping[str, tuple[tuple[float, float], ...]]
"""By source, (seconds, records per second) of each window that counts, oldest first."""


def with_window(
    before: Windows,
    arrivals: Mapping[str, Arrivals],
    window_s: float,
    *,
    average_s: float,
    jump: float,
) -> dict[str, tuple[tuple[float, float], ...]]:
    """Return the windows that count after one more.

    average_s: seconds of windows that count; the newest always does. jump: share by which a rate must differ from the
    mean to begin anew.
    """
    made = {}
    for source, each in arrivals.items():
        kept, new = before.get(source, ()), (window_s, each.rate)
        if kept and abs(each.rate - mean(kept)) > jump * max(each.rate, mean(kept)):
            kept = ()
        kept = (*kept, new)
        while len(kept) > 1 and sum(seconds for seconds, _ in kept) > average_s:
            kept = kept[1:]
        made[source] = kept
    return made


def mean(windows: tuple[tuple[float, float], ...]) -> float:
    """Return the mean rate of some windows, records per second."""
    total = sum(seconds for seconds, _ in windows)
    return sum(seconds * rate for seconds, rate in windows) / total
