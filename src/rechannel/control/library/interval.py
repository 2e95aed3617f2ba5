"""Finds the interval between timesteps that sustains the input: `interval="auto"` of other engines.

The decision is in `pacing.py`. The controller looks at every committed timestep, and does not decide again before the
change that it has requested last is done. What timesteps took is forgotten when anything else of the stream changes,
since they may cost something else then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rechannel.control.controller import Control, Controller
from rechannel.control.library.pacing import Course, Goal, Sample, Size, learnt, next_interval
from rechannel.control.library.records import changed_besides, free_since
from rechannel.control.triggers import every
from rechannel.errors import RefusedError
from rechannel.reconfigure.changes.change import JOB
from rechannel.reconfigure.changes.pace import set_interval

RATE_OVER = 2
"""Timesteps over which the rate of the input is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """What the controller knows."""

    sizes: tuple[Size, ...] = ()
    recent: tuple[Sample, ...] = ()
    """The latest timesteps."""
    course: Course = field(default_factory=Course)


def samples(progress: Iterable[Any], after: int) -> tuple[Sample, ...]:
    """Return the timesteps with rows after one, from `TimestepProgress`."""
    return tuple(
        Sample(
            timestep=p.timestep,
            rows=p.rows_in,
            busy_ms=p.duration_ms,
            span_ms=p.rows_in / p.input_rows_per_second * 1e3,
        )
        for p in progress
        if p.timestep > after and p.rows_in and p.input_rows_per_second
    )


def seen(known: Pacing, new: Sequence[Sample], since: int) -> Pacing:
    """Return what is known after more timesteps. since: nothing from before it counts."""
    sizes = tuple(size for size in known.sizes if size.timestep >= since)
    for sample in new:
        sizes = learnt(sizes, sample) if sample.timestep >= since else sizes
    return replace(known, sizes=sizes, recent=(*known.recent, *new)[-RATE_OVER:])


class BatchInterval(Controller):
    """Sets the interval of timesteps by what they cost and how much arrives."""

    trigger = every(timesteps=1)

    def __init__(
        self,
        *,
        share: float = 0.8,
        latency_ms: float | None = None,
        overhead: float | None = None,
        least_ms: int = 20,
        most_ms: int = 60_000,
    ) -> None:
        """Take the goal. Raises RefusedError.

        share: of an interval that its timestep may be busy, 0.5 to 0.95. latency_ms: what interval and timestep may
        take together, where a longer interval would do. overhead: share of a timestep's time that may go into what
        does not depend on its rows; None = the interval is as short as `share` allows.
        """
        bounds = (latency_ms is None or latency_ms > 0) and (overhead is None or 0 < overhead < 1)
        if not (0.5 <= share <= 0.95 and 1 <= least_ms <= most_ms <= 86_400_000 and bounds):
            given = f"{share=}, {latency_ms=}, {overhead=}, {least_ms=}, {most_ms=}"
            rule = "0.5 <= share <= 0.95, latency_ms > 0, 0 < overhead < 1"
            pauses = "1 <= least_ms <= most_ms <= 86400000"
            raise RefusedError(f"BatchInterval({given}): give {rule}, {pauses}")
        self.goal = Goal(
            share=share,
            least_ms=least_ms,
            most_ms=most_ms,
            latency_ms=latency_ms,
            overhead=overhead,
        )

    def on_init(self) -> Pacing:
        """Nothing is known."""
        return Pacing()

    def on_begin(self, control: Control[Pacing]) -> None:
        """Learn from what was committed, and set another interval if the present one does not fit."""
        last = control.state.recent[-1:]
        new = samples(control.progress, last[0].timestep if last else 0)
        since = changed_besides(control.changes, set_interval.kind)
        known = control.state = seen(control.state, new, since)
        free = free_since(control.changes, JOB)
        if not new or not known.sizes or free is None or new[-1].timestep < free:
            return
        rate = sum(s.rows for s in known.recent) / sum(s.span_ms for s in known.recent)
        present = control.configuration.interval_ms
        chosen, course = next_interval(known.sizes, rate, present, self.goal, known.course)
        control.state = replace(known, course=course)
        if chosen != present:
            control.reconfigure(set_interval(chosen), reason=f"{rate * 1e3:,.0f} rows per second")
