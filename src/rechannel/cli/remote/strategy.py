"""How gently: the options of a strategy."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from rechannel.cli.remote.values import budget
from rechannel.errors import RefusedError

KINDS = ("all-at-once", "batched", "fluid", "optimized")

StrategyOption: TypeAlias = Annotated[
    str | None, typer.Option(metavar="KIND", help=f"{', '.join(KINDS)}. [default: {KINDS[0]}]")
]
BinsOption: TypeAlias = Annotated[
    int | None,
    typer.Option("--bins", help="That move in one step (of one transfer, if optimized)."),
]
GapOption: TypeAlias = Annotated[int, typer.Option(help="Timesteps between two steps.")]
BudgetOption: TypeAlias = Annotated[
    str | None, typer.Option(metavar="50ms|10MB", help="What a timestep may pay for moves.")
]
PrepareOption: TypeAlias = Annotated[
    bool, typer.Option("--no-prepare", help="Do nothing ahead of the first step.")
]


def strategy_of(
    kind: str | None, bins: int | None, gap: int, most: str | None, *, unprepared: bool
) -> dict[str, Any] | None:
    """The strategy as JSON; None where nothing was said. Raises RefusedError for what does not go together."""
    fields: dict[str, Any] = {} if most is None else budget(most)
    if bins is not None:
        fields["bins"] = bins
    if gap:
        fields["gap"] = gap
    if unprepared:
        fields["prepare"] = False
    if kind is None and not fields:
        return None
    kind = kind or KINDS[0]
    if kind not in KINDS:
        msg = f"there is no strategy {kind!r}; there are: {', '.join(KINDS)}"
        raise RefusedError(msg)
    if kind == KINDS[0] and fields.keys() - {"prepare"}:
        msg = "--bins, --gap and --budget need a strategy with steps: --strategy batched, fluid or optimized"
        raise RefusedError(msg)
    return {"kind": kind.replace("-", "_"), **fields}
