"""What the demo tells in the end, from the live state of its operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import polars as pl
import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    """An airline's year. cancelled, late, late_again: shares of 0 to 1 (None: of nothing).

    late_again: of the flights whose aircraft had come late. worst_day: the one with most minutes
    of delay, and how many those were.
    """

    code: str
    name: str
    flights: int
    cancelled: float
    late: float | None
    late_again: float | None
    worst_day: date
    worst_minutes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """carriers: the one that is late most often first. late_again, late_anew: share of flights that
    left late when their aircraft had come late, and when it had come on time."""

    carriers: tuple[Carrier, ...]
    late_again: float
    late_anew: float


def findings(results: Mapping[str, pa.Table], names: Mapping[str, str]) -> Findings:
    """Read the results by operator. names: of airlines by their code."""
    days, carriers = _frame(results["days"]), _frame(results["carriers"])
    totals = days.drop("day").group_by("carrier").sum()
    # `carriers` knows how bad the worst day was; which one that was, `days` knows.
    worst = (
        carriers.join(days, on="carrier")
        .filter(pl.col("minutes") == pl.col("most_minutes"))
        .group_by("carrier")
        .agg(worst_day=pl.col("day").min(), worst_minutes=pl.col("minutes").first())
    )
    rows = [_carrier(row, names) for row in totals.join(worst, on="carrier").to_dicts()]
    rows.sort(key=lambda carrier: (-(carrier.late or 0.0), carrier.code))
    whole = totals.drop("carrier").sum().to_dicts()[0]
    return Findings(
        carriers=tuple(rows),
        late_again=whole["late_again"] / max(1, whole["came_late"]),
        late_anew=whole["late_anew"] / max(1, whole["came_on_time"]),
    )


def _carrier(row: Mapping[str, Any], names: Mapping[str, str]) -> Carrier:
    left = row["flights"] - row["cancelled"]
    return Carrier(
        code=row["carrier"],
        name=names.get(row["carrier"], row["carrier"]),
        flights=row["flights"],
        cancelled=row["cancelled"] / row["flights"],
        late=row["late"] / left if left else None,
        late_again=row["late_again"] / row["came_late"] if row["came_late"] else None,
        worst_day=row["worst_day"],
        worst_minutes=row["worst_minutes"],
    )


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    if not isinstance(frame, pl.DataFrame):
        msg = f"polars.from_arrow returned {type(frame).__name__}, expected DataFrame"
        raise TypeError(msg)
    return frame
