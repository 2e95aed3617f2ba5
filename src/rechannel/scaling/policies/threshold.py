"""The threshold rule: more where the processor is busy, less where it is idle. Pure.

    busy share of an operator  = useful time of its instances / (instances * window)
    above `high` (80 %)  -> `by` more instances        below `low` (30 %)  -> `by` fewer, at least 1

It is the rule that autoscalers of clouds and most stream processors begin with; 80 % is its usual figure. Where
operators take turns on the same cores, the busy share is that of the cores, and executors are added and removed. An
operator that waits for room downstream looks idle to it.
"""

from __future__ import annotations

from dataclasses import dataclass

from rechannel.errors import RefusedError
from rechannel.scaling.policies.policy import Advice, Memory, Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """More above a share of busy time, less below another."""

    high: float = 0.8
    low: float = 0.3
    by: int = 1
    """Instances, or executors, at a time."""

    def __post_init__(self) -> None:
        """Check the settings. Raises RefusedError."""
        if not (0 <= self.low < self.high <= 1 and self.by >= 1):
            raise RefusedError(f"{self}: give 0 <= low < high <= 1, and by >= 1")

    def decide(self, seen: Seen, memory: Memory) -> tuple[Advice | None, Memory]:
        """Return one step up or down for everything that is outside of the thresholds."""
        if seen.cores is not None:
            executors = self._next(seen.cores.executors, seen.cores.busy)
            if executors == seen.cores.executors:
                return None, memory
            reason = f"tasks ran for {seen.cores.busy:.0%} of the time of the cores"
            evidence = {"busy": seen.cores.busy}
            return Advice(executors=executors, reason=reason, evidence=evidence), memory
        busy = {
            name: float(each.reports.useful_s.sum())
            / (seen.window_s * max(1, len(each.reports.useful_s)))
            for name, each in seen.activities.items()
            if seen.topology.inputs[name]
        }
        present = seen.parallelism
        wanted = {name: self._next(present[name], share) for name, share in busy.items()}
        changed = {n: number for n, number in wanted.items() if number != present[n]}
        if not changed:
            return None, memory
        reason = ", ".join(
            f"{name!r} was busy for {busy[name]:.0%} of the time" for name in changed
        )
        return Advice(parallelism=changed, reason=reason, evidence={"busy": busy}), memory

    def _next(self, present: int, busy: float) -> int:
        if busy > self.high:
            return present + self.by
        return max(1, present - self.by) if busy < self.low else present
