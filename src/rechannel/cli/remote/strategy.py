"""The options of a strategy, and what they make."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from rechannel.cli.remote import values
from rechannel.cli.remote.options import Made
from rechannel.errors import RefusedError

KINDS = ("all-at-once", "batched", "fluid", "optimized")

StrategyOption: TypeAlias = Annotated[
    str | None, typer.Option(metavar="KIND", help=f"{', '.join(KINDS)}. [default: {KINDS[0]}]")
]
BinsOption: TypeAlias = Annotated[
    int | None,
    typer.Option("--bins", help="Bins per step (optimized: per transfer)."),
]
GapOption: TypeAlias = Annotated[int, typer.Option(help="Timesteps between two steps.")]
BudgetOption: TypeAlias = Annotated[
    str | None, typer.Option(metavar="50ms|10MB", help="What a timestep may spend on moves.")
]
PrepareOption: TypeAlias = Annotated[
    bool, typer.Option("--no-prepare", help="Do not prepare the change ahead of its first step.")
]


def strategy_from(
    strategy: StrategyOption = None,
    bins: BinsOption = None,
    gap: GapOption = 0,
    budget: BudgetOption = None,
    no_prepare: PrepareOption = False,
) -> dict[str, Any] | None:
    """The strategy as JSON; None without options. Raises RefusedError for options that exclude each other."""
    fields: dict[str, Any] = {} if budget is None else values.budget(budget)
    if bins is not None:
        fields["bins"] = bins
    if gap:
        fields["gap"] = gap
    if no_prepare:
        fields["prepare"] = False
    if strategy is None and not fields:
        return None
    kind = strategy or KINDS[0]
    if kind not in KINDS:
        msg = f"there is no strategy {kind!r}; there are: {', '.join(KINDS)}"
        raise RefusedError(msg)
    if kind == KINDS[0] and fields.keys() - {"prepare"}:
        msg = "--bins, --gap and --budget need a strategy with several steps: --strategy batched, fluid or optimized"
        raise RefusedError(msg)
    return {"kind": kind.replace("-", "_"), **fields}


ChosenStrategy: TypeAlias = Annotated[dict[str, Any] | None, Made(strategy_from)]
"""An argument of a command: the strategy as JSON, from its options."""
