"""A stream as a queue: a timestep over n rows takes a + b * n milliseconds, and begins an interval after the last."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rechannel.control.library.pacing import Course, Goal, Sample, Size, learnt, next_interval


@dataclass(frozen=True, kw_only=True)
class Queue:
    """What timesteps cost, and how quickly a decision takes effect."""

    a: float
    b: float
    delay: int = 1
    """After how many timesteps a decision holds."""
    noise: float = 0.0
    """By how much rows and times vary, as a share."""
    wild: float = 0.0
    """Standard deviation of the logarithm of times: a few timesteps take several times as long."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One timestep."""

    interval: int
    rows: int
    busy_ms: float
    lag_ms: float
    """From the arrival of its first row to its end."""
    chosen: int | None


def simulated(
    queue: Queue, rates: Sequence[float], goal: Goal, *, timesteps: int = 40, seed: int = 0
) -> list[list[Step]]:
    """Timesteps by step of load. rates: rows per millisecond."""
    rng = random.Random(seed)
    ended, began, interval, course = 0.0, 0.0, 0, Course()
    sizes: tuple[Size, ...] = ()
    recent: list[Sample] = []
    pending: tuple[int, int] | None = None
    out: list[list[Step]] = []
    for phase, rate in enumerate(rates):
        out.append([])
        for number in range(timesteps):
            timestep = phase * timesteps + number
            if pending is not None and pending[0] <= timestep:
                interval, pending = pending[1], None
            start = max(ended, began + interval) if timestep else 50.0
            span = start - began
            rows = max(1, round(rate * span * (1 + rng.uniform(-queue.noise, queue.noise))))
            busy = (queue.a + queue.b * rows) * (1 + rng.uniform(-queue.noise, queue.noise))
            busy *= rng.lognormvariate(0, queue.wild)
            began, ended = start, start + busy
            sample = Sample(timestep=timestep, rows=rows, busy_ms=busy, span_ms=span)
            sizes, recent = learnt(sizes, sample), [*recent, sample][-2:]
            seen = sum(s.rows for s in recent) / sum(s.span_ms for s in recent)
            held, chosen = interval, None
            if pending is None:
                new, course = next_interval(sizes, seen, interval, goal, course)
                if new != interval:
                    pending, chosen = (timestep + queue.delay, new), new
            step = Step(interval=held, rows=rows, busy_ms=busy, lag_ms=span + busy, chosen=chosen)
            out[-1].append(step)
    return out


def settled_at(steps: Sequence[Step]) -> int:
    """The number of the last timestep that led to another interval; -1 = none."""
    return max((n for n, step in enumerate(steps) if step.chosen is not None), default=-1)


def turns(steps: Sequence[Step]) -> int:
    """How often the interval changed its direction, from the first one on."""
    signs = [
        step.chosen > step.interval for step in steps if step.chosen is not None and step.interval
    ]
    return sum(one != other for one, other in pairwise(signs))
