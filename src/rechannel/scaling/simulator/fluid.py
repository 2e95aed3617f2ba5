"""Sources and operators of the continuous engine, with what is in their queues: see `continuous.py` for the rules.

Each is computed for groups of equal instances, so the cost of a tick does not depend on the parallelism. A window
begins with `begin`; each tick then calls `wish` on all, `work` from the sinks upwards, and `send` on all.
"""

from __future__ import annotations

import math

import numpy as np

from rechannel.scaling.model.rates import Floats, Reports
from rechannel.scaling.policies.policy import Activity
from rechannel.scaling.simulator.backlog import Backlog
from rechannel.scaling.simulator.dataflow import Source
from rechannel.scaling.simulator.instances import groups
from rechannel.scaling.simulator.operators import Operator


class Reading:
    """A source."""

    __slots__ = ("backlog", "blocked_s", "done", "outputs", "read", "source", "stopped", "wanted")

    def __init__(self, source: Source) -> None:
        self.source, self.backlog = source, Backlog()
        self.outputs: list[tuple[str, Working, float]] = []
        self.wanted = self.done = 0.0
        self.stopped = False
        self.begin()

    def begin(self) -> None:
        """Forget what was counted."""
        self.read = self.blocked_s = 0.0

    def arrive(self, since_s: float, until_s: float, records: float) -> None:
        """Have records arrive."""
        self.backlog.add(since_s, until_s, records)

    def forget(self) -> None:
        """Drop what could not be read, if the source does not keep it."""
        if not self.source.keeps:
            self.backlog.clear()

    def wish(self, span_s: float) -> None:
        """Determine what there is to read in a span of time."""
        self.wanted = min(self.backlog.records, self.source.limit * span_s)

    def work(self, span_s: float) -> None:
        """Read what all consumers have room for."""
        part = 0.0 if self.stopped else 1.0
        part = min([part, *[consumer.admits for _, consumer, _ in self.outputs]])
        self.done = self.wanted * part
        if self.wanted:
            limit = self.source.limit
            waited = (self.wanted - self.done) / limit if limit < math.inf else (1 - part) * span_s
            self.blocked_s += waited
            self.read += self.done
            self.backlog.take(self.done)

    def send(self) -> None:
        """Send what was read."""
        for _, consumer, selectivity in self.outputs:
            consumer.receive(self.done * selectivity)

    def age(self, now_s: float) -> float:
        """Return how long the oldest unread record has been waiting."""
        return self.backlog.age_s(now_s)

    def activity(self, window_s: float) -> Activity:
        """Return what was counted in a window."""
        useful = self.read / self.source.limit
        reports = Reports(
            parallelism=1,
            records_in=np.array([self.read]),
            useful_s=np.array([useful]),
            records_out={name: self.read * each for name, _, each in self.outputs},
        )
        return Activity(reports=reports, blocked=min(1.0, self.blocked_s / window_s))


class Working:
    """An operator and its instances, by groups of equal ones. Lists have one entry for each group."""

    __slots__ = (
        "admits", "blocked_s", "counts", "delay_s", "done", "inputs", "low", "operator", "outputs", "pace",
        "parallelism", "pressed_s", "pressing", "queued", "received", "shares", "speeds", "wanted", "wishes",
    )  # fmt: skip

    def __init__(self, operator: Operator, low: float | None = None) -> None:
        """low: share of a full queue down to which it causes back-pressure; None = it has no more than fits."""
        self.operator, self.low = operator, low
        self.outputs: list[tuple[str, Working, float]] = []
        self.inputs: list[tuple[Reading | Working, float]] = []
        self.counts: list[int] = []
        self.queued: list[float] = []
        self.wanted = self.done = self.delay_s = 0.0
        self.admits = 1.0
        self.spread(1)

    def spread(self, parallelism: int) -> None:
        """Have another number of instances, and distribute what is queued."""
        total = sum(self.queues())
        alike = groups(parallelism, self.operator.heavy, self.operator.speeds)
        self.parallelism = parallelism
        self.counts = [each.count for each in alike]
        self.shares = [each.share for each in alike]
        self.speeds = [each.speed for each in alike]
        self.queued = [total * each.share for each in alike]
        self.wishes = [0.0] * len(alike)
        self.pressing = [False] * len(alike)
        self.pace = self.operator.rate_at(parallelism) * (1 - self.operator.unobserved)
        self.begin()

    def begin(self) -> None:
        """Forget what was counted."""
        self.received = [0.0] * len(self.counts)
        self.blocked_s = [0.0] * len(self.counts)
        self.pressed_s = [0.0] * len(self.counts)

    def wish(self, span_s: float) -> None:
        """Determine what every instance would process in a span of time."""
        can, total = self.pace * span_s, 0.0
        for number, speed in enumerate(self.speeds):
            queued = self.queued[number]
            wish = queued if queued < can * speed else can * speed
            self.wishes[number] = wish
            total += wish * self.counts[number]
        self.wanted = total

    def work(self, span_s: float) -> None:
        """Process what the consumers have room for; then say which part of the wishes of its producers has room."""
        part, total = 1.0, 0.0
        for _, consumer, _ in self.outputs:
            part = min(part, consumer.admits)
        for number, wish in enumerate(self.wishes):
            done = wish * part
            self.queued[number] -= done
            self.received[number] += done
            self.blocked_s[number] += (wish - done) / (self.pace * self.speeds[number])
            total += done * self.counts[number]
        self.done = total
        coming = 0.0
        for producer, selectivity in self.inputs:
            coming += producer.wanted * selectivity
        self.admits = 1.0
        if coming and self.low is None:
            most = self.operator.queue
            for queued, share in zip(self.queued, self.shares, strict=True):
                if coming * share > most - queued:
                    self.admits = min(self.admits, max(0.0, most - queued) / (coming * share))

    def send(self) -> None:
        """Send what was emitted."""
        for _, consumer, selectivity in self.outputs:
            consumer.receive(self.done * selectivity)

    def press(self, span_s: float) -> None:
        """Determine which instances cause back-pressure from now on, and count the time for which they did."""
        if self.low is None:
            return
        high = self.operator.queue
        for number, queued in enumerate(self.queued):
            if self.pressing[number]:
                self.pressed_s[number] += span_s
            self.pressing[number] = queued > (self.low * high if self.pressing[number] else high)

    @property
    def presses(self) -> bool:
        """Whether an instance causes back-pressure that stops all sources."""
        return any(self.pressing)

    def receive(self, records: float) -> None:
        """Put records into the queues."""
        for number, share in enumerate(self.shares):
            self.queued[number] += records * share

    def age(self, now_s: float) -> float:
        """Return how old a record is that is through next: what the oldest producer has, and the longest queue."""
        longest = 0.0
        for queued, speed in zip(self.queued, self.speeds, strict=True):
            longest = max(longest, queued / speed)
        self.delay_s = max(
            each.delay_s if isinstance(each, Working) else each.age(now_s)
            for each, _ in self.inputs
        )
        self.delay_s += longest / self.pace
        return self.delay_s

    def queues(self) -> list[float]:
        """Return the records in the queue of each instance."""
        return self._each(self.queued)

    def useful_s(self) -> Floats:
        """Return the useful time of each instance, in seconds."""
        rate = self.operator.rate_at(self.parallelism)
        each = [
            done / (rate * speed) for done, speed in zip(self.received, self.speeds, strict=True)
        ]
        return np.array(self._each(each))

    def activity(self, window_s: float, useful_s: Floats, before: list[float]) -> Activity:
        """Return what was counted in a window."""
        received = np.array(self._each(self.received))
        total = float(received.sum())
        reports = Reports(
            parallelism=self.parallelism,
            records_in=received,
            useful_s=useful_s,
            records_out={name: total * each for name, _, each in self.outputs},
        )
        return Activity(
            reports=reports,
            blocked=min(1.0, max(self.blocked_s) / window_s),
            pressing=() if self.low is None else self._pressing(window_s),
            queued=tuple(self.queues()),
            queued_before=tuple(before),
        )

    def _pressing(self, window_s: float) -> tuple[float, ...]:
        return tuple(min(1.0, pressed / window_s) for pressed in self._each(self.pressed_s))

    def _each(self, figures: list[float]) -> list[float]:
        """Return the figures of groups for each instance."""
        return [
            figure for figure, count in zip(figures, self.counts, strict=True) for _ in range(count)
        ]
