"""Whether a timestep has more bad rows than the program allows. Pure.

It is decided before the commit, from the reports of the timestep and the counts of committed ones. The reports of a
timestep that runs again are the same, so a driver that starts again decides the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rechannel.dataflow.checks.dead import bounds_of
from rechannel.engine.loop.core.state import LoopState
from rechannel.engine.program.physical import PhysicalPlan
from rechannel.errors import TooManyBadRowsError
from rechannel.kernels.tasks.report import Judged
from rechannel.kernels.tasks.unit_report import UnitReport
from rechannel.model.bad_rows import AtMost, Counted, summed


def judged_of(reports: Iterable[UnitReport]) -> dict[str, Judged]:
    """Return what the tasks of a timestep found of rows, by operator."""
    out: dict[str, Judged] = {}
    for report in reports:
        for operator, judged in report.judged.items():
            out[operator] = judged if operator not in out else out[operator].plus(judged)
    return out


def counted_of(plan: PhysicalPlan, reports: Iterable[UnitReport]) -> dict[str, Counted]:
    """Return what the commit of a timestep has to say of operators with a bound."""
    bounds = bounds_of(plan.dataflow)
    return _counted(bounds, judged_of(reports)) if bounds else {}


def too_many(state: LoopState, number: int) -> TooManyBadRowsError | None:
    """Return the error that ends the job instead of a commit; None = no bound is exceeded."""
    bounds = bounds_of(state.plan.dataflow)
    if not bounds:
        return None
    judged = judged_of(state.in_flight[number].reports)
    for operator, counted in _counted(bounds, judged).items():
        bound = bounds[operator]
        rows, bad = summed(state.bad_rows.get(operator, ()), counted, number, bound)
        if bound.exceeded(rows, bad):
            example = judged[operator].example if operator in judged else ""
            return TooManyBadRowsError(_sentence(operator, number, bound, (rows, bad), example))
    return None


def _counted(bounds: Mapping[str, AtMost], judged: Mapping[str, Judged]) -> dict[str, Counted]:
    return {
        operator: Counted(
            rows=judged[operator].rows, bad=judged[operator].bad, keep=bound.timesteps - 1
        )
        for operator, bound in bounds.items()
        if operator in judged
    }


def _sentence(
    operator: str, timestep: int, bound: AtMost, counts: tuple[int, int], example: str
) -> str:
    rows, bad = counts
    span = "this timestep" if bound.timesteps == 1 else f"the last {bound.timesteps} timesteps"
    share = f" ({bad * 100 / rows:.3g} %)" if rows else ""
    shown = f" One of them: {example}." if example else ""
    return (
        f"operator {operator!r}, timestep {timestep}: {bad} of {rows} rows{share} in {span} are bad, which is more than"
        f" {bound}.{shown} Nothing of the timestep was committed: correct the function or raise the bound in the"
        " program, and start again; if you correct the data, have the timestep planned anew with start(replan=True)"
    )
