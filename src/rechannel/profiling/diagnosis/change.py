"""What could be different in an application: values that `Case.gain` replays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rechannel.profiling.diagnosis.schedule import Durations
from rechannel.profiling.diagnosis.task_table import StageKey


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Change:
    """Differences from what was observed. Times are ms."""

    durations: Mapping[StageKey, Durations] = field(default_factory=dict)
    """What the tasks of attempts of stages take instead, in the order of their launches. If there are
    as many as there were, retries stay retries and copies stay copies; otherwise all are ordinary.
    """
    allocated: bool = False
    """Whether these stages have as many cores as there ever were, from their start on: dynamic
    allocation requests executors for the tasks that wait.
    """
    cores: float = 1.0
    """Factor on the number of cores; infinity for as many as there are tasks."""
