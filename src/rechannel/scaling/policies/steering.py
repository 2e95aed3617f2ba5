"""The state machine around a policy: whether, when and how far its advice is followed. Pure.

One evaluation is one call of `step`. It asks in this order, and the first "no" ends it:

    interval     has the policy interval passed since the last evaluation?
    warm-up      did the window begin after the last change and its warm-up?
    roll back    was the last change worse than what was there before (`judging.py`)? Then back, at once
    policy       what does it advise?  bounds, activation, delay, hysteresis (`damping.py`): what remains of it?
    cap          were there too many changes lately?
    failed       was this plan, or one less far in the same direction, taken back under this load?
    price        if it saves cores: does it save more core-seconds within the horizon than it costs?

What it answers is advice that may be followed, or None. Why, in a sentence, is in the `Decision` of the state, with all
that the policy said: its remedies for skew are not held back, and lead to no change of parallelism. The state is a
value; `carried_out` sets when a change was complete, if that takes long. A stream that is changed by someone else needs
nothing: the present plan is always that of the window.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rechannel.scaling.policies.damping import (
    EXECUTORS,
    Plan,
    bounded,
    combined,
    delayed,
    matters,
    planned,
    present_plan,
    remembered,
)
from rechannel.scaling.policies.judging import (
    Failed,
    Health,
    already_failed,
    comparable,
    health,
    middle,
    why_worse,
)
from rechannel.scaling.policies.policy import Advice, Memory, Policy, Seen
from rechannel.scaling.policies.steering_settings import JITTER, Steering
from rechannel.scaling.policies.steering_state import Decision, PriceOf, Steered, Trial, free

TINY_S = 1e-6
FAILED = 20
"""Plans taken back that are remembered."""


def carried_out(state: Steered, at_s: float) -> Steered:
    """Return the state after a change became complete; without it, changes count as complete when they are decided."""
    return replace(state, changed_s=at_s)


def step(
    settings: Steering,
    policy: Policy,
    seen: Seen,
    state: Steered | None = None,
    price_of: PriceOf = free,
) -> tuple[Advice | None, Steered]:
    """Return what is to be changed after one more window, None for nothing, and the state with the decision in it."""
    state = state or Steered()
    now, present = seen.end_s, present_plan(seen)
    said = Decision(at_s=now, outcome="enough", why="", present=present)
    early = _too_early(settings, seen, state)
    if early is not None:
        return None, replace(state, decision=replace(said, outcome=early[0], why=early[1]))
    peaks = state.peaks or remembered({}, present, now, settings.down_delay_s)
    state = replace(state, evaluated_s=now, peaks=peaks)
    window = health(seen)
    state, worse = _judged(settings, state, window, present)
    if worse is not None:
        return _back(settings, state, said, worse, window)
    if state.trial is not None and state.trial.windows and not window.catching_up:
        why = f"{len(state.trial.windows)} of {settings.judged_after} windows since the last change"
        return None, replace(state, decision=replace(said, outcome="judging", why=why))
    advice, memory = policy.decide(seen, state.memory)
    state = replace(state, memory=memory)
    state, said = _considered(settings, state, replace(said, advice=advice), advice)
    if said.outcome == "changed":
        said = _permitted(settings, state, said, seen, window, price_of)
    if said.outcome != "changed":
        return None, replace(state, decision=said)
    action = _action(said, advice)
    trial = Trial(plan=said.plan, before=present, was=window) if settings.roll_back else None
    return action, _changed(settings, replace(state, trial=trial), said)


def _too_early(settings: Steering, seen: Seen, state: Steered) -> tuple[str, str] | None:
    since = None if state.evaluated_s is None else seen.end_s - state.evaluated_s
    if since is not None and since < settings.interval_s * JITTER - TINY_S:
        return "interval", f"{since:.1f} of {settings.interval_s:g} s since the last evaluation"
    if state.changed_s is not None:
        warm = state.changed_s + settings.warm_up_s
        if seen.start_s < warm - TINY_S:
            return (
                "warm-up",
                f"the window begins {warm - seen.start_s:.1f} s before the warm-up ends",
            )
    return None


def _judged(
    settings: Steering, state: Steered, window: Health, present: Plan
) -> tuple[Steered, str | None]:
    """Return the state with the trial one window further or over, and why its plan is worse, if it is."""
    trial = state.trial
    if trial is None:
        return state, None
    if any(present.get(name) != number for name, number in trial.plan.items()):
        return replace(state, trial=None), None  # it never came into effect
    if window.catching_up:
        return state, None
    trial = replace(trial, windows=(*trial.windows, window))
    if len(trial.windows) < settings.judged_after:
        return replace(state, trial=trial), None
    worse = why_worse(middle(trial.windows), trial.was, settings)
    return replace(state, trial=None if worse is None else trial), worse


def _back(
    settings: Steering, state: Steered, said: Decision, worse: str, window: Health
) -> tuple[Advice | None, Steered]:
    """Return the way back to the plan before the last change, which is remembered as one that failed."""
    trial = state.trial
    before = {} if trial is None else bounded(trial.before, settings)
    if trial is None or before == said.present:
        why = f"the last change made it worse ({worse}), but the plan before it is out of bounds"
        said = replace(said, outcome="enough", why=why)
        return None, replace(state, trial=None, decision=said)
    failed = Failed(at_s=said.at_s, plan=trial.plan, before=trial.before, load=window.load)
    why = f"the last change is taken back: {worse}"
    said = replace(said, outcome="rolled back", why=why, plan=before)
    peaks = remembered(state.peaks, before, said.at_s, settings.down_delay_s)
    state = replace(state, trial=None, failed=(*state.failed, failed)[-FAILED:], peaks=peaks)
    return _action(said, None), _changed(settings, state, said)


def _considered(
    settings: Steering, state: Steered, said: Decision, advice: Advice | None
) -> tuple[Steered, Decision]:
    """Return what bounds, activation, delay and hysteresis leave of the policy's advice."""
    present, now = said.present, said.at_s
    plan = bounded(planned(advice, present), settings)
    wanted = (*state.wanted, plan)[-settings.activation :] if plan != present else ()
    active = len(wanted) == settings.activation
    if active and len(wanted) > 1:
        plan = combined(wanted, settings.combine)
    peaks = remembered(state.peaks, plan, now, settings.down_delay_s)
    state = replace(state, wanted=wanted, peaks=peaks)
    said = replace(said, plan=plan)
    if not wanted:
        if advice is not None and not advice.parallelism and advice.executors is None:
            return state, replace(said, outcome="wait", why=advice.reason)
        return state, replace(said, why="every operator has what it needs")
    if not active:
        why = f"{len(wanted)} of {settings.activation} evaluations in a row want a change"
        return state, replace(said, outcome="activation", why=why)
    plan = delayed(plan, present, state.peaks)
    if plan == present:
        why = f"less would do, but not yet for {settings.down_delay_s:g} s"
        return state, replace(said, outcome="delay", why=why)
    said = replace(said, plan=plan)
    outside = bounded(present, settings) != present
    if not outside and not matters(plan, present, settings):
        why = f"no number grows by more than {settings.ignore_up} or shrinks by more than {settings.ignore_down}"
        return state, replace(said, outcome="hysteresis", why=why)
    why = _difference(plan, present) + (f": {advice.reason}" if advice is not None else ": bounds")
    return state, replace(said, outcome="changed", why=why)


def _permitted(
    settings: Steering,
    state: Steered,
    said: Decision,
    seen: Seen,
    window: Health,
    price_of: PriceOf,
) -> Decision:
    """Return the decision, held back if there were too many, if it failed before, or if it does not pay."""
    lately = [at for at in state.changes if at > said.at_s - settings.per_s]
    if len(lately) >= settings.most_changes:
        why = f"{len(lately)} changes within {settings.per_s:g} s, and no more are allowed"
        return replace(said, outcome="cap", why=why)
    alike = [
        each
        for each in state.failed
        if each.at_s > said.at_s - settings.barred_s
        and comparable(window.load, each.load, settings.differs)
    ]
    failed = already_failed(said.plan, alike)
    saved = _cores(said.present, seen) - _cores(said.plan, seen)
    if failed is not None and not (window.lagging and saved < 0):
        why = f"{_difference(failed.plan, failed.before)} was taken back at {failed.load:,.0f} records per second"
        return replace(said, outcome="failed", why=why)
    if saved > 0 and settings.horizon_s is not None:
        price = price_of(seen, _action(said, said.advice))
        costs = price.core_s + price.delay_s * _cores(said.present, seen)
        if costs > saved * settings.horizon_s:
            why = (
                f"it costs {costs:,.0f} core-seconds and saves {saved * settings.horizon_s:,.0f}"
                f" within {settings.horizon_s:g} s"
            )
            return replace(said, outcome="price", why=why)
    return said


def _cores(plan: Plan, seen: Seen) -> int:
    """Return the cores of a plan: those of its executors, or one for each instance."""
    if seen.cores is not None:
        return plan.get(EXECUTORS, seen.cores.executors) * seen.cores.cores_per_executor
    return sum(plan.values())


def _action(said: Decision, advice: Advice | None) -> Advice:
    """Return the plan of a decision as advice: only what changes."""
    changed = {n: number for n, number in said.plan.items() if number != said.present.get(n)}
    executors = changed.pop(EXECUTORS, None)
    made = advice or Advice()
    return replace(made, parallelism=changed, executors=executors, reason=said.why)


def _changed(settings: Steering, state: Steered, said: Decision) -> Steered:
    now = said.at_s
    lately = tuple(at for at in state.changes if at > now - settings.per_s)
    return replace(
        state,
        changed_s=now,
        wanted=(),
        changes=(*lately, now),
        decision=said,
    )


def _difference(plan: Plan, present: Plan) -> str:
    changed = [
        f"{name} {present.get(name, 0)} -> {number}"
        for name, number in plan.items()
        if number != present.get(name)
    ]
    return ", ".join(changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class SteeredPolicy:
    """A policy under steering, as a policy: its memory is the state of the steering."""

    policy: Policy
    settings: Steering = field(default_factory=Steering)
    price_of: PriceOf = free

    def decide(self, seen: Seen, memory: Memory) -> tuple[Advice | None, Memory]:
        """Return what is to be changed after one more window, and the state. See `step`."""
        return step(self.settings, self.policy, seen, memory, self.price_of)
