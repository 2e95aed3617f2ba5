"""DS2 for a micro-batch engine: from the tasks of the last windows to executors, and tasks per operator. Pure.

One evaluation:

1. The tasks of the window join the samples (`samples.py`), and a line through them says for each operator what is fixed
   and what is per row (`model/fits.py`).
2. What arrives, averaged over the last windows (`averaging.py`; a window in which it has grown has only a part of the
   growth, so a short one is not decided on), travels downstream by the measured selectivities: DS2's targets. With a
   backlog, it is what arrives and the backlog over the catch-up time, for which the cores may be used fully, if that is
   more. The backlog is that of when the decision holds: a stream that reads less than arrives leaves the rest until
   then.
3. Timesteps take longer than the model says, for reasons that no task reports: that multiplies all costs
   (`offsets.py`).
4. The least cores keep the interval at the utilisation (`model/cores.py`), for the costs as fitted and for both ends of
   their interval: these are the ends of the answer's interval. Cores are rounded up to executors. Fewer executors than
   there are must be enough at both ends, and without any remedy for skew.
5. On those cores, each operator gets the tasks of its shortest turn. It keeps those that it has if its turn is hardly
   longer with them.

Operators of which no task was seen keep their tasks, and the stream its executors at least.

Skewed rows are an argument for another change than more tasks (`skew.py`); the answer is for the time after it, and
says what would be needed without. The evidence names what binds, and what the answer hangs on: the operator whose
turn differs most between the ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rechannel.errors import RefusedError
from rechannel.scaling.model.cores import Taken, Turns, least_cores_each
from rechannel.scaling.model.fits import ESTIMATE, FLAT, STEEP, Costs, task_costs
from rechannel.scaling.model.optimal import targets_of
from rechannel.scaling.model.rates import ALL, Floats
from rechannel.scaling.model.timesteps import Pace
from rechannel.scaling.policies.answers import Answer, advice_of, differs, enough
from rechannel.scaling.policies.averaging import Windows, mean, with_window
from rechannel.scaling.policies.judging import read_share
from rechannel.scaling.policies.offsets import Offsets
from rechannel.scaling.policies.policy import Activity, Advice, Cores, Memory, Seen
from rechannel.scaling.policies.samples import Samples, added, for_operators
from rechannel.scaling.policies.skew import heaviest, skews

MOST_TASKS = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What is remembered from one window to the next."""

    samples: Samples
    ratios: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Selectivities of edges (producer, consumer), as last measured."""
    offsets: Offsets = field(default_factory=Offsets)
    arrived: Windows = field(default_factory=dict)
    waited: bool = False
    """Whether the last window was not decided on, since what arrives had just changed."""


JUST_CHANGED = Advice(reason="what arrives has just changed; one more window tells by how much")
SHORT = 2.0
"""Intervals that a window has at most to be waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestepDs2:
    """The cores that keep the interval, and the tasks with which timesteps are shortest on them."""

    utilisation: float = 0.8
    """Share of the interval that may be used."""
    catch_up_s: float | None = 60.0
    """Seconds within which a backlog is to be worked off; None = backlogs do not count."""
    delay_s: float = 0.0
    """Seconds until a decision holds. What arrives meanwhile beyond what the stream processes is backlog then."""
    average_s: float = 60.0
    """Over how long the rate of what arrives is averaged; 0 = the last window."""
    jump: float = 0.3
    """By which share a window's rate must differ from the average to be another load, from which it begins anew."""
    most_cores: int = 10_000
    least_cores: int = 1
    """That are there anyway: tasks are divided over them."""
    gain: float = 0.05
    """By which share of it, and of the mean turn, a turn must become shorter for its tasks to be changed."""
    most_offset: float = 2.0
    """Largest correction for time that no task reports; 1 = none."""

    def __post_init__(self) -> None:
        """Check the settings. Raises RefusedError."""
        if not 0 < self.utilisation <= 1 or (self.catch_up_s is not None and self.catch_up_s <= 0):
            raise RefusedError(f"{self}: give 0 < utilisation <= 1 and a catch-up time above 0")
        if not (0 <= self.average_s < math.inf and 0 <= self.delay_s < math.inf and self.jump >= 0):
            raise RefusedError(f"{self}: give times and a jump that are not negative")
        cores = 1 <= self.least_cores <= self.most_cores
        if not cores or self.gain < 0 or self.most_offset < 1:
            rule = "1 <= least_cores <= most_cores, an offset of at least 1, and a gain >= 0"
            raise RefusedError(f"{self}: give {rule}")

    def decide(self, seen: Seen, memory: Memory) -> tuple[Advice | None, Memory]:
        """Return executors and tasks; None if all is well. Raises RefusedError for an engine without timesteps."""
        answer, state = self._answered(seen, memory)
        if _just_changed(seen, memory, state):
            return JUST_CHANGED, replace(state, waited=True)
        if answer is None or not differs(seen, answer):
            return None, state
        return advice_of(seen, answer), state

    def in_full(self, seen: Seen, memory: Memory) -> tuple[Advice | None, Learned]:
        """Return the advice with its evidence even if nothing is to be changed; None as long as no task was seen."""
        answer, state = self._answered(seen, memory)
        return (None if answer is None else advice_of(seen, answer)), state

    def _answered(self, seen: Seen, memory: Memory) -> tuple[Answer | None, Learned]:
        if seen.cores is None or seen.cores.interval_ms <= 0:
            msg = "this policy is for timesteps: give the cores of the engine and its interval"
            raise RefusedError(msg)
        received = {n: e.reports.received for n, e in seen.activities.items()}
        arrived = with_window(
            {} if memory is None else memory.arrived,
            seen.arrivals,
            seen.window_s,
            average_s=self.average_s,
            jump=self.jump,
        )
        state = learned(seen, received, memory, arrived)
        return self._answer(seen, seen.cores, received, state)

    def _answer(
        self, seen: Seen, cores: Cores, received: Mapping[str, float], state: Learned
    ) -> tuple[Answer | None, Learned]:
        """Return what is needed; None as long as no task was seen."""
        costs = task_costs(state.samples.rows, state.samples.ms, state.samples.there)
        names = state.samples.operators
        if not costs.known.any():
            return None, state
        pace = self._pace(cores)
        active = [seen.activities[name] for name in names]
        present = np.array([float(each.reports.parallelism) for each in active])
        total = np.array([received[name] for name in names])
        times = heaviest(active, total, present)
        offsets = state.offsets.with_window(seen, cores, received)
        if cores.in_flight == 1:  # else timesteps wait for each other
            offsets = offsets.compared(
                lambda rows: _predicted_ms(
                    cores, pace, costs, np.array([rows[n] for n in names]), times, present
                ),
                self.most_offset,
            )
        state, offset = replace(state, offsets=offsets), offsets.offset
        targets, loads = self._targets(seen, state)
        now = _turns(costs, offset, times, active, np.array([loads[name] for name in names]), pace)
        found = skews(active, times, now.rows_ms[ESTIMATE], present, pace.room_ms)
        turns = replace(now, heaviest=found.remains) if found.remedies else now
        needed, keeps = least_cores_each(turns, pace, most=self.most_cores)
        without = int(needed[ESTIMATE])
        if found.remedies:
            without = int(least_cores_each(now, pace, most=self.most_cores)[0][ESTIMATE])
        if not costs.known.all():
            needed = np.maximum(needed, cores.executors * cores.cores_per_executor)
        executors = enough(int(needed[ESTIMATE]), max(int(needed.max()), without), cores)
        executors = max(executors, -(-self.least_cores // cores.cores_per_executor))
        slots = executors * cores.cores_per_executor
        answer = Answer(
            operators=names,
            cores=cores,
            turns=turns,
            pace=pace,
            costs=costs,
            skews=found,
            targets=targets,
            offset=offset,
            needed=(int(needed[ESTIMATE]), int(needed[FLAT]), int(needed[STEEP])),
            without_remedies=without,
            keeps=bool(keeps[ESTIMATE]),
            executors=executors,
            taken=self._taken(present, turns, pace, float(slots)),
        )
        return answer, state

    def _pace(self, cores: Cores) -> Pace:
        return Pace(
            interval_ms=cores.interval_ms,
            utilisation=self.utilisation,
            in_flight=cores.in_flight,
            driver_ms=cores.driver_ms,
            launch_ms=cores.launch_ms,
        )

    def _targets(self, seen: Seen, state: Learned) -> tuple[dict[str, float], dict[str, float]]:
        """Return the records per second that will reach every operator, and those that need cores at the utilisation.

        The second are fewer where a backlog is worked off, as that may use the cores fully.
        """
        rates = {name: mean(state.arrived[name]) for name in seen.arrivals}
        if self.catch_up_s is None:
            targets = targets_of(seen.topology, state.ratios, rates)
            return targets, targets
        missed = _missed(seen) * self.delay_s
        due, loads = {}, {}
        for name, each in seen.arrivals.items():
            backlog = each.backlog + missed * rates[name]
            due[name] = rates[name] + backlog / self.catch_up_s
            loads[name] = max(rates[name], self.utilisation * due[name])
        targets = targets_of(seen.topology, state.ratios, due)
        if loads == due:
            return targets, targets
        return targets, targets_of(seen.topology, state.ratios, loads)

    def _taken(self, present: Floats, turns: Turns, pace: Pace, slots: float) -> Taken:
        """Return what the best tasks of each operator take, or those that it has if they are nearly as good."""
        cores = np.full((1, 1), slots)
        best = turns.at_best(pace, cores)
        least, took = best.turns_ms, turns.took(pace, present, cores)
        mean = least.mean(axis=-1, keepdims=True)
        change = took - least > self.gain * np.maximum(least, mean)
        tasks, turns_ms = np.where(change, best.tasks, present), np.where(change, least, took)
        kept = turns.taken(pace, tasks, cores, turns_ms)
        return kept if kept.used[ESTIMATE] <= 1 else best


def _missed(seen: Seen) -> float:
    """Return the share of what arrives that is left even if timesteps follow each other at once."""
    if seen.cores is None:
        return 0.0
    took_s = sum(seen.cores.durations_ms) / 1e3 / seen.cores.in_flight
    return max(0.0, 1 - read_share(seen, took_s)) if took_s else 0.0


def _just_changed(seen: Seen, before: Learned | None, now: Learned) -> bool:
    """Whether more arrives from this window on than before, and the next one is to be waited for.

    A window in which the load grows has a part of the growth. If it has one or two timesteps, the next is there soon.
    """
    interval_ms = 0.0 if seen.cores is None else seen.cores.interval_ms
    if before is None or before.waited or seen.window_s * 1e3 > SHORT * interval_ms + 1:
        return False
    known = [(before.arrived.get(source, ()), kept) for source, kept in now.arrived.items()]
    return any(len(old) > 1 and len(new) == 1 and new[0][1] > mean(old) for old, new in known)


def _predicted_ms(
    cores: Cores, pace: Pace, costs: Costs, rows: Floats, times: Floats, tasks: Floats
) -> float:
    """Return what a timestep takes with the tasks and cores that there are, by the model."""
    did = Turns(
        rows=rows,
        fixed_ms=costs.fixed_ms[ESTIMATE],
        row_ms=costs.row_ms[ESTIMATE],
        heaviest=times,
        most_tasks=tasks,
    )
    slots = np.array([float(max(1, cores.executors * cores.cores_per_executor))])
    return pace.driver_ms + float(did.took(pace, tasks, slots).sum())


def _turns(
    costs: Costs,
    offset: float,
    times: Floats,
    active: Sequence[Activity],
    loads: Floats,
    pace: Pace,
) -> Turns:
    """Return what the operators have to do, with the skew that they have."""
    return Turns(
        rows=loads * pace.interval_ms / 1e3,
        fixed_ms=costs.fixed_ms * offset,
        row_ms=costs.row_ms * offset,
        heaviest=times,
        most_tasks=np.array([float(each.most_tasks or MOST_TASKS) for each in active]),
    )


def learned(seen: Seen, received: Mapping[str, float], memory: Memory, arrived: Windows) -> Learned:
    """Return what is known after one more window. received: rows, by operator. arrived: with this window."""
    operators = tuple(
        name
        for name in seen.topology.operators
        if name in seen.activities
        and (seen.topology.inputs[name] or seen.activities[name].tasks is not None)
    )
    before: Learned | None = memory
    samples = for_operators(None if before is None else before.samples, operators)
    tasks = {n: t for n in operators if (t := seen.activities[n].tasks) is not None}
    ratios = {} if before is None else dict(before.ratios)
    for consumer, inputs in seen.topology.inputs.items():
        for producer in inputs:
            ratio = _ratio(seen, received, producer, consumer)
            if ratio is not None:
                ratios[producer, consumer] = ratio
            elif (producer, consumer) not in ratios:
                ratios[producer, consumer] = 0.0 if seen.topology.inputs[producer] else 1.0
    return Learned(
        samples=added(samples, tasks),
        ratios=ratios,
        offsets=Offsets() if before is None else before.offsets,
        arrived=arrived,
    )


def _ratio(seen: Seen, received: Mapping[str, float], producer: str, consumer: str) -> float | None:
    """Records sent to a consumer per record received; None if the window does not tell."""
    if producer not in seen.activities:
        return None
    reports = seen.activities[producer].reports
    total = received[producer]
    sent = reports.records_out.get(consumer, reports.records_out.get(ALL))
    if sent is None:
        return 0.0 if total and seen.topology.inputs[producer] else None
    return sent / total if total else None
