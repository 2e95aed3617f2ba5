"""Dhalion (Floratou et al., VLDB'17): symptoms, diagnoses, resolvers, and a blacklist of what did not help. Pure.

Thresholds, formulas and their defaults are those of Heron's `DynamicResourceAllocationPolicy` (apache/incubator-heron,
`heron/healthmgr`):

    symptoms    back-pressure   an operator causes more than 20 ms of it per second
                queue skew      the longest queue of its instances > 20 times the shortest
                rate skew       the busiest instance receives > 1.5 times the records of the least busy one
    diagnoses   of the operator with back-pressure:
                both skews, or that of rates -> its data is skewed;  queues only -> an instance is slow;
                none -> it is under-provisioned
    resolver    of under-provisioning alone, with b ms of back-pressure per second (at most 999):
                instances * (1 + min(b / (1000 - b), 4)), rounded up
    after an action, nothing is decided for 180 s

One operator is helped at a time. Several with back-pressure are more than Heron's code admits; here it is the one that
causes most. Heron measures which instances cause it, and its resolver adds up their times: with n instances that cause
it together, b is n times too large, up to its bound. So it is done here where `Activity.pressing` tells. Elsewhere,
back-pressure is measured where it is felt: an operator causes what its producers wait, unless it waits itself for what
is downstream of it. A source that does not report is taken to wait for the share of what arrives that it does not emit.

The paper has two things that the code lacks. A (diagnosis, action) pair is put on a blacklist when the share of its
uses that did not help exceeds a limit, here that back-pressure did not become less; the paper gives no limit. And with
`scale_down` below 1, operators whose queues are empty shrink to that share when there is no back-pressure at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from rechannel.errors import RefusedError
from rechannel.scaling.policies.policy import Activity, Advice, Memory, Seen

NO_PRESSURE = (
    "policy 'dhalion' goes by back-pressure, which timesteps do not have: choose another"
    " one, and try this one in the simulator, rechannel.testing.scaling"
)
"""Why it is refused for a stream of timesteps."""
UP, DOWN = "scale up", "scale down"
REMEMBERED = 500
"""Actions in the log."""
MOST_PRESSURE = 0.999
"""Share of the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """An action that was advised, and what it was to help against."""

    at_s: float
    operator: str
    action: str
    pressure: float
    """Share of the time for which the operator caused back-pressure before."""
    helped: bool | None = None
    """None as long as it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dhalion:
    """Where back-pressure comes from, there is to be more of it."""

    noise: float = 0.02
    """Share of the time up to which back-pressure is noise."""
    queue_ratio: float = 20.0
    rate_ratio: float = 1.5
    most_factor: float = 4.0
    """By which share an operator may grow at once."""
    wait_s: float = 180.0
    """After an action."""
    blacklist_above: float = 0.8
    """Share of the uses of a (diagnosis, action) pair without effect."""
    blacklist_uses: int = 3
    """Uses before which no pair is on the blacklist."""
    scale_down: float = 1.0
    """To which share an operator with empty queues shrinks; 1 = never, as in Heron's code."""

    def __post_init__(self) -> None:
        """Check the settings. Raises RefusedError."""
        if not (0 <= self.noise < 1 and self.queue_ratio >= 1 and self.rate_ratio >= 1):
            raise RefusedError(f"{self}: give 0 <= noise < 1, and ratios of at least 1")
        if not (self.most_factor > 0 and self.wait_s >= 0 and 0 < self.scale_down <= 1):
            raise RefusedError(f"{self}: give a factor above 0, a wait, and 0 < scale_down <= 1")

    def decide(self, seen: Seen, memory: Memory) -> tuple[Advice | None, Memory]:
        """Return more instances of one operator, or fewer of those with nothing to do."""
        log: tuple[Used, ...] = (memory or ())[-REMEMBERED:]
        if log and seen.start_s < log[-1].at_s + self.wait_s:
            return None, log
        causes = pressures(seen, self.noise)
        log = tuple(
            replace(each, helped=_helped(each, causes)) if each.helped is None else each
            for each in log
        )
        if not causes:
            return self._down(seen, log)
        name = max(causes, key=lambda each: causes[each])
        activity, share = seen.activities[name], causes[name]
        diagnosis = self.diagnosis(activity)
        if diagnosis != "under-provisioned" or self._blacklisted(log, name, UP):
            return None, log
        now = activity.reports.parallelism
        more = math.ceil(now * (1 + min(share / (1 - share), self.most_factor)))
        reason = f"{name!r} causes back-pressure for {share:.0%} of the time: {more} instances instead of {now}"
        log = (*log, Used(at_s=seen.end_s, operator=name, action=UP, pressure=share))
        evidence = {"back_pressure": share, "diagnosis": diagnosis, "operator": name}
        return Advice(parallelism={name: more}, reason=reason, evidence=evidence), log

    def diagnosis(self, activity: Activity) -> str:
        """Return what is wrong with an operator that causes back-pressure."""
        received, queued = activity.reports.records_in, activity.queued
        if len(received) and received.max() > self.rate_ratio * received.min():
            return "skewed data"
        if queued and max(queued) > self.queue_ratio * max(min(queued), 1):
            return "slow instance"
        return "under-provisioned"

    def _down(self, seen: Seen, log: tuple[Used, ...]) -> tuple[Advice | None, Memory]:
        fewer = {
            name: max(1, math.ceil(each.reports.parallelism * self.scale_down))
            for name, each in seen.activities.items()
            if seen.topology.inputs[name]
            and not any(each.queued)
            and not self._blacklisted(log, name, DOWN)
        }
        present = seen.parallelism
        fewer = {n: number for n, number in fewer.items() if number < present[n]}
        if not fewer:
            return None, log
        used = [Used(at_s=seen.end_s, operator=n, action=DOWN, pressure=0.0) for n in fewer]
        reason = f"no back-pressure, and nothing waits for {', '.join(fewer)}"
        return Advice(parallelism=fewer, reason=reason), (*log, *used)

    def _blacklisted(self, log: tuple[Used, ...], operator: str, action: str) -> bool:
        known = [e.helped for e in log if (e.operator, e.action) == (operator, action)]
        judged = [helped for helped in known if helped is not None]
        if len(judged) < self.blacklist_uses:
            return False
        return judged.count(False) / len(judged) > self.blacklist_above


def _helped(used: Used, causes: dict[str, float]) -> bool:
    """Whether there is less back-pressure than before an action; after a scale-down, whether there is none."""
    after = causes.get(used.operator, 0.0)
    return after < used.pressure or (used.action == DOWN and not after)


def pressures(seen: Seen, noise: float) -> dict[str, float]:
    """Return the share of the time, below 1, for which each operator causes back-pressure, unless it is noise."""
    if any(each.pressing for each in seen.activities.values()):
        sums = {name: sum(each.pressing) for name, each in seen.activities.items()}
        return {name: min(each, MOST_PRESSURE) for name, each in sums.items() if each > noise}
    caused = {}
    for name, inputs in seen.topology.inputs.items():
        if name not in seen.activities or not inputs:
            continue
        felt = max(_waits(seen, producer, name) for producer in inputs)
        if felt > noise and seen.activities[name].blocked <= noise:
            caused[name] = min(felt, MOST_PRESSURE)
    return caused


def _waits(seen: Seen, producer: str, consumer: str) -> float:
    if producer in seen.activities:
        return seen.activities[producer].blocked
    arrivals = seen.arrivals.get(producer)
    if arrivals is None or not arrivals.backlog or not arrivals.rate:
        return 0.0
    read = seen.activities[consumer].reports.received / seen.window_s
    return max(0.0, 1 - read / arrivals.rate)
