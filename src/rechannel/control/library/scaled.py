"""What AutoScale remembers and shows: its decisions, each with its evidence and with what became of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rechannel.control.controller import Control
from rechannel.errors import RefusedError
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.changes.resources import executors
from rechannel.reconfigure.changes.tasks import rescale
from rechannel.reconfigure.changes.together import one_change
from rechannel.reconfigure.record import Phase, Record
from rechannel.reconfigure.strategies import Strategy
from rechannel.scaling.decided import Decided, finite
from rechannel.scaling.policies.damping import EXECUTORS, bounded, planned
from rechannel.scaling.policies.policy import Advice, Seen
from rechannel.scaling.policies.steering import carried_out
from rechannel.scaling.policies.steering_settings import Steering
from rechannel.scaling.policies.steering_state import FREE, Decision, Price, Steered

UNFIT = "cannot decide"
"""Outcome where nothing says how long a timestep may take."""
MOST_DECISIONS = 20
"""That are remembered; of those in a row that lead to nothing for the same reason, the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """What the controller knows."""

    looked: int = 0
    """The latest timestep that was looked at."""
    steered: Steered = field(default_factory=Steered)
    """Without what the policy remembers: after a restart it learns anew."""
    requested: tuple[str, ...] | None = None
    """If changes were requested that have not ended, the ids of the controller's changes before; else None."""
    decisions: tuple[Decided, ...] = ()

    def with_start(self, at_s: float) -> Scaling:
        """Return it after the start of a driver, which is followed by a warm-up as a change is: workers are cold."""
        changed_s = self.steered.changed_s
        if changed_s is not None and changed_s >= at_s:
            return self
        return replace(self, steered=carried_out(self.steered, at_s))

    def with_decision(self, made: Decided) -> Scaling:
        """Return it with one more decision, in place of the last if both lead to nothing for the same reason."""
        before = self.decisions
        if before and _idle(before[-1]) and before[-1].outcome == made.outcome and _idle(made):
            before = before[:-1]
        return replace(self, decisions=(*before, made)[-MOST_DECISIONS:])

    @property
    def is_unfit(self) -> bool:
        """Whether no decision can be made."""
        return bool(self.decisions) and self.decisions[-1].outcome == UNFIT

    def unfit(self, control: Control[Scaling], why: str) -> Scaling:
        """Return it with the decision that none can be made, once."""
        if self.is_unfit and self.decisions[-1].why == why:
            return self
        made = Decided(
            timestep=max(0, control.timestep), at_ms=control.time_ms, outcome=UNFIT, why=why
        )
        return self.with_decision(made)

    def with_window(self, last: int, steered: Steered) -> Scaling:
        """Return it after one more window. last: its last timestep. What the policy remembers is not kept."""
        return replace(self, looked=last, steered=replace(steered, memory=None))

    def with_end(self, at_s: float, became: str) -> Scaling:
        """Return it after the changes that were requested last have ended."""
        steered = carried_out(self.steered, at_s)
        return replace(self, requested=None, steered=steered).with_result(became)

    def without_change(self, before: Steered) -> Scaling:
        """Return it after a decision that the stream refuses: it does not count as a change.

        before: as it was when the decision was made.
        """
        steered = replace(self.steered, changes=before.changes, changed_s=before.changed_s)
        said = steered.decision
        if said is not None and said.outcome == "changed":
            steered = replace(steered, trial=before.trial)
        return replace(self, steered=steered)

    def after_request(
        self, control: Control[Scaling], refused: Sequence[str], *, requested: bool
    ) -> Scaling:
        """Return it after changes were requested, or none as the stream refuses them all."""
        if requested:
            return replace(self, requested=own_changes(control))
        reasons = "; ".join(refused) or "there was nothing to change"
        return self.with_result(reasons)

    def with_result(self, became: str) -> Scaling:
        """Return it with what became of the last change that was decided on."""
        at = max((n for n, d in enumerate(self.decisions) if not _idle(d)), default=None)
        if at is None:
            return self
        told = replace(self.decisions[at], became=became)
        return replace(self, decisions=(*self.decisions[:at], told, *self.decisions[at + 1 :]))


def _idle(decided: Decided) -> bool:
    return decided.outcome not in ("changed", "rolled back")


def decision_of(decision: Decision, action: Advice | None, timestep: int) -> Decided:
    """Return a decision as it is shown. action: what is to be changed; None for nothing."""
    said = decision.advice
    return Decided(
        timestep=timestep,
        at_ms=round(decision.at_s * 1e3),
        outcome=decision.outcome,
        why=decision.why,
        parallelism={} if action is None else dict(action.parallelism),
        executors=None if action is None else action.executors,
        evidence={} if said is None else finite(said.evidence),
        remedies={} if said is None else dict(said.remedies),
    )


def tasks_wanted(known: Scaling, steering: Steering) -> dict[str, int]:
    """Return the tasks by operator of the policy's last advice, within bounds; {} if it was for other executors."""
    said = known.steered.decision
    if said is None or said.advice is None:
        return {}
    plan = bounded(planned(said.advice, said.present), steering)
    number = plan.pop(EXECUTORS, None)
    return plan if number == said.present.get(EXECUTORS) else {}


def coming_s(control: Control[Scaling], supposed_s: float) -> float:
    """Return how many seconds executors take to come: the longest of the controller's own changes; else as supposed."""
    took = [
        (record.taken[0].time_ms - record.times[str(Phase.WAITING)]) / 1e3
        for record in control.changes
        if control.requested(record) and record.change.executors_needed is not None
        if record.taken and str(Phase.WAITING) in record.times
    ]
    return max(took, default=supposed_s)


def changes_of(parallelism: Mapping[str, int], number: int | None) -> list[Change]:
    """Return the changes that lead to these numbers of tasks and of executors."""
    made: list[Change] = [rescale(name, tasks) for name, tasks in parallelism.items()]
    return made if number is None else [executors(number), *made]


def own_changes(control: Control[Any]) -> tuple[str, ...]:
    """Return the ids of the controller's own changes, as far as they are remembered."""
    return tuple(record.id for record in control.changes if control.requested(record))


def ended(control: Control[Any], before: tuple[str, ...]) -> tuple[bool, str]:
    """Return whether the changes that were requested last have ended, and what became of them.

    before: ids of the controller's own changes before that request.
    """
    own = [r for r in control.changes if control.requested(r) and r.id not in before]
    none = "the stream refused it; the controller's log says why"
    none = "a dry run: it was not requested" if control.dry_run else none
    told = "; ".join(map(_told, own)) or none
    return not any(record.open for record in own), told


def _told(record: Record) -> str:
    reason = f": {record.reason}" if record.reason and record.phase is not Phase.DONE else ""
    return f"{record.id}: {record.change} is {record.phase}{reason}"


def allowed(
    control: Control[Scaling], parallelism: Mapping[str, int], number: int | None
) -> tuple[list[Change], list[str]]:
    """Return the changes that the stream would accept now, and why it refuses the others."""
    accepted: list[Change] = []
    refused: list[str] = []
    for change in changes_of(parallelism, number):
        reason = control.refusal(change)
        if reason:
            refused.append(f"{change} is refused: {reason}")
        else:
            accepted.append(change)
    return accepted, refused


def price(control: Control[Scaling], strategy: Strategy, seen: Seen, advice: Advice) -> Price:
    """Return for how long a change would keep the stream at most: by its plan, and by the state that executors have.

    Those that remain take over the state of executors that are released. Nothing if the change would be refused.
    """
    changes, _ = allowed(control, advice.parallelism, advice.executors)
    if not changes:
        return FREE
    try:
        plan = control.plan(one_change(changes), strategy=strategy)
    except RefusedError:
        return FREE
    there = 0 if seen.cores is None else seen.cores.executors
    released = 0.0 if advice.executors is None or not there else 1 - advice.executors / there
    taken_over = max(0.0, released) * sum(map(sum, control.bytes_per_bin.values()))
    moving_ms = len(plan.steps) * plan.cost_ms + taken_over * control.ms_per_byte
    return Price(delay_s=moving_ms / 1e3)
