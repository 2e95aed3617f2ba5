"""BatchInterval, in a running stream whose timesteps cost what the test says."""

from itertools import pairwise

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.errors import RefusedError
from rechannel.testing import Harness, ManualClock

FIXED_MS, PER_ROW_MS = 40.0, 0.5


class Queue:
    """Pushes rows as time passes, and lets timesteps take their time."""

    def __init__(self, **goal: float) -> None:
        self.clock = ManualClock()
        self.rows = rc.sources.MemoryConnector(schema=pa.schema({"k": pa.int64()}))
        keyed = rc.read().memory(self.rows).key_by("k")
        counts = keyed.aggregate(n=rc.aggregates.count(), name="counts")
        self.stream = Harness(counts.write.memory("out"), clock=self.clock)
        self.busy: dict[int, int] = {}
        self.process = self.stream.start(
            controllers=[rc.control.library.BatchInterval(**goal)], task_faults=self.cost
        )
        self.pushed_ms = self.clock.now_ms

    def cost(self, operator: str, timestep: int, task: int, attempt: int) -> None:
        """Not a fault: it takes the time of the timestep, once."""
        if timestep not in self.busy:
            self.busy[timestep] = rows = self.waiting
            self.waiting = 0
            self.clock.advance(FIXED_MS + PER_ROW_MS * rows)

    waiting = 0

    def run(self, rate: float, timesteps: int) -> list[int]:
        """The intervals of so many timesteps. rate: rows per millisecond."""
        until = len(self.busy) + timesteps
        intervals = []
        while len(self.busy) < until:
            count = int((self.clock.now_ms - self.pushed_ms) * rate)
            if count:
                self.rows.push([{"k": n % 10} for n in range(count)])
                self.waiting += count
                self.pushed_ms += count / rate
            if not self.process.step():
                self.clock.advance(5)
            intervals.append(self.process.position.configuration.interval_ms)
        return intervals


def directions(intervals: list[int]) -> list[bool]:
    return [one < other for one, other in pairwise(intervals) if one != other]


def test_the_interval_follows_the_load_and_does_not_oscillate():
    queue = Queue()
    for factor in (1, 2, 4, 1):
        rate = 0.3 * factor  # 15 to 60 % of the capacity
        ways = directions(queue.run(rate, 25))
        assert sum(one != other for one, other in pairwise(ways)) <= 1
        interval = queue.process.position.configuration.interval_ms
        shortest = FIXED_MS / (0.8 - rate * PER_ROW_MS)
        assert 0.8 * shortest <= interval <= 2 * shortest
        assert directions(queue.run(rate, 10)) == []
    causes = {record.cause for record in queue.process.changes.coordination.records}
    assert all(cause.startswith("controller 'batchinterval': ") for cause in causes)


def test_goals_that_make_no_sense_are_refused():
    with pytest.raises(RefusedError, match=r"give 0.5 <= share <= 0.95"):
        rc.control.library.BatchInterval(share=1.0)
    with pytest.raises(RefusedError, match=r"share=0.4"):
        rc.control.library.BatchInterval(share=0.4)
    with pytest.raises(RefusedError, match=r"1 <= least_ms <= most_ms <= 86400000"):
        rc.control.library.BatchInterval(least_ms=0)
    with pytest.raises(RefusedError, match=r"0 < overhead < 1"):
        rc.control.library.BatchInterval(overhead=2)
