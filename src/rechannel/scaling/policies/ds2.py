"""DS2 (Kalavri et al., OSDI'18): all operators at once, from their true rates. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from rechannel.errors import RefusedError
from rechannel.scaling.model.optimal import Need, optimal_parallelism
from rechannel.scaling.model.rates import Rates, rates_of
from rechannel.scaling.policies.policy import Advice, Memory, Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Ds2:
    """The rates of one window say what every operator needs.

    The target of a source is what arrives, plus its backlog over the catch-up time. `utilisation` is the share of an
    instance's time that may be useful; 1 is DS2's own.
    """

    utilisation: float = 1.0
    catch_up_s: float | None = None
    """Seconds within which a backlog is to be worked off; None = backlogs do not count."""

    def __post_init__(self) -> None:
        """Check the settings. Raises RefusedError."""
        if not 0 < self.utilisation <= 1 or (self.catch_up_s is not None and self.catch_up_s <= 0):
            raise RefusedError(f"{self}: give 0 < utilisation <= 1 and a catch-up time above 0")

    def decide(self, seen: Seen, memory: Memory) -> tuple[Advice | None, Memory]:
        """Return what every operator needs; None if all have it."""
        rates = {
            name: rates_of(each.reports, seen.window_s) for name, each in seen.activities.items()
        }
        targets, share = self.targets(seen), self.utilisation
        needs = optimal_parallelism(seen.topology, rates, targets, utilisation=share)
        wanted = {
            name: need.parallelism
            for name, need in needs.items()
            if name in rates and seen.topology.inputs[name]
        }
        present = seen.parallelism
        if all(wanted[name] == present[name] for name in wanted):
            return None, memory
        return _advice(wanted, needs, rates), memory

    def targets(self, seen: Seen) -> dict[str, float]:
        """Return the records per second that each source should be read at."""
        catch_up = self.catch_up_s
        return {
            name: each.rate + (each.backlog / catch_up if catch_up is not None else 0.0)
            for name, each in seen.arrivals.items()
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
