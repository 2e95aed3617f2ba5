"""What helps against what binds, and how much it is expected to help. Pure.

    skew             rebalance bins; cut the heaviest bin and move its parts; spread a hot key; combine before sending
    machine          move bins away from tasks on slow executors; place tasks on other executors
    communication    combine before sending; place tasks near those that send to them
    scheduling       fewer tasks, if the policy of AutoScale wants fewer; a longer interval
    processing       AutoScale's: more tasks and executors

A gain is a share of a timestep, like that of a `Bound`: of the critical path that the bound has, the part that the
measured loads say is saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rechannel.control.library.binding import (
    LAUNCHING,
    Bound,
    Floats,
    Load,
    share_of,
    slowness_of,
)
from rechannel.control.library.heaviest import Heaviest
from rechannel.control.library.hotkeys import HotKeys, heats
from rechannel.control.library.placing import Decision as Placed
from rechannel.control.library.shifting import evened
from rechannel.control.library.skew import Cut, cut_of
from rechannel.control.library.spreading import tasks_for
from rechannel.model.buffers import IntArray
from rechannel.model.configuration import Combine, Configuration
from rechannel.model.routing import Routing
from rechannel.profiling.job.shares import CriticalShares
from rechannel.profiling.model.words import seconds
from rechannel.reconfigure.balance import load_of_tasks, rebalanced
from rechannel.reconfigure.changes.bins import rebalance
from rechannel.reconfigure.changes.change import JOB, Change
from rechannel.reconfigure.changes.pace import combine, set_interval
from rechannel.reconfigure.changes.resources import place
from rechannel.reconfigure.changes.spreading import spread
from rechannel.reconfigure.changes.tasks import AssignWorkload, rescale
from rechannel.reconfigure.changes.together import one_change

LEAVE = 0.1
"""Skew that is left: of the busiest task over the mean, minus 1."""
COMBINED = 0.5
"""Share of what binds that combining is assumed to save: how many rows it joins is not known before."""
MOST_GROWTH = 4.0
"""How many times as long as the time between two timesteps the next interval may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A change that is expected to help."""

    remedy: str
    """Its name, such as "split"."""
    change: Change
    gain: float
    """Share of a timestep that it is expected to save."""
    touched: tuple[str, ...]
    """What it sets: operators, or the job."""
    why: str

    @property
    def key(self) -> str:
        """Under which it is barred if it does not help."""
        return " ".join((self.remedy, *self.touched))


# Stragglers ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Straggling:
    """An operator with a straggler."""

    bound: Bound
    routing: Routing
    weights: Floats
    """Rows by bin."""
    at: IntArray
    """Executor of each task; of its own if they are not known or equally fast. Shape (tasks,)."""
    per_row: Floats
    """Time of a row on each executor, over that on one of usual speed with one core."""
    alike: bool
    """Whether all tasks are equally fast, so that only rows count."""

    @classmethod
    def of(
        cls,
        bound: Bound,
        routing: Routing,
        rows: Sequence[float],
        load: Load,
        cores: Mapping[str, int],
    ) -> Straggling:
        """Return it from what was measured. rows: by bin. cores: by executor."""
        known = bool(cores) and set(load.at) <= cores.keys()
        alike = not known or (bound.cause == "skew" and not bound.executors)
        names, slowness = list(cores), slowness_of([load], cores)
        at = range(routing.tasks) if alike else [names.index(executor) for executor in load.at]
        speeds = [slowness.get(e, 1.0) / count for e, count in cores.items()]
        return cls(
            bound=bound,
            routing=routing,
            weights=np.asarray(rows, dtype=np.float64),
            at=np.array(at, dtype=np.int64),
            per_row=np.ones(routing.tasks) if alike else np.array(speeds),
            alike=alike,
        )

    def knowing(self, found: HotKeys) -> Straggling:
        """Return it with as many rows in the bins of the heaviest keys as these have in a timestep now.

        The rows of bins are those of many timesteps. found: the operator's heaviest keys.
        """
        weights, total = self.weights.copy(), float(self.weights.sum())
        for heat in heats(found, {}):
            bin_ = self.routing.bin_of(heat.hash)
            weights[bin_] = max(weights[bin_], heat.share * total)
        return replace(self, weights=weights)

    def time(self, routing: Routing, weights: Floats) -> float:
        """Return what a turn takes, in rows on an executor of usual speed."""
        load = np.bincount(self.at, load_of_tasks(routing, weights), minlength=len(self.per_row))
        return float((load * self.per_row).max())

    def even(self, routing: Routing, weights: Floats) -> Routing:
        """Return bins moved so that a turn is short."""
        if self.alike:
            return rebalanced(routing, weights.tolist(), LEAVE)
        return evened(routing, weights, self.at, self.per_row)

    def proposed(self, remedy: str, change: Change, time: float, why: str) -> Proposal:
        """Return a proposal after which a turn takes a time."""
        gain = self.bound.share * max(0.0, 1 - time / self.time(self.routing, self.weights))
        touched = (self.bound.operator,)
        why = f"{self.bound.why}; {why}"
        return Proposal(remedy=remedy, change=change, gain=gain, touched=touched, why=why)

    def moved(self) -> Proposal:
        """Return the proposal to move bins."""
        made, name = self.even(self.routing, self.weights), self.bound.operator
        time = self.time(made, self.weights)
        if self.alike:
            change: Change = rebalance(name, tolerance=LEAVE)
            return self.proposed("rebalance", change, time, "moving bins evens it out")
        change = AssignWorkload(name, made.starts, made.owners, made.tasks)
        return self.proposed("shift", change, time, "tasks on slow executors get fewer bins")


def against_skew(
    of: Straggling, configuration: Configuration, found: HotKeys
) -> Iterator[Proposal]:
    """Yield what helps against skew. found: the operator's heaviest keys in a timestep."""
    of = of.knowing(found)
    name, routing, weights = of.bound.operator, of.routing, of.weights
    total, now = float(weights.sum()), of.time(routing, weights)
    yield of.moved()
    heaviest = heaviest_of(found)
    cut = cut_of(routing, weights.tolist(), heaviest, LEAVE)
    if cut.into > 1:
        parts, heat = cut_up(routing, weights, cut, heaviest)
        even = of.even(parts, heat)
        change = AssignWorkload(name, even.starts, even.owners, even.tasks)
        why = f"bin {cut.bin} is too heavy to move"
        yield of.proposed("split", change, of.time(even, heat), why)
    hot = next(iter(heats(found, {})), None)
    if hot is not None and hot.share * routing.tasks > 1 and not routing.spreads:
        over = tasks_for(hot.share * routing.tasks, routing.tasks)
        left = max(now - hot.share * total * (1 - 1 / over), total / routing.tasks)
        why = f"the key {hot.key} has {hot.share:.0%} of the rows"
        yield of.proposed("spread", spread(name, hash=hot.hash, over=over), left, why)
        if configuration.operators[name].combine is Combine.OFF:
            left = now - COMBINED * (now - left)
            yield of.proposed("combine", combine(name, "on"), left, why)


def heaviest_of(found: HotKeys) -> Heaviest:
    """Return the heaviest key of an operator with its rows."""
    if not found.keys:
        return Heaviest(rows=found.rows)
    top = found.keys[0]
    return Heaviest(rows=found.rows, key=top.key, hash=top.hash, key_rows=top.received)


def cut_up(
    routing: Routing,
    weights: Floats,
    cut: Cut,
    heaviest: Heaviest,
) -> tuple[Routing, Floats]:
    """Return the routing with a bin in parts, and the expected rows of every bin: those of a key stay together."""
    lo, hi = routing.span(cut.bin)
    inner = [lo + (hi - lo) * i // cut.into for i in range(1, cut.into)]
    parts = routing.with_starts(sorted({*routing.starts, *inner}))
    key = 0.0
    if lo <= heaviest.hash < hi and heaviest.rows:
        key = min(weights[cut.bin], heaviest.key_rows / heaviest.rows * weights.sum())
    each = np.full(cut.into, (weights[cut.bin] - key) / cut.into)
    heat = np.concatenate([weights[: cut.bin], each, weights[cut.bin + 1 :]])
    if key:
        heat[parts.bin_of(heaviest.hash)] += key
    return parts, heat


# Machines, communication -----------------------------------------------------------------------------


def placed(bound: Bound, found: Placed | None, mean_ms: float) -> Iterator[Proposal]:
    """Yield the placement that was found, if it helps."""
    if found is None or not mean_ms:
        return
    moves = [place(n, task, at) for n, of in found.places.items() for task, at in enumerate(of)]
    then, now = seconds(found.then_ms / 1e3), seconds(found.now_ms / 1e3)
    yield Proposal(
        remedy="place",
        change=one_change(moves),
        gain=min(bound.share, found.gain_ms / mean_ms),
        touched=tuple(found.places),
        why=f"{bound.why}; its tasks would take {then} instead of {now} elsewhere",
    )


def combined(bound: Bound, configuration: Configuration) -> Iterator[Proposal]:
    """Yield the operators to which rows could be combined before they are sent."""
    for name, operator in configuration.operators.items():
        if operator.combine is Combine.OFF and operator.routing is not None:
            yield Proposal(
                remedy="combine",
                change=combine(name, "on"),
                gain=COMBINED * bound.share,
                touched=(name,),
                why=f"{bound.why}, and rows for {name!r} are not combined before they are sent",
            )


# Scheduling ------------------------------------------------------------------------------------------


def fewer_tasks(
    bound: Bound, shares: CriticalShares, configuration: Configuration, wanted: Mapping[str, int]
) -> Iterator[Proposal]:
    """Yield fewer tasks of all operators, and of each alone, as one of them may be refused.

    wanted: tasks by operator that the policy of AutoScale would have now.
    """
    now = {name: operator.tasks for name, operator in configuration.operators.items()}
    fewer = {name: tasks for name, tasks in wanted.items() if tasks < now.get(name, 0)}
    if fewer:
        yield _with_fewer(bound, shares, now, fewer)
    if len(fewer) > 1:
        for name, tasks in fewer.items():
            yield _with_fewer(bound, shares, now, {name: tasks})


def _with_fewer(
    bound: Bound, shares: CriticalShares, now: Mapping[str, int], fewer: Mapping[str, int]
) -> Proposal:
    after = sum({**now, **fewer}.values()) / sum(now.values())
    told = ", ".join(f"{name} {now[name]} -> {tasks}" for name, tasks in fewer.items())
    return Proposal(
        remedy="fewer tasks",
        change=one_change([rescale(name, tasks) for name, tasks in fewer.items()]),
        gain=share_of(shares, LAUNCHING) * (1 - after),
        touched=tuple(fewer),
        why=f"{bound.why}, for tasks that are too small: {told}",
    )


def longer_interval(
    bound: Bound, shares: CriticalShares, present_ms: int, utilisation: float, longest_ms: float
) -> Iterator[Proposal]:
    """Yield a longer interval: what does not depend on rows comes less often.

    Of an interval I a timestep takes a / I + r, where a is the time that binds and r the share that the rows of an
    interval take of it. The shortest that is kept at the utilisation u is a / (u - r), as in `pacing.py`. Timesteps
    that are late follow each other, and each reads what has arrived while the one before ran: their period is how long
    they take. The gain is a share of the time that the rows of one present period take.

    longest_ms: the bound that a latency sets.
    """
    if present_ms <= 0:
        return
    period_ms = max(present_ms, shares.mean_ms)
    fixed_ms = bound.share * shares.mean_ms
    rest = (shares.mean_ms - fixed_ms) / period_ms
    needed = fixed_ms / (utilisation - rest) if rest < utilisation else float("inf")
    chosen = int(min(np.ceil(needed), MOST_GROWTH * period_ms, longest_ms))
    if chosen <= period_ms:
        return
    yield Proposal(
        remedy="longer interval",
        change=set_interval(chosen),
        gain=bound.share * (1 - period_ms / chosen),
        touched=(JOB,),
        why=f"{bound.why}, and comes less often every {chosen} than every {present_ms} ms",
    )


def best_of(proposals: Iterable[Proposal], least: float) -> Proposal | None:
    """Return the one with the largest gain; the earlier of two unless the later gains 5 % of a timestep more."""
    best: Proposal | None = None
    for each in proposals:
        if each.gain >= least and (best is None or each.gain > best.gain + 0.05):
            best = each
    return best


def at_places(load: Load, places: Mapping[int, str]) -> Load:
    """Return a load with where its tasks are placed now, if that is known of all."""
    at = tuple(places.get(task, "") for task in range(len(load.rows)))
    return replace(load, at=at) if all(at) else load
