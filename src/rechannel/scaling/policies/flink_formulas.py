"""The formulas of the autoscaler of the Flink Kubernetes operator, one function each. Pure.

From apache/flink-kubernetes-operator, module `flink-autoscaler`: `AutoScalerUtils`, `JobVertexScaler`,
`ScalingMetricEvaluator`. With the names of `FlinkSettings`:

    capacity(u)      lag / catch-up + rate * restart / catch-up + rate / u, rounded to an integer
    scale factor     capacity(utilisation) / (true rate * coefficient), within 1 - most_down .. 1 + most_up
    parallelism      instances * scale factor, rounded up, within the bounds, aligned to the key groups
    true rate        records per second / busiest instance's share of busy time; infinite if nothing arrives
    within bounds    capacity(utilisation + boundary) without restart <= true rate <= capacity(utilisation - boundary)
    coefficient      sum(p r) / (sum(p^2) * base), rounded up to 0.01, within least_coefficient .. 1
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rechannel.scaling.policies.flink_settings import FlinkSettings


def capacity(
    settings: FlinkSettings, rate: float, catch_up: float, utilisation: float, *, restart: bool
) -> float:
    """Return the records per second that an operator must be able to process; infinite for a utilisation of 0.

    rate: what arrives, records per second. catch_up: lag / catch-up time. restart: whether what arrives during a
    restart must be caught up with, too.
    """
    share = min(max(utilisation, 0.0), 1.0)
    if share == 0:
        return math.inf
    missed = rate * settings.restart_s / settings.catch_up_s if settings.catch_up_s else 0.0
    return math.floor(catch_up + (missed if restart else 0.0) + rate / share + 0.5)


def scale_factor(settings: FlinkSettings, needed: float, true_rate: float) -> float:
    """Return by how much the instances are multiplied."""
    factor = needed / true_rate
    return min(max(factor, 1 - settings.most_down), 1 + settings.most_up)


def new_parallelism(settings: FlinkSettings, present: int, factor: float) -> int:
    """Return the instances that a factor leads to, within the bounds, aligned to the key groups."""
    groups = settings.key_groups
    least = min(present, settings.least)
    most = max(present, settings.most)
    most = most if groups is None else min(most, groups)
    wanted = min(max(least, math.ceil(factor * present)), most)
    if groups is None or wanted == present:
        return wanted
    return aligned(wanted, present, groups=groups, least=least, most=most)


def aligned(wanted: int, present: int, *, groups: int, least: int, most: int) -> int:
    """Return the next number above that divides the key groups, or else one below.

    Below, it is the first that divides them and gives an instance more of them, or the last before an instance would
    get more. Neither turns growing into shrinking; if no number is left, the present one stays.
    """
    grows = wanted > present
    highest = min(groups, most) if grows else min(present, groups, most)
    for number in range(wanted, highest + 1):
        if groups % number == 0:
            return number
    number = wanted
    while number > 0:
        if groups // number > groups // wanted:
            number += groups % number != 0
            break
        number -= 1
    number = max(number, least)
    turned = number <= present if grows else number >= present
    return present if turned else number


def coefficient(settings: FlinkSettings, seen: Sequence[tuple[int, float]]) -> float:
    """Return how far an operator falls short of scaling linearly, from (instances, true rate) before its changes.

    The base is the rate of an instance at the least parallelism that was seen.
    """
    if not seen or len(seen) < settings.least_observations:
        return 1.0
    fewest, rate = min(seen)
    base = rate / fewest
    squares = sum(number**2 for number, _ in seen) * base
    if not 0 < squares < math.inf:
        return 1.0
    found = sum(number * rate for number, rate in seen) / squares
    return math.ceil(min(max(found, settings.least_coefficient), 1.0) * 100 - 1e-9) / 100
