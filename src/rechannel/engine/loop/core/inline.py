"""Which timesteps the driver runs itself: small ones, if nothing of them needs Spark. Pure.

A timestep is a function of its input and of the state before it, wherever it runs and however it is cut into tasks. So
the driver runs a small one with one task of each operator, as if the stream had been rescaled for this timestep alone:
the state is the same, in the same files, and the next timestep may run on Spark again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from rechannel.engine.loop.core.state import LoopState
from rechannel.engine.program.physical import PhysicalPlan, SourceFrame, Stage
from rechannel.engine.stages.runner import Timestep
from rechannel.model.configuration import Configuration, OperatorConfiguration
from rechannel.model.hashspace import Intervals
from rechannel.model.routing import Routing
from rechannel.state.manifest import Manifest
from rechannel.state.merging import plan_merges

MERGED_PER_ROW = 32
"""Rows that a timestep of the driver may merge, for each that it may read: merging is sequential work."""
MOST_RUNS = 2_048
"""Of an operator's state, in a timestep of the driver: one task looks at all of them."""


@dataclass(kw_only=True)
class Choice:
    """Chooses the timesteps that the driver runs itself."""

    rows: int
    """That such a timestep reads at most; 0 = the driver runs none."""
    native: Callable[[str], bool]
    """Whether tasks read a source themselves, by its name."""
    _known: tuple[PhysicalPlan, Configuration, Configuration | None] | None = field(
        default=None, init=False
    )

    def __call__(self, timestep: Timestep, state: LoopState, *, rewrites: bool = False) -> Timestep:
        """Return a timestep as it runs: in the driver, with `inline`, or on Spark, without.

        rewrites: whether it writes state anew for a change.
        """
        timestep = replace(timestep, inline=None)  # it may have been tried before
        if not self.rows or rewrites or timestep.controls or state.timesteps.failures:
            return timestep
        if _rows_of(timestep) > self.rows:
            return timestep
        one = self._in_one_task(state.plan, timestep.configuration)
        if one is None or _merged(timestep.number, state) > MERGED_PER_ROW * self.rows:
            return timestep
        return replace(timestep, inline=one)

    def described(self, plan: PhysicalPlan, configuration: Configuration) -> str:
        """Return which timesteps the driver runs itself, or why it runs none; "" if it was not asked to."""
        if not self.rows:
            return ""
        needed = next(needs(plan, configuration, self.native), None)
        if needed is not None:
            return f"no timestep, whatever its size: {needed}"
        return f"a timestep of at most {self.rows:,} rows, with one task of each operator"

    def _in_one_task(
        self, plan: PhysicalPlan, configuration: Configuration
    ) -> Configuration | None:
        """Return a Configuration with one task of each operator; None if one of them needs Spark."""
        known = self._known
        if known is None or known[0] is not plan or known[1] is not configuration:
            needed = any(True for _ in needs(plan, configuration, self.native))
            made = None if needed else in_one_task(configuration)
            known = self._known = (plan, configuration, made)
        return known[2]


def needs(
    plan: PhysicalPlan, configuration: Configuration, native: Callable[[str], bool]
) -> Iterator[str]:
    """Yield what of a program only Spark can run, in sentences. native: see `Choice`."""
    for stage in plan.stages:
        if stage.logic is None:
            yield from _needs_of_source(stage, native)
        operator = configuration.operators[stage.name]
        if operator.routing is not None and operator.routing.spreads:
            yield f"operator {stage.name!r} has keys that several tasks share"
        if operator.resources is not None:
            yield f"tasks of operator {stage.name!r} need resources of their own"


def _needs_of_source(stage: Stage, native: Callable[[str], bool]) -> Iterator[str]:
    if not isinstance(stage.frame, SourceFrame):
        yield f"{stage.name!r} is a DataFrame function"
    elif not native(stage.frame.source.name):
        yield f"Spark reads source {stage.frame.source.name!r}"


def in_one_task(configuration: Configuration) -> Configuration:
    """Return a Configuration of the same version and bins with one task of each operator."""
    operators = {name: _alone(each) for name, each in configuration.operators.items()}
    return replace(configuration, operators=operators)


def _alone(operator: OperatorConfiguration) -> OperatorConfiguration:
    before = operator.routing
    routing = before and Routing(starts=before.starts, owners=(0,) * before.bins, tasks=1)
    return replace(operator, tasks=1, routing=routing, placement={})


def _rows_of(timestep: Timestep) -> float:
    """Return about how many rows a timestep reads. Splits that do not say have many; sizes of other files are bytes."""
    splits = [split for part in timestep.slices.values() for split in part.layout]
    return sum(float(split.get("num_rows") or split.get("size", "inf")) for split in splits)


def _merged(number: int, state: LoopState) -> float:
    """Return about how many rows a timestep merges. Those before it that are in flight are not looked at."""
    own = Intervals.everything()
    total = 0.0
    for stage in state.plan.stateful:
        manifest = state.operators.manifests.get(stage.name, Manifest())
        if len(manifest.runs) > MOST_RUNS:
            return math.inf
        runs = manifest.within(own)
        lasts_us = None if stage.can is None else stage.can.lasts_us
        merges = plan_merges(runs, own, number, state.rules.merging, lasts_us)
        total += sum(
            run.rows_in(merge.where) for merge in merges for run in runs if run.seq in merge.seqs
        )
    return total
