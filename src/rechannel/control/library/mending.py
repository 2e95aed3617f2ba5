"""Autopilot's changes: which one is proposed for what binds, its request, and what comes of its trial. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rechannel.control.controller import Control, Controller
from rechannel.control.library.attempt import Verdict, attempted, under_way, verdict
from rechannel.control.library.binding import Bound
from rechannel.control.library.flight import (
    Event,
    Flying,
    Tried,
    costlier,
    decided,
    saved_share,
)
from rechannel.control.library.hotkeys import AskHotKeys, HotKeys
from rechannel.control.library.looking import (
    View,
    allowed_ms,
    chosen,
    loads_of,
    longest_interval_ms,
    looked,
    named,
    placing_of,
    row_ms_of,
    urgent,
    usable,
)
from rechannel.control.library.placing import decided as placement
from rechannel.control.library.remedies import (
    Proposal,
    Straggling,
    against_skew,
    best_of,
    combined,
    fewer_tasks,
    longer_interval,
    placed,
)
from rechannel.control.library.scale_goal import Goal
from rechannel.control.library.scaled import UNFIT, ended, own_changes, tasks_wanted
from rechannel.control.library.traffic import AskTraffic
from rechannel.control.operation import MOST_REPLY_BYTES, Operation, operation
from rechannel.errors import RefusedError
from rechannel.kernels.protocol.control import OperatorHandler
from rechannel.model.codec import decode
from rechannel.model.configuration import Configuration
from rechannel.reconfigure.changes.pace import set_interval
from rechannel.scaling.decided import Decided
from rechannel.scaling.policies.steering_settings import Steering

ROOMY = 0.7
"""Share of what a timestep may take that it has to need at most for the interval to be set back."""
BYTES_PER_MS = 125_000.0
"""Between executors: a gigabit per second."""
MOST_WINDOW = 20
"""Timesteps; of half as many more, profiles are kept."""
ASKS: Mapping[str, type[OperatorHandler]] = {"skew": AskHotKeys, "communication": AskTraffic}
MOST_WINDOWS = 3
"""Windows of AutoScale after which its decision is old."""
NO_HELP = ("enough", "hysteresis", "cap", "failed", "price", "delay", UNFIT)
"""Outcomes of AutoScale that leave a late stream unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When Autopilot acts, and how it judges. See `Autopilot`."""

    window: int = 8
    least: float = 0.1
    barred_s: float = 600.0
    utilisation: float = 0.8
    latency_ms: float | None = None
    steering: Steering = field(default_factory=Steering)
    """Of AutoScale."""

    @classmethod
    def of(cls, goal: Goal, *, window: int, least: float, barred_s: float) -> Rules:
        """Return rules with the goal of AutoScale. Raises RefusedError."""
        return cls(
            window=window,
            least=least,
            barred_s=barred_s,
            utilisation=goal.utilisation,
            latency_ms=goal.latency_ms,
            steering=goal.steering,
        )

    def old(self, mean_ms: float) -> float:
        """Return how many seconds a decision of AutoScale counts. mean_ms: what a timestep takes."""
        return MOST_WINDOWS * max(self.steering.interval_s, mean_ms / 1e3)

    @property
    def judged(self) -> int:
        """Timesteps after a change by which it is judged."""
        return max(2, self.window // 2)

    def __post_init__(self) -> None:
        """Check the numbers. Raises RefusedError."""
        if not (2 <= self.window <= MOST_WINDOW and 0 < self.least < 1 and self.barred_s > 0):
            given = f"window={self.window}, least={self.least}, barred_s={self.barred_s}"
            rule = f"a window of 2 to {MOST_WINDOW}, 0 < least < 1, barred_s > 0"
            raise RefusedError(f"Autopilot({given}): give {rule}")


def due(control: Control[Flying], rules: Rules) -> bool:
    """Whether it is time for an evaluation: every half window, and every timestep while the stream is late."""
    most = allowed_ms(control, rules.utilisation, rules.latency_ms)
    every = rules.window // 2 if urgent(control.progress, most) is None else 1
    return control.timestep >= control.state.evaluated + every


def view_of(control: Control[Flying], rules: Rules) -> tuple[View, Bound | None] | None:
    """Return what the latest timesteps show, and what of it is to be mended next; None if there are too few.

    Nothing is to be mended if that is for AutoScale to do, or all is well.
    """
    view = looked(control, rules.window, rules.utilisation, rules.latency_ms)
    return None if view is None else (view, _bound(control.state, view, rules, control.time_ms))


def view_if_due(control: Control[Flying], rules: Rules) -> tuple[View, Bound | None] | None:
    """Return what `view_of` does, if it is time. Where there was nothing to see for long, AutoScale may act."""
    known = control.state
    found = view_of(control, rules) if due(control, rules) else None
    if found is None and control.timestep >= known.evaluated + MOST_WINDOWS * rules.window:
        control.state = replace(known, held=False)
    return found


def _bound(known: Flying, view: View, rules: Rules, now_ms: int) -> Bound | None:
    barred = {key: bar.gain for key, bar in known.bars.items() if known.barred(key, now_ms)}
    last = known.decisions[-1].outcome if known.decisions else ""
    found = chosen(view, rules.least, barred, scaled=last in NO_HELP)
    if found is not None and found.cause == "scheduling":
        said, most_s = known.scaling.steered.decision, rules.old(view.shares.mean_ms)
        if not known.scaling.is_unfit and (said is None or now_ms / 1e3 - said.at_s > most_s):
            return None  # AutoScale's policy has to say first how many tasks there should be
    return found


def asked(bound: Bound, view: View) -> Operation | None:
    """Return what the tasks are asked before this is mended; None = what was measured is enough."""
    handler = ASKS.get(bound.cause)
    if handler is None:
        return None
    names = [bound.operator] if bound.operator else list(view.loads)
    return operation(handler(), operators=names, reply_bytes=MOST_REPLY_BYTES)


def answered(bound: Bound, replies: Mapping[str, Any]) -> bool:
    """Whether these are the replies to what is asked before this is mended."""
    handler = ASKS.get(bound.cause)
    if handler is None or (bound.operator and bound.operator not in replies):
        return False
    kind = handler.reply_type or object
    return bool(replies) and all(isinstance(reply, kind) for reply in replies.values())


def mend(
    control: Control[Flying], view: View, bound: Bound, replies: Mapping[str, Any], rules: Rules
) -> None:
    """Request what is expected to help most, or bar the cause for a time if nothing is."""
    known, now_ms = control.state, control.time_ms
    found: list[Proposal] = []
    refused: list[str] = []
    for each in _proposals(control, view, bound, replies, rules):
        if known.barred(each.key, now_ms) or each.gain < rules.least:
            continue
        if reason := control.refusal(each.change):
            refused.append(f"{each.remedy} is refused: {reason}")
        else:
            found.append(each)
    best = best_of(found, rules.least)
    if best is None:
        barred_ms = rules.barred_s * 1e3
        control.state = known.bar(named(bound), now_ms, barred_ms, gain=bound.gain)
        reasons = "; ".join(refused) or f"no remedy saves {rules.least:.0%} of a timestep"
        control.note(f"{bound.why}, and {reasons}")
        return
    tried = Tried(
        key=best.key,
        gain=best.gain,
        against=named(bound),
        fixed=view.fixed,
        per_row=best.remedy == "longer interval",
        avoid=bound.executors if best.remedy == "place" else (),
        row_ms=None if best.remedy == "place" else row_ms_of(view.loads, best.touched),
        attempt=attempted(control, best.touched, view.figures),
    )
    said = decided(best, control.timestep, now_ms, view.by_cause)
    why = f"{best.why}; saves {best.gain:.0%} of a timestep"
    control.reconfigure(best.change, reason=why)
    control.state = replace(known.after("proposed").told(said), tried=tried)


def _proposals(
    control: Control[Flying], view: View, bound: Bound, replies: Mapping[str, Any], rules: Rules
) -> Iterator[Proposal]:
    """Yield what may help. replies: of the tasks, by operator."""
    now, shares, known = control.configuration, view.shares, control.state
    if bound.cause in ("skew", "machine"):
        operator, rows = now.operators[bound.operator], control.rows_per_bin.get(bound.operator, ())
        if operator.routing is None or not sum(rows):
            return
        load, cores = view.loads[bound.operator], control.executors
        of = Straggling.of(bound, operator.routing, rows, load, cores)
        if bound.cause == "skew":
            yield from against_skew(of, now, replies.get(bound.operator, HotKeys()))
            return
        yield of.moved()
    if bound.cause in ("machine", "communication"):
        if bound.cause == "communication":
            yield from combined(bound, now)
        avoided = [e for e, until in known.slow.items() if control.time_ms < until]
        found = placement(
            placing_of(view, replies or None),
            usable(control, view, avoided),
            slow_executors=True,
            bytes_per_ms=BYTES_PER_MS,
        )
        yield from placed(bound, found, shares.mean_ms)
    elif bound.cause == "scheduling":
        yield from fewer_tasks(bound, shares, now, tasks_wanted(known.scaling, rules.steering))
        longest = float("inf")
        if rules.latency_ms is not None:
            longest = longest_interval_ms(rules.latency_ms, rules.utilisation, now.in_flight)
        yield from longer_interval(bound, shares, now.interval_ms, rules.utilisation, longest)


def take_turn(control: Control[Flying], scale: Controller) -> None:
    """Give AutoScale the turn. What it decides is among the decisions."""
    known = control.state
    now = replace(known.scaling, decisions=known.decisions)
    own: Control[Any] = replace(control, state=now)  # type: ignore[arg-type]
    scale.on_begin(own)
    made = replace(own.state, decisions=())
    control.state = replace(known, scaling=made, decisions=own.state.decisions)


# Trials ----------------------------------------------------------------------------------------------


def check(control: Control[Flying], rules: Rules) -> None:
    """Judge the change that is on trial, or wait for the end of the one that takes it back."""
    known, tried = control.state, control.state.tried
    if tried is None:
        return
    if known.state == "taking back":
        over, became = ended(control, tried.own)
        if over:
            control.state = _scaling_anew(control, known.after("ended").became(became))
        return
    found = verdict(control, tried.attempt, rules.judged, partial(saved_share, tried))
    found = found or _overtaken(control, tried, rules)
    if found is not None and event_of(found, rules.least) == "useless":
        found = _not_blamed(control, tried, found, rules)
    event = event_of(found, rules.least)
    if found is None or event == "early":
        return
    control.note(found.text)
    expected = (
        f"{found.text} ({tried.gain:.0%} was predicted)" if found.share is not None else found.text
    )
    known = known.after(event).became(expected)
    if event == "helped":
        until = control.time_ms + int(rules.barred_s * 1e3)
        slow = {name: at for name, at in known.slow.items() if control.time_ms < at}
        slow |= dict.fromkeys(tried.avoid, until)
        known = replace(known.freed(tried.key, tried.against), slow=slow)
    else:
        known = known.bar(tried.key, control.time_ms, rules.barred_s * 1e3)
    if tried.per_row and event != "useless":
        known = _lengthened(known, control, tried)
    if event == "useless" and found.back is not None:
        control.reconfigure(found.back, reason=f"takes it back: {found.text}")
        known = known.told(_taken_back(control, tried, found))
        known = replace(known, tried=replace(tried, own=own_changes(control)))
    control.state = _scaling_anew(control, known)


def _not_blamed(control: Control[Flying], tried: Tried, found: Verdict, rules: Rules) -> Verdict:
    """Return the verdict, or none if rows have become far more expensive whatever was changed."""
    times = _costlier(control, tried, rules.judged)
    if times is None:
        return found
    why = f"but a row costs {times:.1f} times as much as before: it is not judged"
    return Verdict(text=f"{found.text}, {why}")


def _overtaken(control: Control[Flying], tried: Tried, rules: Rules) -> Verdict | None:
    """Return that a change is not judged if that can be known before its time: rows cost far more now.

    Only if that makes the stream late: the timesteps that are left to wait for may be very long.
    """
    most = allowed_ms(control, rules.utilisation, rules.latency_ms)
    if under_way(control) or urgent(control.progress, most) is None:
        return None
    times = _costlier(control, tried, 1)
    if times is None:
        return None
    return Verdict(text=f"a row costs {times:.1f} times as much as before: it is not judged")


def _costlier(control: Control[Flying], tried: Tried, timesteps: int) -> float | None:
    """Return what `costlier` does of the latest timesteps since a change was requested."""
    steps = [each for each in control.tasks if each.timestep > tried.attempt.first]
    loads = loads_of(control, steps[-timesteps:])
    return costlier(tried, row_ms_of(loads, tried.attempt.touched))


def relax(control: Control[Flying], view: View, rules: Rules) -> None:
    """Set the interval back that was made longer, once the present load leaves room for the shorter one."""
    known, now_ms = control.state, control.configuration.interval_ms
    base = known.interval_ms
    if base is None or now_ms <= base or now_ms != known.longer_ms:
        control.state = replace(known, interval_ms=None, longer_ms=None)
        return
    fixed_ms = view.fixed * view.shares.mean_ms
    needed_ms = fixed_ms + (view.shares.mean_ms - fixed_ms) * base / now_ms
    if needed_ms > ROOMY * rules.utilisation * base:
        return
    why = f"a timestep would take {needed_ms:,.0f} of {base:,} ms"
    if control.refusal(set_interval(base)):
        return
    control.reconfigure(set_interval(base), reason=why)
    said = Decided(
        timestep=control.timestep,
        at_ms=control.time_ms,
        outcome="changed",
        why=f"{why}: the interval may be as it was before",
        changes=(str(set_interval(base)),),
        became="it is not judged",
    )
    control.state = known.told(said)


def _lengthened(known: Flying, control: Control[Flying], tried: Tried) -> Flying:
    """Return it with the interval before it was made longer, if it is."""
    before, now = (
        decode(Configuration, tried.attempt.base).interval_ms,
        control.configuration.interval_ms,
    )
    if now <= before:
        return known
    first = before if known.interval_ms is None else known.interval_ms
    return replace(known, interval_ms=first, longer_ms=now)


def event_of(found: Verdict | None, least: float) -> Event:
    """Return what a verdict is to the table. least: share of a timestep that a change must be expected to save."""
    if found is None:
        return "early"
    if found.share is None:
        return "unclear"
    if found.share >= least / 2:
        return "helped"
    return "stuck" if found.back is None else "useless"


def _taken_back(control: Control[Flying], tried: Tried, found: Verdict) -> Decided:
    return Decided(
        timestep=control.timestep,
        at_ms=control.time_ms,
        outcome="rolled back",
        why=f"{found.text}, and {tried.gain:.0%} was predicted",
        changes=(str(found.back),),
        evidence={"saved": round(found.share or 0.0, 4), "predicted": round(tried.gain, 4)},
    )


def _scaling_anew(control: Control[Flying], known: Flying) -> Flying:
    """Return it with AutoScale looking at later timesteps only: its own last change is judged no more."""
    steered = replace(known.scaling.steered, trial=None)
    scaling = replace(known.scaling, looked=control.timestep, steered=steered)
    return replace(known, scaling=scaling)
