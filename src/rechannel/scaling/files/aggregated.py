"""From the reports of the instances of an operator to its rates, with what an epoch leaves open.

DS2 sums the rates of the instances that reported. What it does not say has these answers:

- An instance that reported nothing, or a true rate of 0 or one that is not finite, counts as the mean of the others.
  (In DS2's code it counts as one that processes nothing, so that an operator seems slower than it is.)
- An operator of which no instance says anything has no rate, and keeps what it has (`model/optimal.py`).
- A source of which nothing is known has no rate: the epoch is left out, and a note says so.

A file of operator rates says what an instance can process at most, where useful time does not show it: engines that
limit an operator's rate by waiting report a true rate that is too high. -1 says that an operator never waits: its
observed rate is its true one. Then the selectivity is that of the observed rates, which waiting does not change. (DS2's
code divides the true output rate by the limited processing rate, which overstates what such an operator emits.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

from rechannel.errors import TraceError
from rechannel.scaling.files.lines import fields, read_lines
from rechannel.scaling.files.reports import Report
from rechannel.scaling.model.rates import ALL, Rates

OBSERVED = -1.0
"""In place of a rate: the observed rate is the true one."""


def read_given(file: Path, operators: Iterable[str]) -> dict[str, float]:
    """Read a file of `operator_id,rate_per_instance` lines; a rate is records per second, or `OBSERVED`.

    operators: that may be named. Raises TraceError.
    """
    known, found = set(operators), dict[str, float]()

    def given(_: Path, line: str) -> None:
        operator, text = fields(line, "operator_id,rate_per_instance")
        try:
            number = float(text)
        except ValueError:
            number = -2.0
        if not (0 < number < float("inf") or number == OBSERVED):
            msg = f"the rate of {operator!r} is {text!r}; write records per second above 0, or -1 for the observed rate"
            raise ValueError(msg)
        if operator not in known:
            msg = f"{operator!r} is not one of {sorted(known)}"
            raise ValueError(msg)
        if found.setdefault(operator, number) != number:
            msg = f"operator {operator!r} had the rate {found[operator]} before"
            raise ValueError(msg)

    read_lines([file], given)
    if not found:
        msg = f"{file} has no rates; write lines of operator_id,rate_per_instance"
        raise TraceError(msg)
    return found


def operator_rates(reports: Sequence[Report], instances: int, limit: float | None = None) -> Rates:
    """Return the rates of an operator that is no source. limit: records per second of an instance, or `OBSERVED`."""
    spoke = [each for each in reports if each.true_processing]
    received = _sum(each.observed_processing for each in reports)
    emitted = _sum(each.observed_output for each in reports)
    if limit is None:
        per_instance = fmean(each.true_processing or 0.0 for each in spoke) if spoke else None
    elif limit == OBSERVED:
        per_instance = received / len(reports) if received else None
    else:
        true = [each.true_processing or 0.0 for each in spoke]
        per_instance = min(limit, fmean(true)) if true else limit
    ratio = None
    if limit is None or not received:
        processing = _sum(each.true_processing for each in spoke)
        ratio = _sum(each.true_output for each in spoke) / processing if processing else None
    else:
        ratio = emitted / received
    return Rates(
        parallelism=instances,
        processing=None if per_instance is None else per_instance * instances,
        output={} if ratio is None else {ALL: ratio},
        observed=received,
        reports=len(spoke),
    )


def source_rate(
    reports: Sequence[Report], instances: int, given: float | None = None
) -> float | None:
    """Return the records per second that a source emits when nothing holds it up; None if it is not known.

    given: by an instance, or `OBSERVED`.
    """
    if given is not None and given != OBSERVED:
        return given * instances
    observed = [each.observed_output for each in reports if each.observed_output is not None]
    true = [each.true_output for each in reports if each.true_output is not None]
    rates = observed if given == OBSERVED else true
    return fmean(rates) * instances if rates else None


def behind(reports: Sequence[Report], instances: int, target: float) -> float | None:
    """Return how many times more a source should emit than it was seen to; None if it was not seen to emit."""
    observed = [each.observed_output for each in reports if each.observed_output]
    return target / (fmean(observed) * instances) if observed else None


def _sum(rates: Iterable[float | None]) -> float:
    return sum(each or 0.0 for each in rates)
