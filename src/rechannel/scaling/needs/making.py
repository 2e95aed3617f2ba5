"""What a policy says of measured windows, as the value that is shown. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rechannel.scaling.decided import finite
from rechannel.scaling.measured import MeasuredWindow
from rechannel.scaling.model.optimal import Need, optimal_parallelism
from rechannel.scaling.model.rates import Rates, rates_of
from rechannel.scaling.model.timesteps import Pace
from rechannel.scaling.needs.asked import Asked
from rechannel.scaling.needs.curves import curve
from rechannel.scaling.needs.measuring import as_asked
from rechannel.scaling.needs.values import (
    Amount,
    CostFit,
    CurvePoint,
    OperatorNeed,
    StreamNeeds,
    WindowFigures,
)
from rechannel.scaling.policies.answers import changes as any_changes
from rechannel.scaling.policies.policy import Advice, Cores, Memory, Seen
from rechannel.scaling.policies.timesteps import TimestepDs2

MOST_POINTS = 200
"""Tasks of an operator that are shown."""
MOST_WINDOWS = 100
TIMESTEPS = "ds2-timesteps"
"""The policy whose evidence has figures of the whole stream, and those of operators apart."""
EVERY_WINDOW = (TIMESTEPS, "ds2", "threshold")
"""Policies that decide in every window: without a decision, nothing is to be changed. Others wait for more of them."""
NOTHING = Advice(reason="every operator has what it needs")


def needs_of(
    windows: Sequence[MeasuredWindow], asked: Asked
) -> tuple[StreamNeeds, dict[str, OperatorNeed]]:
    """Return what the stream needs, and what each operator needs, in topological order.

    windows: oldest first, at least one, as they were measured. Raises RefusedError as the policy does.
    """
    advice = _advice(windows, asked)
    seen, figures = as_asked(windows[-1].seen, asked), _by_operator(asked, advice)
    model, rates = _model(seen, asked)
    offset = float(advice.evidence.get("offset", 1.0)) if asked.policy == TIMESTEPS else 1.0
    operators = {
        name: _operator(
            name, windows, advice, figures.get(name), model[name], rates[name], offset=offset
        )
        for name in seen.topology.operators
        if name in seen.activities
    }
    return _stream(seen, windows, asked, advice), operators


def _advice(windows: Sequence[MeasuredWindow], asked: Asked) -> Advice:
    """Return what the policy says after the last window; the numbers as they are if it wants no change."""
    policy, memory = asked.made(), None
    advice, latest = None, None
    for window in windows:
        said: tuple[Advice | None, Memory]
        if isinstance(policy, TimestepDs2):
            said = policy.in_full(as_asked(window.seen, asked), memory)
        else:
            said = policy.decide(as_asked(window.seen, asked), memory)
        advice, memory = said
        latest = advice or latest
    if asked.policy in EVERY_WINDOW:
        return advice or NOTHING
    return latest or replace(NOTHING, reason=f"{asked.policy} has decided nothing in these windows")


def _by_operator(asked: Asked, advice: Advice) -> Mapping[str, Any]:
    """Return the figures of each operator in the evidence, if the policy gives any."""
    if asked.policy == TIMESTEPS:
        figures: Mapping[str, Any] = advice.evidence.get("operators", {})
        return figures
    return {name: each for name, each in advice.evidence.items() if isinstance(each, Mapping)}


def _model(seen: Seen, asked: Asked) -> tuple[dict[str, Need], dict[str, Rates]]:
    """Return what DS2's model says of a window, whatever the policy is."""
    rates = {name: rates_of(each.reports, seen.window_s) for name, each in seen.activities.items()}
    given = {name: each.rate for name, each in seen.arrivals.items()}
    return (
        optimal_parallelism(seen.topology, rates, given, utilisation=asked.utilisation),
        rates,
    )


# The stream ----------------------------------------------------------------------------------------


def _stream(
    seen: Seen,
    windows: Sequence[MeasuredWindow],
    asked: Asked,
    advice: Advice,
) -> StreamNeeds:
    evidence = advice.evidence if asked.policy == TIMESTEPS else {}
    cores = seen.cores or Cores(executors=1, cores_per_executor=1)
    executors = _executors(evidence, advice, cores)
    figures = evidence.get("operators", {}) if "cores" in evidence else {}
    needed = evidence.get("cores")
    return StreamNeeds(
        policy=asked.policy,
        why=advice.reason,
        changes=_wants(advice) and any_changes(_full(advice, seen), seen),
        timestep=windows[-1].last,
        interval_ms=cores.interval_ms,
        in_flight=cores.in_flight,
        utilisation=asked.utilisation,
        rate=sum(each.rate for each in seen.arrivals.values()),
        backlog=round(sum(each.backlog for each in seen.arrivals.values())),
        timestep_ms=statistics.median(cores.durations_ms),
        predicted_ms=evidence.get("timestep_ms") if figures else None,
        cores=None
        if needed is None
        else Amount(
            present=cores.executors * cores.cores_per_executor,
            advised=needed,
            low=evidence["cores_low"],
            high=evidence["cores_high"],
        ),
        executors=executors,
        keeps=evidence.get("keeps"),
        binds=evidence.get("binds"),
        used=evidence.get("used"),
        hangs_on=evidence.get("hangs_on"),
        offset=float(evidence.get("offset", 1.0)),
        windows=tuple(map(_figures, windows[-MOST_WINDOWS:])),
        curve=_curve(seen, asked, cores, executors, figures),
        evidence=finite(advice.evidence),
    )


def _wants(advice: Advice) -> bool:
    return bool(advice.parallelism or advice.executors or advice.remedies)


def _full(advice: Advice, seen: Seen) -> Advice:
    """Return advice as `any_changes` reads it: with the executors that there are where it names none."""
    if advice.executors is not None or seen.cores is None:
        return advice
    return Advice(
        parallelism=advice.parallelism, executors=seen.cores.executors, remedies=advice.remedies
    )


def _executors(evidence: Mapping[str, Any], advice: Advice, cores: Cores) -> Amount:
    ends = evidence.get("executors", {})
    advised = cores.executors if advice.executors is None else advice.executors
    return Amount(
        present=cores.executors,
        advised=advised,
        low=min(advised, ends.get("low", advised)),
        high=max(advised, ends.get("high", advised)),
    )


def _curve(
    seen: Seen, asked: Asked, cores: Cores, executors: Amount, figures: Mapping[str, Any]
) -> tuple[CurvePoint, ...]:
    if not figures:
        return ()
    pace = Pace(
        interval_ms=cores.interval_ms,
        utilisation=asked.utilisation,
        in_flight=cores.in_flight,
        driver_ms=cores.driver_ms,
        launch_ms=cores.launch_ms,
    )
    bins = {n: e.most_tasks for n, e in seen.activities.items() if e.most_tasks is not None}
    most = max(executors.present, executors.advised) * cores.cores_per_executor
    return curve(figures, bins, pace, most)


def _figures(window: MeasuredWindow) -> WindowFigures:
    seen = window.seen
    cores = seen.cores or Cores(executors=1, cores_per_executor=1)
    return WindowFigures(
        start_ms=round(seen.start_s * 1e3),
        end_ms=round(seen.end_s * 1e3),
        first=window.first,
        last=window.last,
        configuration=window.configuration,
        arrived_per_s=sum(each.rate for each in seen.arrivals.values()),
        backlog=round(sum(each.backlog for each in seen.arrivals.values())),
        timestep_ms=statistics.median(cores.durations_ms),
        busy=cores.busy,
        tasks=seen.parallelism,
    )


# One operator --------------------------------------------------------------------------------------


def _operator(
    name: str,
    windows: Sequence[MeasuredWindow],
    advice: Advice,
    figures: Mapping[str, Any] | None,
    need: Need,
    rates: Rates,
    *,
    offset: float,
) -> OperatorNeed:
    of = figures or {}
    present = rates.parallelism
    advised = advice.parallelism.get(name, present)
    known = rates.processing is not None and math.isfinite(rates.processing)
    rate = rates.processing / present if known and rates.processing else None
    target = float(of.get("target_per_s", need.target))
    return OperatorNeed(
        instances=present,
        advised=advised,
        low=min(advised, advice.low.get(name, advised)),
        high=max(advised, advice.high.get(name, advised)),
        target=target,
        rate=rate,
        exact=None if rate is None else target / rate,
        sentence=_sentence(name, present, advised, target, rate, advice.remedies.get(name)),
        turn_ms=of.get("turn_ms"),
        cost=_cost(of, offset),
        heaviest=of.get("heaviest"),
        heaviest_after=of.get("heaviest_after"),
        remedy=advice.remedies.get(name),
        points=_points(name, windows),
    )


def _sentence(
    name: str, present: int, advised: int, target: float, rate: float | None, remedy: str | None
) -> str:
    change = f"keep {present}" if advised == present else f"{advised} instead of {present}"
    each = "no rate of processing is known" if rate is None else f"one task processes {rate:,.0f}"
    from_outside = target == 0 and rate is None
    reach = "nothing arrives" if from_outside else f"{target:,.0f} rows per second will reach it"
    skewed = "" if remedy is None else f", after {remedy}"
    return f"{name}: {reach}, and {each}; {change}{skewed}."


def _cost(of: Mapping[str, Any], offset: float) -> CostFit | None:
    """Return the costs as they were fitted: those of the evidence are multiplied by the offset."""
    if "fixed_ms" not in of or not of["samples"]:
        return None
    fixed, row = of["fixed_ms_ends"], of["row_ms_ends"]
    return CostFit(
        fixed_ms=of["fixed_ms"] / offset,
        row_ms=of["row_ms"] / offset,
        flat=(fixed[0] / offset, row[0] / offset),
        steep=(fixed[1] / offset, row[1] / offset),
        samples=of["samples"],
    )


def _points(name: str, windows: Sequence[MeasuredWindow]) -> tuple[tuple[float, float], ...]:
    """Return tasks of the latest windows, at equal distances in the order in which they ran."""
    active = (window.seen.activities.get(name) for window in windows[-MOST_WINDOWS:])
    tasks = [each.tasks for each in active if each is not None and each.tasks is not None]
    if not tasks:
        return ()
    rows, ms = (np.concatenate([getattr(each, of) for each in tasks]) for of in ("rows", "ms"))
    taken = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MOST_POINTS)).astype(int))
    return tuple(zip(rows[taken].tolist(), ms[taken].tolist(), strict=True))
