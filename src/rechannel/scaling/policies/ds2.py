"""DS2 (Kalavri et al., OSDI'18): all operators at once, from their true rates. Pure.

What useful time does not contain, such as the time of channels, keeps the achieved rate below the target although no
operator seems to lack instances. Then the targets are multiplied by target / achieved (the paper's target rate ratio),
once for each plan, and keep that factor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rechannel.errors import RefusedError
from rechannel.scaling.model.optimal import Need, optimal_parallelism
from rechannel.scaling.model.rates import Rates, rates_of
from rechannel.scaling.policies.judging import achieved
from rechannel.scaling.policies.policy import Advice, Memory, Seen

REACHED = 0.99
"""Share of the target from which on it is reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """By what targets are multiplied, for costs that useful time does not contain."""

    factor: float
    plan: Mapping[str, int]
    """What the stream ran with when the factor was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ds2:
    """The rates of one window say what every operator needs.

    The target of a source is what arrives, plus its backlog over the catch-up time. `utilisation` is the share of an
    instance's time that may be useful; 1 is DS2's own.
    """

    utilisation: float = 1.0
    catch_up_s: float | None = None
    """Seconds within which a backlog is to be worked off; None = backlogs do not count."""
    most_offset: float = 1.0
    """Largest factor for costs that useful time does not contain; 1 = none."""

    def __post_init__(self) -> None:
        """Check the settings. Raises RefusedError."""
        if not 0 < self.utilisation <= 1 or (self.catch_up_s is not None and self.catch_up_s <= 0):
            raise RefusedError(f"{self}: give 0 < utilisation <= 1 and a catch-up time above 0")
        if not self.most_offset >= 1:
            raise RefusedError(f"{self}: give an offset of at least 1")

    def decide(self, seen: Seen, memory: Memory) -> tuple[Advice | None, Memory]:
        """Return what every operator needs; None if all have it."""
        rates = {
            name: rates_of(each.reports, seen.window_s) for name, each in seen.activities.items()
        }
        offset: Offset | None = memory
        needs = self._needs(seen, rates, offset)
        wanted, present = _wanted(seen, rates, needs), seen.parallelism
        if all(wanted[name] <= present[name] for name in wanted):
            offset = self._corrected(seen, offset)
            if offset is not memory:
                needs = self._needs(seen, rates, offset)
                wanted = _wanted(seen, rates, needs)
        if all(wanted[name] == present[name] for name in wanted):
            return None, offset
        return _advice(wanted, needs, rates), offset

    def _needs(
        self, seen: Seen, rates: Mapping[str, Rates], offset: Offset | None
    ) -> dict[str, Need]:
        factor = 1.0 if offset is None else offset.factor
        targets = {name: rate * factor for name, rate in self.targets(seen).items()}
        return optimal_parallelism(seen.topology, rates, targets, utilisation=self.utilisation)

    def _corrected(self, seen: Seen, before: Offset | None) -> Offset | None:
        """Return the offset after a window in which no operator lacked instances."""
        plan, share = seen.parallelism, achieved(seen)
        done = before is not None and before.plan == plan
        if done or self.most_offset == 1 or not share or share >= REACHED:
            return before
        factor = (1.0 if before is None else before.factor) / share
        return Offset(factor=min(factor, self.most_offset), plan=plan)

    def targets(self, seen: Seen) -> dict[str, float]:
        """Return the records per second that each source should be read at."""
        catch_up = self.catch_up_s
        return {
            name: each.rate + (each.backlog / catch_up if catch_up is not None else 0.0)
            for name, each in seen.arrivals.items()
        }


def _wanted(seen: Seen, rates: Mapping[str, Rates], needs: Mapping[str, Need]) -> dict[str, int]:
    """Return the instances of operators that can be scaled: those that report, without sources."""
    return {
        name: need.parallelism
        for name, need in needs.items()
        if name in rates and seen.topology.inputs[name]
    }


def _advice(wanted: dict[str, int], needs: dict[str, Need], rates: dict[str, Rates]) -> Advice:
    evidence = {
        name: {
            "target_per_s": needs[name].target,
            "rate_per_instance_per_s": None
            if of.processing is None
            else of.processing / of.parallelism,
            "instances": of.parallelism,
            "exact": needs[name].exact,
            "known": needs[name].known,
        }
        for name, of in rates.items()
        if name in wanted
    }
    first = max(wanted, key=lambda name: abs(wanted[name] - rates[name].parallelism))
    need, of = needs[first], rates[first]
    each = "nothing yet" if of.processing is None else f"{of.processing / of.parallelism:,.0f}"
    reason = (
        f"{need.target:,.0f} records per second will reach {first!r}, and one of its instances can process"
        f" {each}: {wanted[first]} instances"
    )
    return Advice(parallelism=wanted, reason=reason, evidence=evidence)
