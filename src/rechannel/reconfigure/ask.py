"""How changes and strategies are written in Python: `rc.changes.rescale("counts", tasks=8)`, `rc.strategies.fluid()`.

Every function only makes a value; it raises RefusedError, naming the argument, for one that cannot be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from rechannel.errors import RefusedError
from rechannel.model.configuration import Combine
from rechannel.model.routing import Routing
from rechannel.reconfigure import changes as c
from rechannel.reconfigure import strategies as s

V = TypeVar("V", bound=BaseModel)


def _made(kind: type[V], **fields: Any) -> V:
    try:
        return kind(**fields)
    except ValidationError as error:
        name = kind.model_fields["kind"].default
        raise RefusedError(f"{name}: {c.complaints(error)}") from error


def rescale(operator: str, tasks: int) -> c.Rescale:
    """Run an operator with so many tasks; as few bins move as balance allows.

    With as many as there are, bins are evened out: what moves, a rebalancing or a half-done change did to them is gone.
    """
    return _made(c.Rescale, operator=operator, tasks=tasks)


def rebalance(operator: str, *, tolerance: float = 0.1) -> c.Rebalance:
    """Spread the measured load over the tasks until the busiest is at most (1 + tolerance) times the mean."""
    return _made(c.Rebalance, operator=operator, tolerance=tolerance)


def move(operator: str, bins: int | Sequence[int], task: int) -> c.Move:
    """Place bins, by number, at a task."""
    numbers = tuple(bins) if isinstance(bins, Iterable) else (bins,)
    return _made(c.Move, operator=operator, bins=numbers, task=task)


def split(operator: str, bin: int, *, into: int = 2) -> c.Split:  # noqa: A002 - the field's word
    """Cut a bin into several of equal width. One hot key cannot be split: see `combine`."""
    return _made(c.Split, operator=operator, bin=bin, into=into)


def merge(operator: str, bins: Sequence[int]) -> c.Merge:
    """Make neighbouring bins one."""
    return _made(c.Merge, operator=operator, bins=tuple(bins))


def rewrite(operator: str) -> c.Rewrite:
    """Write the state of an operator anew, bin by bin under the strategy: one run per bin, in its present columns.

    After a migration, old columns are gone then; otherwise merging does it in its own time.
    """
    return _made(c.Rewrite, operator=operator)


def place(operator: str, task: int, executor: str | None) -> c.Place:
    """Run a task on an executor, by its id in Spark, from now on; None lets it go where it likes."""
    return _made(c.Place, operator=operator, task=task, executor=executor)


def combine(operator: str, mode: Combine | str) -> c.SetCombine:
    """Pre-aggregate what an operator receives: "on", "off" or "auto"."""
    return _made(c.SetCombine, operator=operator, mode=mode)


def set_interval(milliseconds: int) -> c.SetInterval:
    """Distance between timestep starts; 0 = as soon as possible."""
    return _made(c.SetInterval, interval_ms=milliseconds)


def set_in_flight(timesteps: int) -> c.SetInFlight:
    """How many timesteps may be under way at once."""
    return _made(c.SetInFlight, timesteps=timesteps)


def set_bound(source: str, most: int | None, bytes: int | None = None) -> c.SetBound:  # noqa: A002
    """What a timestep takes of a source at most.

    most: rows (files, for a source of files); None = the source's own bound. bytes: about so many bytes of rows in
    memory; None = its share of `Settings.timestep_bytes`.
    """
    return _made(c.SetBound, source=source, most=most, bytes=bytes)


def executors(total: int) -> c.SetExecutors:
    """Ask Spark for this many executors."""
    return _made(c.SetExecutors, executors=total)


def assign_logic(operator: str, function: str) -> c.AssignLogic:
    """Run the function at an import path ("module:function") under an operator's name: Trisk's first primitive."""
    return _made(c.AssignLogic, operator=operator, function=function)


def assign_workload(operator: str, routing: Routing) -> c.AssignWorkload:
    """Trisk's second primitive: place all bins of an operator exactly so."""
    return _made(
        c.AssignWorkload,
        operator=operator,
        starts=routing.starts,
        owners=routing.owners,
        tasks=routing.tasks,
    )


def assign_resources(
    operator: str | None = None,
    *,
    cpus: int = 1,
    memory_mb: int | None = None,
    amounts: Mapping[str, float] | None = None,
) -> c.AssignResources:
    """Trisk's third primitive: what every task of an operator needs of its executor. None = of all operators.

    An executor runs as many tasks at a time as it has `cpus` for.
    """
    return _made(
        c.AssignResources,
        operator=operator,
        cpus=cpus,
        memory_mb=memory_mb,
        amounts=dict(amounts or {}),
    )


def all_at_once(*, prepare: bool = True) -> s.AllAtOnce:
    """Everything at one border."""
    return _made(s.AllAtOnce, prepare=prepare)


def batched(
    bins: int = 16,
    *,
    gap: int = 0,
    budget_ms: float | None = None,
    budget_bytes: int | None = None,
    prepare: bool = True,
) -> s.Batched:
    """That many bins per step. gap: timesteps between steps. budget: what a step may cost its timestep."""
    return _made(
        s.Batched,
        bins=bins,
        gap=gap,
        budget_ms=budget_ms,
        budget_bytes=budget_bytes,
        prepare=prepare,
    )


def fluid(
    bins: int = 1,
    *,
    gap: int = 0,
    budget_ms: float | None = None,
    budget_bytes: int | None = None,
    prepare: bool = True,
) -> s.Fluid:
    """One bin per step. gap, budget: as in `batched`."""
    return _made(
        s.Fluid,
        bins=bins,
        gap=gap,
        budget_ms=budget_ms,
        budget_bytes=budget_bytes,
        prepare=prepare,
    )


def optimized(
    bins: int = 1,
    *,
    gap: int = 0,
    budget_ms: float | None = None,
    budget_bytes: int | None = None,
    prepare: bool = True,
) -> s.Optimized:
    """Steps in which every task gives or takes at most once, up to `bins` bins. gap, budget: as in `batched`."""
    return _made(
        s.Optimized,
        bins=bins,
        gap=gap,
        budget_ms=budget_ms,
        budget_bytes=budget_bytes,
        prepare=prepare,
    )
