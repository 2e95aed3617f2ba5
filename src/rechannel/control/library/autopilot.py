"""Keeps a stream within its goal: finds out what binds, does what helps against that, checks it, and takes it back.

Every `window / 2` timesteps, and more often if the stream is late, it looks at the profile of the latest ones. What
binds has a remedy. If that promises the share `least` of a timestep, it is requested, judged and, if it saved less than
half of `least`, taken back and barred for a time (`mending.py`). Else AutoScale has the turn. One change at a time."""

from __future__ import annotations

from collections.abc import Mapping

from rechannel.control.controller import Control, Controller, Outcome
from rechannel.control.library.attempt import under_way
from rechannel.control.library.autoscale import AutoScale
from rechannel.control.library.flight import Flying
from rechannel.control.library.mending import (
    Rules,
    answered,
    asked,
    check,
    mend,
    relax,
    take_turn,
    view_if_due,
    view_of,
)
from rechannel.control.operation import Operation
from rechannel.control.triggers import on


class Autopilot(Controller):
    """Finds what binds, and mends it."""

    trigger = on("measured")

    def __init__(  # noqa: PLR0913 - what users set, each with a default
        self,
        *,
        target_utilisation: float = 0.8,
        latency_ms: float | None = None,
        min: int = 1,
        max: int = 1_000,
        executors: tuple[int, int] | None = None,
        cores_per_executor: int | None = None,
        startup_s: float = 10.0,
        catch_up_s: float | None = None,
        steering: Mapping[str, float | bool | None] | None = None,
        window: int = 8,
        least: float = 0.1,
        barred_s: float = 600.0,
    ) -> None:
        """Take the goal, as `AutoScale` does, and the rules.

        window: timesteps that are profiled. least: share of a timestep that a change must be expected to save.
        barred_s: until one that did not help is tried again; twice as long each time. Raises RefusedError.
        """
        self.scale = AutoScale(
            target_utilisation=target_utilisation,
            latency_ms=latency_ms,
            min=min,
            max=max,
            executors=executors,
            cores_per_executor=cores_per_executor,
            startup_s=startup_s,
            catch_up_s=catch_up_s,
            steering=steering,
        )
        self.rules = Rules.of(self.scale.goal, window=window, least=least, barred_s=barred_s)

    def on_init(self) -> Flying:
        """Nothing is known."""
        return Flying(scaling=self.scale.on_init())

    def on_begin(self, control: Control[Flying]) -> Operation | None:
        """Judge what is on trial; if nothing is, find what binds, and mend it or ask the tasks about it."""
        if control.state.state != "watching":
            check(control, self.rules)
        known = control.state
        if known.state != "watching" or control.requests:
            return None
        if known.scaling.requested is not None:
            take_turn(control, self.scale)
        elif not under_way(control):
            return self._evaluated(control)
        return None

    def _evaluated(self, control: Control[Flying]) -> Operation | None:
        found = view_if_due(control, self.rules)
        if found is not None:
            view, bound = found
            control.state = control.state.after_view(control.timestep, held=bound is not None)
            if bound is None:
                relax(control, view, self.rules)
            elif (ask := asked(bound, view)) is not None:
                return ask
            else:
                mend(control, view, bound, {}, self.rules)
        if not (control.requests or control.state.held):
            take_turn(control, self.scale)
        return None

    def on_complete(self, control: Control[Flying], outcome: Outcome) -> None:
        """Mend what the tasks were asked about, if it still binds; else it is AutoScale's turn."""
        if under_way(control) or control.state.state != "watching":
            return
        view, bound = (not outcome.failed and view_of(control, self.rules)) or (None, None)
        if view is not None and bound is not None and answered(bound, outcome.replies):
            mend(control, view, bound, outcome.replies, self.rules)
        else:
            control.state = control.state.after_view(control.state.evaluated, held=False)
            take_turn(control, self.scale)
