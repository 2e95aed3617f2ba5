"""What keeps advice from being followed too eagerly: bounds, activation, hysteresis, delayed scale-down. Pure.

All of it works on plans: instances of operators and executors as one mapping of numbers, so that each rule is written
once. The rules, in the order in which `steering.py` applies them:

    bounds       every number is brought between its least and its most
    activation   n plans in a row become one, number by number: their maximum or their median, rounded up
    delay        a number that would shrink becomes the largest that was planned within the delay, at most the present;
                 tasks of a micro-batch engine shrink with the executors, or without a delay if these do not
    hysteresis   if no number changes by more than is ignored, nothing does; otherwise the whole plan holds

The delay is that of the autoscaler of the Flink Kubernetes operator (`scale-down.interval`), activation and hysteresis
are DS2's (activation time, and changes of one or two instances that are ignored).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from rechannel.scaling.policies.policy import Advice, Seen
from rechannel.scaling.policies.steering_settings import Steering

EXECUTORS = "executors of the stream"
"""The name of their number in a plan; no operator has spaces in its name and this one."""

Plan: TypeAlias = Mapping[str, int]
"""Instances by operator, and the number of executors under `EXECUTORS` where there are any."""

Peaks: TypeAlias = Mapping[str, tuple[tuple[float, int], ...]]
"""By number, (time, planned): those that no later one reaches, so that the first is the largest of the delay."""


def present_plan(seen: Seen) -> dict[str, int]:
    """Return what the stream runs with; sources have no number."""
    plan = {
        name: each.reports.parallelism
        for name, each in seen.activities.items()
        if seen.topology.inputs.get(name)
    }
    return plan if seen.cores is None else plan | {EXECUTORS: seen.cores.executors}


def planned(advice: Advice | None, present: Plan) -> dict[str, int]:
    """Return the plan that advice leads to; numbers of which it says nothing stay."""
    if advice is None:
        return dict(present)
    plan = {name: advice.parallelism.get(name, number) for name, number in present.items()}
    if advice.executors is not None and EXECUTORS in present:
        plan[EXECUTORS] = advice.executors
    return plan


def bounded(plan: Plan, settings: Steering) -> dict[str, int]:
    """Return the plan with every number within its bounds."""
    made = {}
    for name, number in plan.items():
        least, most = settings.executors if name == EXECUTORS else settings.bounds(name)
        made[name] = min(max(number, least), most)
    return made


def combined(plans: Sequence[Plan], how: str) -> dict[str, int]:
    """Return one plan of several, at least one; numbers that some of them lack are left out."""
    if how == "max":
        return {name: max(plan.get(name, 0) for plan in plans) for name in plans[-1]}
    middle = {
        name: statistics.median(plan.get(name, plans[-1][name]) for plan in plans)
        for name in plans[-1]
    }
    return {name: math.ceil(number) for name, number in middle.items()}


def remembered(
    peaks: Peaks, plan: Plan, now_s: float, delay_s: float
) -> dict[str, tuple[tuple[float, int], ...]]:
    """Return the peaks with one more plan, without what is older than the delay or smaller than what came later."""
    made = {}
    for name, number in plan.items():
        kept = [
            each for each in peaks.get(name, ()) if each[1] > number and each[0] > now_s - delay_s
        ]
        made[name] = (*kept, (now_s, number))
    return made


def delayed(plan: Plan, present: Plan, peaks: Peaks) -> dict[str, int]:
    """Return the plan in which nothing shrinks below the largest of its delay.

    Where operators share executors, fewer tasks save nothing: they are delayed only as long as the executors are that
    they were planned for.
    """
    executors = plan.get(EXECUTORS)
    if executors is not None and executors >= min(present[EXECUTORS], peaks[EXECUTORS][0][1]):
        return dict(plan)
    return {
        name: number
        if number >= present[name]
        else min(present[name], max(number, peaks[name][0][1]))
        for name, number in plan.items()
    }


def matters(plan: Plan, present: Plan, settings: Steering) -> bool:
    """Return whether any number changes by more than is ignored."""
    return any(
        number - present[name] > settings.ignore_up or present[name] - number > settings.ignore_down
        for name, number in plan.items()
    )
