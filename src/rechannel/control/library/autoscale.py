"""Scales the stream: every policy interval, decides how many tasks and executors it needs, and requests them.

A policy of `rechannel.scaling.policies` decides, its steering says whether the advice is followed, and changes go a few
bins at a time. More executors and more tasks are one change, which begins when the executors are there.
"""

from __future__ import annotations

from collections.abc import Mapping

from rechannel.control.controller import Control, Controller
from rechannel.control.library.attempt import under_way
from rechannel.control.library.scale_goal import Goal, policy_for, steering_for, strategy_for
from rechannel.control.library.scaled import Scaling, allowed, decision_of, ended
from rechannel.control.triggers import on
from rechannel.model.configuration import Configuration
from rechannel.reconfigure.changes.together import one_change
from rechannel.scaling.measured import MeasuredWindow
from rechannel.scaling.policies.policy import Memory


class AutoScale(Controller):
    """Finds the number of tasks and executors that the load needs."""

    trigger = on("measured")

    def __init__(  # noqa: PLR0913 - what users set, each with a default
        self,
        *,
        policy: str = "ds2-timesteps",
        target_utilisation: float = 0.8,
        latency_ms: float | None = None,
        min: int = 1,
        max: int = 1_000,
        executors: tuple[int, int] | None = None,
        cores_per_executor: int | None = None,
        startup_s: float = 10.0,
        catch_up_s: float | None = None,
        steering: Mapping[str, float | bool | None] | None = None,
        bins: int | None = None,
        budget_ms: float = 100.0,
    ) -> None:
        """policy: its name. target_utilisation: share of an interval, or of an instance's time, that may be used.

        latency_ms: what interval and timestep may take together; needed where timesteps have no interval. min, max:
        tasks of an operator. executors: least and most; None = their number stays. cores_per_executor: None = those
        that tasks were seen on. startup_s: until executors come, as long as none have. catch_up_s: for a backlog; None
        = the policy's. steering: settings of `rechannel.testing.scaling.Steering`. budget_ms: what moves of state may
        add to a timestep. bins: that move at a time; None = as many as that allows. Raises RefusedError.
        """
        self.goal = Goal(
            policy=policy_for(policy, target_utilisation, catch_up_s),
            steering=steering_for((min, max), executors, steering or {}),
            latency_ms=latency_ms,
            utilisation=target_utilisation,
            scales_executors=executors is not None,
            cores_per_executor=cores_per_executor,
            startup_s=startup_s,
        )
        self.strategy = strategy_for(bins, budget_ms)
        self.memory: Memory = None
        self.began_s = 0.0

    def on_init(self) -> Scaling:
        """Nothing is known."""
        return Scaling()

    def unfit(self, configuration: Configuration) -> str:
        """Return why no decision can be made; "" if one can."""
        return self.goal.unfit(configuration.interval_ms)

    def on_begin(self, control: Control[Scaling]) -> None:
        """Go on with the last decision, or make the next one from the windows that are complete."""
        self.began_s = self.began_s or control.time_ms / 1e3
        known = control.state = control.state.with_start(self.began_s)
        if known.requested is not None:
            over, became = ended(control, known.requested)
            if not over:
                return
            control.state = known.with_end(control.time_ms / 1e3, became)
        if reason := self.unfit(control.configuration):
            control.state = control.state.unfit(control, reason)
        elif not under_way(control):
            for window in self.goal.windows(control):
                if self._decide(control, window):
                    break

    def _decide(self, control: Control[Scaling], window: MeasuredWindow) -> bool:
        """Make one decision, and request its changes. Returns whether there are any."""
        action, said, steered = self.goal.decided(control, window, self.memory, self.strategy)
        self.memory = steered.memory
        known = control.state
        control.state = known.with_window(window.last, steered).with_decision(
            decision_of(said, action, window.last)
        )
        if action is None:
            return False
        number = action.executors if self.goal.scales_executors else None
        changes, refused = allowed(control, action.parallelism, number)
        control.notes.extend(refused)
        if not changes:
            control.state = control.state.without_change(known.steered)
        else:
            control.reconfigure(one_change(changes), strategy=self.strategy, reason=said.why)
        control.state = control.state.after_request(control, refused, requested=bool(changes))
        return bool(changes)
