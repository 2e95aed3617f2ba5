"""The optimal parallelism of every operator, in one traversal (DS2, section 3.3, equations 7 and 8).

In topological order, an operator i receives what its producers emit once they keep up:

    target_i = sum over producers j of  selectivity_ji * target_j        target of a source: its own rate
    pi_i     = target_i / (true processing rate of i / instances of i)

Real numbers travel downstream, and each pi_i is rounded up once. The rate of a source is measured outside of the
dataflow (what arrives), so back-pressure cannot hide demand.

If rates do not grow faster than the number of instances, no answer is above the need when scaling up nor below it when
scaling down; if they are proportional, the first answer is final. Data that is skewed and instances that are slow break
the assumption that instances are equal.

What the paper leaves open:

- A target of 0 needs one instance.
- An operator without a rate (nothing has reached it yet) keeps what it has; what it will emit is not known, so
  operators downstream of it get no fewer instances than they have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from rechannel.errors import RefusedError
from rechannel.scaling.model.rates import Rates
from rechannel.scaling.model.topology import Topology

SLACK = 1e-9
"""By which, relatively, a number may be above an integer and still be rounded to it: what floats lose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What one operator needs."""

    target: float
    """Records per second that will arrive; a lower bound if `known` is false."""
    exact: float
    """Instances as a real number, before rounding; of a source, what it has."""
    parallelism: int
    """Instances."""
    known: bool = True
    """Whether the rates of the operator and of everything upstream were measured."""


def instances(exact: float) -> int:
    """Return a real number of instances rounded up, at least 1. Raises RefusedError for one that is not finite."""
    if not math.isfinite(exact):
        msg = (
            f"{exact} instances: a rate of processing is 0, so that no number of instances would do"
        )
        raise RefusedError(msg)
    return max(1, math.ceil(exact * (1 - SLACK)))


def optimal_parallelism(
    topology: Topology,
    rates: Mapping[str, Rates],
    source_rates: Mapping[str, float],
    *,
    utilisation: float = 1.0,
) -> dict[str, Need]:
    """Return what each operator needs, sources included, by name in topological order.

    rates: of every operator; those of a source may be absent. source_rates: records per second that each source emits.
    utilisation: share of an instance's time that may be useful, above 0 and at most 1.

    Raises RefusedError for an operator without an entry, a source without a rate, and a figure out of its range.
    """
    if not 0 < utilisation <= 1:
        raise RefusedError(f"utilisation={utilisation}: give a number above 0 and at most 1")
    needs: dict[str, Need] = {}
    for name in topology.operators:
        inputs = topology.inputs[name]
        if not inputs:
            needs[name] = _source(name, rates.get(name), source_rates)
            continue
        if name not in rates:
            raise RefusedError(f"operator {name!r}: no rates are given")
        sent = [(needs[each], each, rates.get(each)) for each in inputs]
        target = sum(
            need.target * _selectivity(topology, each, of, name) for need, each, of in sent
        )
        known = all(need.known for need, _, _ in sent)
        needs[name] = _need(name, rates[name], target, utilisation, known=known)
    return needs


def targets_of(
    topology: Topology,
    ratios: Mapping[tuple[str, str], float],
    source_rates: Mapping[str, float],
) -> dict[str, float]:
    """Return what will reach every operator, records per second; of a source, its own rate.

    ratios: by edge (producer, consumer), records sent per record received, or of a source per record emitted.
    """
    targets: dict[str, float] = {}
    for name in topology.operators:
        inputs = topology.inputs[name]
        targets[name] = (
            sum(targets[each] * ratios[each, name] for each in inputs)
            if inputs
            else source_rates[name]
        )
    return targets


def _source(name: str, rates: Rates | None, source_rates: Mapping[str, float]) -> Need:
    rate = source_rates.get(name)
    if rate is None or not 0 <= rate < math.inf:
        given = "no rate is given" if rate is None else f"a rate of {rate}"
        raise RefusedError(f"source {name!r}: {given}; give the records per second that arrive")
    present = 1 if rates is None else rates.parallelism
    return Need(target=rate, exact=present, parallelism=present)


def _selectivity(topology: Topology, producer: str, rates: Rates | None, consumer: str) -> float:
    """What of the target of a producer arrives: the rate of a source is that of what it emits."""
    if not topology.inputs[producer] and (rates is None or not rates.output):
        return 1.0
    return 0.0 if rates is None else rates.selectivity(consumer)


def _need(name: str, rates: Rates, target: float, utilisation: float, *, known: bool) -> Need:
    present = rates.parallelism
    if rates.processing is None:
        idle = known and target == 0
        return Need(
            target=target,
            exact=0.0 if idle else present,
            parallelism=1 if idle else present,
            known=idle,
        )
    if rates.processing <= 0:
        msg = f"operator {name!r}: a true processing rate of {rates.processing}; give one above 0"
        raise RefusedError(msg)
    exact = target * present / rates.processing / utilisation
    if not known:
        exact = max(exact, float(present))
    return Need(target=target, exact=exact, parallelism=instances(exact), known=known)
