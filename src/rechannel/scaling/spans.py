"""Which timesteps make a window. Pure.

A timestep covers the time from the look at the sources of the one before to its own. Consecutive timesteps make a
window as soon as they cover its length, or there are `MOST_TIMESTEPS` of them: a running job shows the latest 100 only,
and these must hold a window. A stream that is far too slow looks at its sources again only when a timestep is done:
one that takes the length ends a window that covers a fifth of it. What interrupts a window:

- **A reconfiguration**: a window has timesteps of one Configuration. What was begun before the change is a window of
  its own if it covers at least half of the length, and is left out otherwise; the next begins after the change.
- **A restart, or a timestep that is missing**: the time from the one before is unknown. The first timestep afterwards
  only says where the time begins.
- **Timesteps without telemetry of their tasks** are left out in the same way. The latest ones have none yet, as tasks
  are reported up to a second after timesteps: they belong to the next call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rechannel.scaling.policies.steering_settings import JITTER
from rechannel.telemetry.facts import TimestepProgress
from rechannel.telemetry.recent_tasks import TimestepTasks

MOST_TIMESTEPS = 50
"""Of a window."""

SHORTEST = 0.2
"""Share of its length that a window covers at least if its last timestep takes that long."""


@dataclass(frozen=True, slots=True)
class Step:
    """A timestep of a window."""

    facts: TimestepProgress
    tasks: TimestepTasks

    @property
    def now_ms(self) -> int:
        """When it looked at its sources, Unix milliseconds."""
        return self.facts.now_ms or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The timesteps of a window, and the one before, from whose look at the sources it goes."""

    before: TimestepProgress
    steps: tuple[Step, ...]

    @property
    def start_ms(self) -> int:
        """Unix milliseconds."""
        return self.before.now_ms or 0

    @property
    def end_ms(self) -> int:
        """Unix milliseconds."""
        return self.steps[-1].now_ms

    @property
    def window_s(self) -> float:
        """Its length in seconds."""
        return (self.end_ms - self.start_ms) / 1e3

    @property
    def configuration(self) -> int | None:
        """Version of the Configuration of its timesteps; None if unknown."""
        return self.steps[-1].facts.configuration


def spans(
    progress: Sequence[TimestepProgress],
    found: Mapping[int, TimestepTasks],
    after: int,
    length_ms: float,
) -> Iterator[Span]:
    """Yield the timesteps of each complete window, oldest first.

    found: tasks by timestep. after: the latest timestep that does not count. length_ms: that a window covers at least.
    """
    before: TimestepProgress | None = None
    steps: list[Step] = []
    last = max(found, default=-1)
    for previous, facts in pairwise(each for each in progress if after <= each.timestep <= last):
        follows = _follows(previous, facts, found)
        if steps and (not follows or facts.configuration != steps[-1].facts.configuration):
            if before is not None and steps[-1].now_ms - (before.now_ms or 0) >= length_ms / 2:
                yield Span(before=before, steps=tuple(steps))
            steps = []
        if not follows:
            continue
        if not steps:
            before = previous
        steps.append(Step(facts, found[facts.timestep]))
        if before is None:
            continue
        if _complete(before, steps, length_ms):
            yield Span(before=before, steps=tuple(steps))
            steps = []


def _complete(before: TimestepProgress, steps: Sequence[Step], length_ms: float) -> bool:
    start_ms = before.now_ms or 0
    covers_ms = steps[-1].now_ms - start_ms
    if len(steps) >= MOST_TIMESTEPS and covers_ms > 0:
        return True
    slow = steps[-1].facts.duration_ms >= length_ms
    return covers_ms >= (SHORTEST if slow else JITTER) * length_ms


def _follows(
    previous: TimestepProgress, facts: TimestepProgress, found: Mapping[int, TimestepTasks]
) -> bool:
    """Whether the time from one timestep to the next is known, and the tasks of the second are all there."""
    before, tasks = found.get(previous.timestep), found.get(facts.timestep)
    if before is None or tasks is None or before.driver != tasks.driver:
        return False
    if previous.now_ms is None or facts.now_ms is None:
        return False
    told = tasks.operators
    all_told = all(
        each.tasks <= (len(told[name].rows) if name in told else 0)
        for name, each in facts.operators.items()
    )
    return facts.timestep == previous.timestep + 1 and all_told
