"""How many bad rows are too many: bounds, and the counts of the latest timesteps that they are compared with. Pure.

A bound looks at the timestep that is about to be committed, and at the committed ones before it as far back as it
says. The counts are part of each commit, so a driver that starts again compares the same numbers. A share is that of
all rows of these timesteps together. Early in a stream there are few of them; `min_rows` says how many rows a share
needs to mean something.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from rechannel.errors import DataflowError
from rechannel.model.codec import row

FILE_MARK = "\0"
"""Stands before and after the file of a record that could not be read, in front of its text: no path contains it."""

LONGEST = 10_000
"""Most timesteps that a bound looks at: their counts are kept in the journal's state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtMost:
    """How many rows of an operator may be bad."""

    rows: int | None = None
    """A number of rows; None = any."""
    percent: float | None = None
    """A share of the rows that the operator received, 0 to 100; None = any."""
    timesteps: int = 1
    """In how many timesteps."""
    min_rows: int = 1
    """Rows that the operator must have received in them before the share counts."""

    def __post_init__(self) -> None:
        """Check the numbers. Raises DataflowError."""
        if self.rows is None and self.percent is None:
            raise DataflowError("at_most: say how many, with rows= or percent=")
        for name, least, most in (
            ("rows", 0, None),
            ("timesteps", 1, LONGEST),
            ("min_rows", 1, None),
        ):
            value = getattr(self, name)
            if value is not None and not _whole(value, least, most):
                upper = "" if most is None else f" and at most {most}"
                raise DataflowError(
                    f"at_most: {name} must be a whole number of at least {least}{upper}, not {value!r}"
                )
        share = self.percent
        if share is not None and (
            isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 100
        ):
            raise DataflowError(f"at_most: percent must be from 0 to 100, not {share!r}")

    def __str__(self) -> str:
        """As it is written in a program."""
        parts = [] if self.rows is None else [f"rows={self.rows}"]
        parts += [] if self.percent is None else [f"percent={self.percent:g}"]
        parts += [f"timesteps={self.timesteps}"]
        parts += [] if self.min_rows == 1 else [f"min_rows={self.min_rows}"]
        return f"at_most({', '.join(parts)})"

    def exceeded(self, rows: int, bad: int) -> bool:
        """Return whether a number of bad rows is too many. rows: all of them."""
        if self.rows is not None and bad > self.rows:
            return True
        if self.percent is None or rows < self.min_rows:
            return False
        return bad * 100 > Fraction(str(self.percent)) * rows  # 77 of 11000 are 0.7 %, and not more


def at_most(
    *,
    rows: int | None = None,
    percent: float | None = None,
    timesteps: int = 1,
    min_rows: int = 1,
) -> AtMost:
    """Let a job fail if an operator has more bad rows than this. Raises DataflowError.

        orders.map(parsed, "n INT", on_error=rc.at_most(percent=1, timesteps=10))

    The rows are dead letters, as with `on_error="dead_letter"`; the timestep with one too many is not committed.

    Args:
        rows: how many rows may be bad; None = any number.
        percent: how many of 100 rows may be bad, which may be a fraction; None = any share.
        timesteps: over how many timesteps both are counted, the latest ones.
        min_rows: rows that the operator must have received in them before the share counts.
    """
    return AtMost(rows=rows, percent=percent, timesteps=timesteps, min_rows=min_rows)


@row
@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """How many rows of an operator were bad in a timestep."""

    rows: int
    """That it received."""
    bad: int
    keep: int
    """How many later timesteps need these counts."""


@row
@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What an operator counted in a committed timestep."""

    timestep: int
    counted: Counted


Pasts = Mapping[str, tuple[Past, ...]]
"""Counts of committed timesteps that are still needed, by operator, oldest first."""


def advanced(pasts: Pasts, timestep: int, counted: Mapping[str, Counted]) -> Pasts:
    """Return the counts that are needed after a commit. counted: by operator, in the timestep."""
    if not pasts and not counted:
        return pasts
    out: dict[str, tuple[Past, ...]] = {}
    for operator in {**pasts, **counted}:
        kept = [
            past for past in pasts.get(operator, ()) if past.timestep + past.counted.keep > timestep
        ]
        latest = counted.get(operator)
        if latest is not None and latest.keep:
            kept.append(Past(timestep=timestep, counted=latest))
        if kept:
            out[operator] = tuple(kept)
    return out


def summed(pasts: Iterable[Past], now: Counted, timestep: int, bound: AtMost) -> tuple[int, int]:
    """Return rows and bad rows of the timesteps that a bound looks at. now: counted in the latest one, `timestep`."""
    since = timestep - bound.timesteps
    counts = [now, *(past.counted for past in pasts if past.timestep > since)]
    return sum(each.rows for each in counts), sum(each.bad for each in counts)


def _whole(value: object, least: int, most: int | None) -> bool:
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    return value >= least and (most is None or value <= most)
