"""DS2's offline evaluation (Kalavri et al., OSDI'18, and its published code): files in, numbers of instances out. Pure.

Every epoch is evaluated alone, by the model (`model/optimal.py`), from the true rates of its instances.

    advised = ceil(exact * (1 + factor))                      factor: over-provisioning, 0 and more

**Threshold.** Useful time does not contain all costs, so that a source may emit less than it should although no
operator lacks instances. If an epoch advises no operator to grow, and a source's rate over its observed rate is above
the threshold, the number of every operator that has rates is multiplied by the largest such ratio and rounded up.
(DS2's code, given several epochs, takes those of one operator for those of another, in an order that differs from run
to run.)

**Timely** runs all operators on the same workers, and needs as many as all operators together:

    workers = ceil(sum of exact * (1 + factor))               DS2's code leaves out the factor here

Operators without rates take no part in that sum. The threshold is that of the workers.

**The epochs together** say the median of what each says, the larger of two, as DS2 does for Timely.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Literal, TypeVar

from rechannel.errors import RefusedError, TraceError
from rechannel.scaling.files.advice import EpochAdvice, OperatorAdvice, ScalingAdvice
from rechannel.scaling.files.aggregated import behind, operator_rates, source_rate
from rechannel.scaling.files.deployment import Deployment
from rechannel.scaling.files.reports import Epochs, Report
from rechannel.scaling.model.optimal import SLACK, Need, instances, optimal_parallelism
from rechannel.scaling.model.rates import Rates

System = Literal["flink", "timely", "heron"]

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """How epochs are to be evaluated."""

    system: System = "flink"
    factor: float = 0.0
    """Share of instances that every operator gets in addition."""
    threshold: float | None = None
    """Largest ratio of a source's rate to its observed rate that is accepted; None = any."""
    source_rates: Mapping[str, float] = field(default_factory=dict)
    """Records per second of an instance of a source; -1 = its observed rate."""
    operator_rates: Mapping[str, float] = field(default_factory=dict)
    """Records per second that an instance can process at most; -1 = its observed rate."""

    def __post_init__(self) -> None:
        """Check the settings. Raises RefusedError."""
        if self.system not in {"flink", "timely", "heron"}:
            raise RefusedError(f"system {self.system!r}: give 'flink', 'timely' or 'heron'")
        if not 0 <= self.factor < float("inf"):
            raise RefusedError(f"factor {self.factor}: give 0 or more; 0.2 adds 20 % of instances")
        if self.threshold is not None and not self.threshold >= 1:
            raise RefusedError(f"threshold {self.threshold}: give a ratio of at least 1")


def evaluate(of: Deployment, epochs: Epochs, asked: Question, title: str) -> ScalingAdvice:
    """Return what all epochs say. Raises TraceError if none has the rates of all sources."""
    made = [
        found
        for epoch, reports in epochs.items()
        if (found := _epoch(of, epoch, reports, asked)) is not None
    ]
    silent = [source for source in of.topology.sources if not _speaks(source, epochs)]
    if not made:
        names = ", ".join(repr(of.label(key)) for key in silent or of.topology.sources)
        msg = (
            f"no epoch has the rates of all sources ({names}); give them in a file of source rates"
        )
        raise TraceError(msg)
    operators = {
        key: _middle_operator([each.operators[key] for each in made]) for key in made[0].operators
    }
    timely = asked.system == "timely"
    return ScalingAdvice(
        title=title,
        operators=operators,
        epochs=tuple(made),
        workers=_middle(sorted(each.workers or 0 for each in made)) if timely else None,
        present_workers=_present(of) if timely else None,
        notes=tuple(_notes(of, epochs, [each.epoch for each in made], asked)),
    )


def _epoch(
    of: Deployment, epoch: int, reports: Mapping[str, Sequence[Report]], asked: Question
) -> EpochAdvice | None:
    """Return what an epoch says; None if a source has no rate."""
    graph, sources = of.topology, dict[str, float]()
    ratios = list[float]()
    for key in graph.sources:
        rows, count = reports.get(key, ()), of.instances[key]
        rate = source_rate(rows, count, asked.source_rates.get(key))
        if rate is None:
            return None
        sources[key] = rate
        ratio = behind(rows, count, rate)
        if ratio is not None:
            ratios.append(ratio)
    rates = {
        key: operator_rates(reports.get(key, ()), of.instances[key], asked.operator_rates.get(key))
        for key in graph.operators
        if graph.inputs[key]
    }
    needs = optimal_parallelism(graph, rates, sources)
    found = {key: _operator(of, key, rates[key], needs[key], asked.factor) for key in rates}
    return _adjusted(
        of,
        EpochAdvice(
            epoch=epoch,
            operators=found,
            behind=max(ratios, default=None),
            adjusted=False,
            workers=_workers(found, asked.factor) if asked.system == "timely" else None,
        ),
        asked.threshold,
    )


def _operator(of: Deployment, key: str, rates: Rates, need: Need, factor: float) -> OperatorAdvice:
    measured = rates.processing is not None and (need.known or need.exact > rates.parallelism)
    advised = instances(need.exact * (1 + factor)) if measured else need.parallelism
    return OperatorAdvice(
        name=of.label(key),
        instances=rates.parallelism,
        target=need.target,
        rate=None if rates.processing is None else rates.processing / rates.parallelism,
        exact=need.exact,
        advised=advised,
        low=advised,
        high=advised,
        times=1 + factor if measured else 1.0,
        reports=rates.reports or 0,
        known=need.known,
    )


def _workers(operators: Mapping[str, OperatorAdvice], factor: float) -> int:
    total = sum(each.exact for each in operators.values() if each.rate is not None)
    return instances(total * (1 + factor))


def _adjusted(of: Deployment, made: EpochAdvice, threshold: float | None) -> EpochAdvice:
    """Multiply the numbers of an epoch if its sources lag, and no operator is to grow."""
    ratio = made.behind
    grows = (
        any(each.advised > each.instances for each in made.operators.values())
        if made.workers is None
        else made.workers > _present(of)
    )
    if threshold is None or ratio is None or ratio <= threshold or grows:
        return made
    operators = {}
    for key, each in made.operators.items():
        if each.rate is None:
            operators[key] = each
            continue
        number = ceil(each.advised * ratio * (1 - SLACK))
        operators[key] = replace(
            each, advised=number, low=number, high=number, times=each.times * ratio
        )
    workers = None if made.workers is None else ceil(made.workers * ratio * (1 - SLACK))
    return replace(made, operators=operators, workers=workers, adjusted=True)


def _middle_operator(epochs: Sequence[OperatorAdvice]) -> OperatorAdvice:
    """Return the median epoch of an operator, with the least and the most of all."""
    ordered = sorted(epochs, key=lambda each: (each.advised, each.exact))
    return replace(_middle(ordered), low=ordered[0].advised, high=ordered[-1].advised)


def _middle(ordered: Sequence[_Value]) -> _Value:
    return ordered[len(ordered) // 2]


def _present(of: Deployment) -> int:
    return max(of.instances.values())


def _speaks(source: str, epochs: Epochs) -> bool:
    return any(reports.get(source) for reports in epochs.values())


def _notes(of: Deployment, epochs: Epochs, used: Sequence[int], asked: Question) -> Iterator[str]:
    """Say what is missing."""
    left_out = [epoch for epoch in epochs if epoch not in used]
    if left_out:
        shown = ", ".join(map(str, left_out))
        yield f"left out, since a source reported no rate and none is given: epochs {shown}"
    lacking = defaultdict[str, list[int]](list)
    for epoch in used:
        for key in set(of.topology.operators) - set(asked.source_rates):
            if len(epochs[epoch].get(key, ())) < of.instances[key]:
                lacking[key].append(epoch)
    for key in [each for each in of.topology.operators if each in lacking]:
        shown = ", ".join(map(str, lacking[key]))
        if any(epochs[epoch].get(key) for epoch in used):
            what = f"not all instances reported in epochs {shown}; they count as the mean of the others"
            yield f"{of.label(key)}: {what}"
        else:
            yield f"{of.label(key)} reported nothing, and keeps what it has"
