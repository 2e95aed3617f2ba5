"""The options of a strategy."""

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
    typer.Option("--bins", help="Bins per step (optimized: per transfer)."),
]
GapOption: TypeAlias = Annotated[int, typer.Option(help="Timesteps between two steps.")]
BudgetOption: TypeAlias = Annotated[
    str | None, typer.Option(metavar="50ms|10MB", help="What a timestep may spend on moves.")
]
PrepareOption: TypeAlias = Annotated[
    bool, typer.Option("--no-prepare", help="Do not prepare the change ahead of its first step.")
]


def strategy_of(
    kind: str | None, bins: int | None, gap: int, most: str | None, *, unprepared: bool
) -> dict[str, Any] | None:
    """The strategy as JSON; None without options. Raises RefusedError for options that exclude each other."""
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
        msg = "--bins, --gap and --budget need a strategy with several steps: --strategy batched, fluid or optimized"
        raise RefusedError(msg)
    return {"kind": kind.replace("-", "_"), **fields}
