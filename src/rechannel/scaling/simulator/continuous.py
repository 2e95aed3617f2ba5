"""A dataflow engine as Flink, Heron and Timely are: every instance has a core, a bounded queue, and works all the time.

Records are a fluid that moves once in every tick:

1. Every instance wishes to process what is in its queue, at most what it can in a tick; a source wishes to read what
   has arrived.
2. From the sinks upwards, each operator processes as much of its wish as all of its consumers have room for. One full
   queue stops all instances that send to it, since a record may be for it: that is back-pressure, and it reaches up to
   the sources, where what arrives waits. Producers with a consumer in common get the same share of their wishes.
3. What was sent is in the queues of the consumers, to be processed in the next tick.

So a record needs a tick for each operator at least, and latency is resolved to that. A change of parallelism spreads
the queued records anew; a queue that thereby holds more than fits accepts nothing until it has room. Nothing runs for
`pause_s` (a savepoint and a restart), or everything goes on (0: live). Cores are paid for all the time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from rechannel.errors import RefusedError
from rechannel.scaling.model.rates import Floats
from rechannel.scaling.policies.policy import Arrivals, Seen
from rechannel.scaling.simulator.dataflow import Dataflow
from rechannel.scaling.simulator.fluid import Reading, Working
from rechannel.scaling.simulator.operators import Operator, oracle
from rechannel.scaling.simulator.windows import Oracle, Window


class ContinuousEngine:
    """A simulated engine with a core for each instance. Sources need none, and report as one instance."""

    def __init__(
        self,
        dataflow: Dataflow[Operator],
        parallelism: Mapping[str, int] | None = None,
        *,
        pause_s: float = 0.0,
        tick_s: float = 1.0,
        noise: float = 0.0,
        seed: int = 0,
        low_watermark: float | None = None,
    ) -> None:
        """Start a dataflow.

        parallelism: instances by operator; 1 where absent. pause_s: for how long a change stops everything. noise:
        standard deviation of the logarithm of a random factor on each useful time that is reported, drawn with `seed`.
        low_watermark: share of a full queue; None = back-pressure is exact.

        Raises RefusedError for what cannot be, as a queue that holds less than a tick's work.
        """
        if not 0 < tick_s < math.inf or not 0 <= pause_s < math.inf or not 0 <= noise < math.inf:
            msg = f"tick_s={tick_s}, pause_s={pause_s}, noise={noise}: give a tick above 0, no negative time or noise"
            raise RefusedError(msg)
        if low_watermark is not None and not 0 <= low_watermark < 1:
            raise RefusedError(f"low_watermark={low_watermark}: give at least 0 and less than 1")
        for name, each in dataflow.operators.items():
            if each.queue_s < tick_s * max([1.0, *each.speeds]):
                msg = f"operator {name!r}: its queue holds {each.queue_s} s of work; give a shorter tick"
                raise RefusedError(msg)
        self._dataflow, self._tick_s, self._pause_s, self._noise = dataflow, tick_s, pause_s, noise
        self._random = np.random.default_rng(seed)
        self._now_s = self._paused_until_s = 0.0
        self._sources = {name: Reading(each) for name, each in dataflow.sources.items()}
        self._operators = {
            name: Working(each, low_watermark) for name, each in dataflow.operators.items()
        }
        self._parts = self._linked()
        self.change(parallelism or {}, None)
        self._paused_until_s = 0.0
        self.ticks = 0
        """Ticks that were computed so far."""

    @property
    def now_s(self) -> float:
        """Until when it was simulated, in seconds."""
        return self._now_s

    @property
    def parallelism(self) -> dict[str, int]:
        """Instances by operator."""
        return {name: each.parallelism for name, each in self._operators.items()}

    @property
    def cores(self) -> int:
        """Instances of all operators."""
        return sum(self.parallelism.values())

    @property
    def executors(self) -> None:
        """None: there are no executors to count."""
        return None

    def change(self, parallelism: Mapping[str, int], executors: int | None = None) -> None:
        """Give some operators other numbers of instances. Executors are not counted here."""
        for name, number in parallelism.items():
            if name not in self._operators or number < 1:
                msg = f"{number} instances of {name!r}: give at least 1, of one of {sorted(self._operators)}"
                raise RefusedError(msg)
        changed = {
            name: n for name, n in parallelism.items() if n != self._operators[name].parallelism
        }
        for name, number in changed.items():
            self._operators[name].spread(number)
        if changed:
            self._paused_until_s = self._now_s + self._pause_s

    def advance(self, until_s: float) -> Window:
        """Simulate until a time."""
        start = self._now_s
        if not start < until_s < math.inf:
            raise RefusedError(
                f"the engine is at {start} s: advance it to a later time, not to {until_s} s"
            )
        ticks = math.ceil((until_s - start) / self._tick_s * (1 - 1e-9))
        edges = np.linspace(start, until_s, ticks + 1)
        arriving = {name: each.source.load.arrivals(edges) for name, each in self._sources.items()}
        before = {name: each.queues() for name, each in self._operators.items()}
        for part in self._parts:
            part.begin()
        latency = self._run(edges, [arriving[name].tolist() for name in self._sources])
        self._now_s, self.ticks = until_s, self.ticks + ticks
        rates = {name: float(each.sum()) / (until_s - start) for name, each in arriving.items()}
        return Window(
            seen=self._seen(start, rates, before),
            at_s=edges[1:],
            spans_s=np.diff(edges),
            latency_s=latency,
            core_seconds=self.cores * (until_s - start),
        )

    def oracle(self, edges_s: Floats, *, utilisation: float = 1.0) -> Oracle:
        """Return the least instances that would have kept up between each of these times and the next."""
        return oracle(self._dataflow, edges_s, utilisation=utilisation)

    def held(self) -> dict[str, float]:
        """Return the records that each operator has in its queues, and each source in its backlog."""
        waiting = {name: each.backlog.records for name, each in self._sources.items()}
        return waiting | {name: sum(each.queues()) for name, each in self._operators.items()}

    def _linked(self) -> list[Reading | Working]:
        """Return sources and operators in topological order, each knowing its inputs and outputs."""
        graph = self._dataflow.topology
        parts: dict[str, Reading | Working] = {**self._sources, **self._operators}
        for name, part in parts.items():
            part.outputs = [
                (each, self._operators[each], self._dataflow.selectivity(name, each))
                for each in graph.consumers(name)
            ]
        for name, working in self._operators.items():
            working.inputs = [
                (parts[each], self._dataflow.selectivity(each, name)) for each in graph.inputs[name]
            ]
        return [parts[name] for name in graph.operators]

    def _run(self, edges: Floats, arriving: list[list[float]]) -> Floats:
        """Compute every tick; return the latency at the end of each."""
        times, latency = edges.tolist(), np.zeros(len(edges) - 1)
        upwards, sources = self._parts[::-1], [*self._sources.values()]
        for number, end in enumerate(times[1:]):
            for reading, amounts in zip(sources, arriving, strict=True):
                reading.arrive(times[number], end, amounts[number])
            span = min(end - times[number], end - self._paused_until_s)
            if span > 0:
                stopped = any(each.presses for each in self._operators.values())
                for reading in sources:
                    reading.stopped = stopped
                for part in self._parts:
                    part.wish(span)
                for part in upwards:
                    part.work(span)
                for part in self._parts:
                    part.send()
                for each in self._operators.values():
                    each.press(span)
            for reading in sources:
                reading.forget()
            latency[number] = max(part.age(end) for part in self._parts)
        return latency

    def _seen(
        self, start: float, rates: Mapping[str, float], before: Mapping[str, list[float]]
    ) -> Seen:
        window = self._now_s - start
        activities = {name: each.activity(window) for name, each in self._sources.items()}
        for name, each in self._operators.items():
            useful = each.useful_s()
            if self._noise:
                factors = np.exp(self._noise * self._random.standard_normal(len(useful)))
                useful = np.minimum(useful * factors, window)
            activities[name] = each.activity(window, useful, before[name])
        return Seen(
            start_s=start,
            end_s=self._now_s,
            topology=self._dataflow.topology,
            activities=activities,
            arrivals={
                name: Arrivals(rate=rates[name], backlog=each.backlog.records)
                for name, each in self._sources.items()
            },
        )
