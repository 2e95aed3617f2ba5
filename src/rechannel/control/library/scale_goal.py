"""The goal of AutoScale, and the one step from a window to a decision. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, get_type_hints

import msgspec

from rechannel.control.controller import Control
from rechannel.control.library.looking import longest_interval_ms
from rechannel.control.library.scaled import Scaling, coming_s, price
from rechannel.errors import RefusedError
from rechannel.reconfigure.changes.resources import executors
from rechannel.reconfigure.strategies import Strategy, all_at_once, fluid
from rechannel.scaling.measured import (
    Machines,
    MeasuredWindow,
    machines_of,
    measured_windows,
)
from rechannel.scaling.policies.dhalion import NO_PRESSURE, Dhalion
from rechannel.scaling.policies.dynamic_allocation import (
    DynamicAllocation,
    StreamingDynamicAllocation,
)
from rechannel.scaling.policies.policy import Advice, Cores, Memory, Policy, Seen
from rechannel.scaling.policies.registry import policy_named
from rechannel.scaling.policies.steering import step
from rechannel.scaling.policies.steering_settings import Steering
from rechannel.scaling.policies.steering_state import Decision, Steered
from rechannel.scaling.policies.timesteps import TimestepDs2

OF_EXECUTORS = (DynamicAllocation, StreamingDynamicAllocation)
"""Policies that decide on nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What the stream is scaled for. See `AutoScale`."""

    policy: Policy
    steering: Steering
    latency_ms: float | None = None
    utilisation: float = 0.8
    scales_executors: bool = False
    cores_per_executor: int | None = None
    startup_s: float = 10.0

    def __post_init__(self) -> None:
        """Check the numbers. Raises RefusedError."""
        if self.latency_ms is not None and not self.latency_ms > 0:
            raise RefusedError(f"AutoScale(latency_ms={self.latency_ms}): give a latency above 0")
        if not 0 <= self.startup_s < math.inf:
            given = f"AutoScale(startup_s={self.startup_s})"
            raise RefusedError(f"{given}: give seconds that are not negative")
        if self.cores_per_executor is not None and self.cores_per_executor < 1:
            given = f"AutoScale(cores_per_executor={self.cores_per_executor})"
            raise RefusedError(f"{given}: give at least one core")

    def windows(self, control: Control[Scaling]) -> tuple[MeasuredWindow, ...]:
        """Return the windows that are complete and were not looked at."""
        there = self._machines(control)
        if there is None:
            return ()
        return measured_windows(
            control.progress,
            control.tasks,
            length_s=self.steering.interval_s,
            after=control.state.looked,
            configurations={each.version: each for _, each in control.configurations},
            machines=there,
            rows_per_bin=control.rows_per_bin,
        )

    def decided(
        self, control: Control[Scaling], window: MeasuredWindow, memory: Memory, strategy: Strategy
    ) -> tuple[Advice | None, Decision, Steered]:
        """Return what is to be changed after one more window, the decision, and what to remember.

        Raises RefusedError if timesteps have no interval and the goal no latency.
        """
        seen = self._paced(window.seen)
        before = replace(control.state.steered, memory=memory)
        price_of = partial(price, control, strategy)
        action, after = step(self.steering, self._limited(control, seen), seen, before, price_of)
        said = after.decision or Decision(at_s=seen.end_s, outcome="enough", why="")
        return action, said, after

    def _machines(self, control: Control[Scaling]) -> Machines | None:
        """Return what the stream runs on; None as long as nothing tells."""
        seen, cores = machines_of(control.tasks), self.cores_per_executor
        if control.executors:
            most = max(control.executors.values())
            return Machines(executors=len(control.executors), cores_per_executor=cores or most)
        if seen is None or cores is None:
            return seen
        number = control.configuration.executors or seen.executors
        return Machines(executors=number, cores_per_executor=cores)

    def _limited(self, control: Control[Scaling], seen: Seen) -> Policy:
        """Return the policy with as many cores as there may be: tasks are divided over no more, and over no fewer."""
        cores, policy = seen.cores, self.policy
        if cores is None or not hasattr(policy, "most_cores"):
            return policy
        least, most = self.steering.executors
        if self.scales_executors and hasattr(policy, "delay_s"):
            policy = _with(policy, delay_s=self._delay_s(control, cores))
        if not self.scales_executors:
            least = most = cores.executors
        elif control.refusal(executors(cores.executors + 1)):
            most = max(least, min(most, cores.executors))
        most = min(policy.most_cores, most * cores.cores_per_executor)
        least = min(most, least * cores.cores_per_executor)
        return _with(policy, least_cores=least, most_cores=most)

    def _delay_s(self, control: Control[Scaling], cores: Cores) -> float:
        """Return the seconds from the end of a window until executors that it asks for take tasks.

        The window ended with a look at the sources, whose timestep is done by now; the one that runs when executors
        have come is still without them.
        """
        took_s = max(cores.durations_ms, default=0.0) / 1e3
        return took_s + coming_s(control, self.startup_s + took_s)

    def unfit(self, interval_ms: int) -> str:
        """Return why no decision can be made for a stream with an interval; "" if one can. interval_ms: 0 = none."""
        if isinstance(self.policy, Dhalion):
            return NO_PRESSURE
        if isinstance(self.policy, OF_EXECUTORS) and not self.scales_executors:
            return "the policy decides on executors only: give executors=(least, most)"
        if interval_ms or self.latency_ms is not None or not isinstance(self.policy, TimestepDs2):
            return ""
        return "timesteps have no interval to keep: give latency_ms=, or the stream an interval_ms above 0"

    def _paced(self, seen: Seen) -> Seen:
        """Return a window with the interval that its timesteps have to keep."""
        cores = seen.cores
        interval = None if cores is None else self._interval_ms(cores)
        if cores is None or interval is None:
            if reason := self.unfit(0):
                raise RefusedError(reason)
            return seen
        return replace(seen, cores=replace(cores, interval_ms=interval))

    def _interval_ms(self, cores: Cores) -> float | None:
        """Return the interval to keep."""
        if self.latency_ms is None:
            return cores.interval_ms or None
        longest = longest_interval_ms(self.latency_ms, self.utilisation, cores.in_flight)
        return min(cores.interval_ms, longest) if cores.interval_ms else longest


def policy_for(name: str, utilisation: float, catch_up_s: float | None) -> Policy:
    """Return the policy of a name, with the utilisation if it has one, and the catch-up time. Raises RefusedError."""
    if not 0 < utilisation <= 1:
        given = f"AutoScale(target_utilisation={utilisation})"
        raise RefusedError(f"{given}: give 0 < target_utilisation <= 1")
    policy = policy_named(name)
    if hasattr(policy, "utilisation"):
        policy = _with(policy, utilisation=utilisation)
    if catch_up_s is None:
        return policy
    if not hasattr(policy, "catch_up_s"):
        raise RefusedError(f"AutoScale(catch_up_s={catch_up_s}): policy {name!r} knows no backlog")
    if not 0 < catch_up_s < math.inf:
        raise RefusedError(f"AutoScale(catch_up_s={catch_up_s}): give seconds above 0")
    return _with(policy, catch_up_s=catch_up_s)


Setting: TypeAlias = float | int | str | bool | None
"""What a setting of `Steering` may be."""


def strategy_for(bins: int | None, budget_ms: float) -> Strategy:
    """Return how changes are carried out. Raises RefusedError for no bin at a time, and for no time."""
    if bins is not None and bins < 1:
        raise RefusedError(f"AutoScale({bins=}): give at least one bin")
    if not 0 < budget_ms < math.inf:
        raise RefusedError(f"AutoScale({budget_ms=}): give milliseconds above 0")
    if bins is None:
        return all_at_once(budget_ms=budget_ms)
    return fluid(bins=bins, budget_ms=budget_ms)


def _with(policy: Policy, **settings: Any) -> Policy:
    changed: Policy = replace(policy, **settings)  # type: ignore[type-var]
    return changed


def steering_for(
    tasks: tuple[int, int], executors: tuple[int, int] | None, given: Mapping[str, Setting]
) -> Steering:
    """Return the settings of the steering. given: those that differ, by name.

    Raises RefusedError for unknown ones, and for values of another type.
    """
    own = {"parallelism", "executors", "operators"}
    known = {each for each in Steering.__dataclass_fields__ if each not in own}
    unknown = sorted(given.keys() - known)
    if unknown:
        msg = f"steering: there is no setting {unknown[0]!r}; there are {', '.join(sorted(known))}"
        raise RefusedError(msg)
    hints = get_type_hints(Steering)
    settings: dict[str, Any] = {name: _fit(name, one, hints[name]) for name, one in given.items()}
    return Steering(parallelism=tasks, executors=executors or Steering().executors, **settings)


def _fit(name: str, value: Setting, kind: Any) -> Setting:
    """Return a setting of the type of its field: requests have 2.0 for a whole number. Raises RefusedError."""
    whole = kind is int and isinstance(value, float) and value.is_integer()
    try:
        fit: Setting = msgspec.convert(int(value) if whole else value, kind)  # type: ignore[arg-type]
    except msgspec.ValidationError as error:
        raise RefusedError(f"steering: {name}={value!r}: {error}") from error
    return fit
