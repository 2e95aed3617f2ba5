"""How fast the generator makes events, on one core."""

from __future__ import annotations

import time
from statistics import median

from benchmarks.nexmark.events import EVENTS, PER_EPOCH, Events

REPEATS = 5


def events_per_second(events: Events, count: int) -> float:
    """Events of all kinds, 1 : 3 : 46, per second of processor time: the median of some batches of `count`.

    A batch before them fills the pools of texts.
    """
    seconds = [_seconds(events, count, number) for number in range(REPEATS + 1)]
    return count // EVENTS * EVENTS / median(seconds[1:])


def _seconds(events: Events, count: int, number: int) -> float:
    rows = {kind: count // EVENTS * each for kind, each in PER_EPOCH.items()}
    began = time.process_time()
    for kind, each in rows.items():
        events.source(kind)(number * each, (number + 1) * each)
    return time.process_time() - began
