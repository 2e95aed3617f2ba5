"""Changes of bins: which task owns them, where they are cut, and their state written anew. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from rechannel.errors import RefusedError
from rechannel.model.configuration import Configuration
from rechannel.reconfigure.balance import rebalanced, too_hot
from rechannel.reconfigure.changes.change import Change, Cli
from rechannel.reconfigure.changes.operators import (
    MOST_BINS,
    Operator,
    check_bins,
    check_spreads,
    routed,
    with_fields,
)
from rechannel.reconfigure.changes.registry import in_python, registered
from rechannel.reconfigure.changes.tasks import AssignWorkload
from rechannel.reconfigure.checked import NonNegativeInt
from rechannel.reconfigure.notation import bin_numbers
from rechannel.reconfigure.stream_facts import StreamFacts

__all__ = ["merge", "move", "rebalance", "rewrite", "split"]

MOST_OF_A_BIN = 0.5
"""A key with this share of a bin's rows is what makes the bin hot."""


@registered
@dataclass(frozen=True, slots=True)
class Rebalance(Change):
    """Spread the measured load of an operator's bins over its tasks, moving as little as needed.

    Where one bin has more than a task's share, the plan says so, and so does the record if nothing moves: split it.
    """

    kind = "rebalance"

    operator: Operator
    tolerance: Annotated[
        float,
        Meta(
            ge=0, le=10, description="How far the busiest task may be above the mean, as a share."
        ),
    ] = field(default=0.1, kw_only=True)

    def resolved(self, configuration: Configuration, facts: StreamFacts) -> Configuration:
        """The bins as the measured load wants them."""
        _, routing = routed(configuration, self.operator)
        loads = facts.loads.get(self.operator, ())
        if len(loads) != routing.bins or sum(loads) <= 0:
            msg = (
                f"operator {self.operator!r} has received no rows since its bins were cut, so there is no"
                " load to balance: request it again after some timesteps, or place bins with move()"
            )
            raise RefusedError(msg)
        made = rebalanced(routing, loads, self.tolerance)
        return with_fields(configuration, self.operator, routing=made)

    def advice(
        self, before: Configuration, after: Configuration, facts: StreamFacts
    ) -> tuple[str, ...]:
        """That a bin is hotter than any task should be."""
        del before
        name = self.operator
        _, routing = routed(after, name)
        hot = too_hot(routing, facts.loads[name], self.tolerance) if routing.tasks > 1 else ()
        if not hot:
            return ()
        bins = f"bin {hot[0]} alone has" if len(hot) == 1 else f"bins {list(hot)} each have"
        return (
            f"operator {name!r}: {bins} more than a task's share of the load: split({name!r}, {hot[0]})"
            f" cuts it; if a single key is that hot, {_instead(name, facts)}",
        )

    def pinned(self, after: Configuration, facts: StreamFacts) -> Change:
        """The placement that it leads to now."""
        del facts
        _, routing = routed(after, self.operator)
        return AssignWorkload(self.operator, routing.starts, routing.owners, routing.tasks)


@registered
@dataclass(frozen=True, slots=True)
class Move(Change):
    """Place bins, by number, at a task."""

    kind = "move"

    operator: Operator
    bins: Annotated[
        tuple[NonNegativeInt, ...],
        Meta(min_length=1, description="Numbers of the bins."),
        Cli(argument=True, help="Numbers and ranges of bins, such as 0-3,9.", read=bin_numbers),
    ]
    task: Annotated[int, Meta(ge=0, description="Task that owns them afterwards.")]

    def resolved(self, configuration: Configuration, facts: StreamFacts) -> Configuration:
        """The bins at that task."""
        del facts
        _, routing = routed(configuration, self.operator)
        check_bins(self.operator, routing, self.bins)
        check_spreads(self.operator, routing, bins=self.bins)
        if self.task >= routing.tasks:
            msg = (
                f"operator {self.operator!r} has tasks 0 to {routing.tasks - 1}, not {self.task};"
                " rescale it first"
            )
            raise RefusedError(msg)
        moved = routing.with_owners(dict.fromkeys(self.bins, self.task))
        return with_fields(configuration, self.operator, routing=moved)


@registered
@dataclass(frozen=True, slots=True)
class Split(Change):
    """Cut a bin into several of equal width. A single hot key cannot be split: see `combine`."""

    kind = "split"

    operator: Operator
    bin: Annotated[int, Meta(ge=0, description="Number of the bin."), Cli(argument=True)]
    into: Annotated[int, Meta(ge=2, le=65536, description="How many bins it becomes.")] = field(
        default=2, kw_only=True
    )

    def resolved(self, configuration: Configuration, facts: StreamFacts) -> Configuration:
        """The bin in pieces, all at its task."""
        del facts
        _, routing = routed(configuration, self.operator)
        check_bins(self.operator, routing, (self.bin,))
        check_spreads(self.operator, routing, bins=(self.bin,))
        lo, hi = routing.span(self.bin)
        if hi - lo < self.into or routing.bins + self.into - 1 > MOST_BINS:
            msg = (
                f"operator {self.operator!r}: bin {self.bin} cannot be cut into {self.into}: it holds"
                f" {hi - lo} hashes, and an operator has at most {MOST_BINS} bins. If a single key is hot,"
                f" cutting does not help: pre-aggregate it with combine({self.operator!r}, 'on')"
            )
            raise RefusedError(msg)
        inner = [lo + (hi - lo) * i // self.into for i in range(1, self.into)]
        starts = sorted({*routing.starts, *inner})
        return with_fields(configuration, self.operator, routing=routing.with_starts(starts))

    def advice(
        self, before: Configuration, after: Configuration, facts: StreamFacts
    ) -> tuple[str, ...]:
        """Warn if one key causes most of the bin's load, because a split cannot separate its rows."""
        del after
        name = self.operator
        _, routing = routed(before, name)
        loads = facts.loads.get(name, ())
        if self.bin >= len(loads) or len(loads) != routing.bins or not loads[self.bin]:
            return ()
        lo, hi = routing.span(self.bin)
        rows = max((n for key, n in facts.hot.get(name, {}).items() if lo <= key < hi), default=0.0)
        share = min(1.0, rows / loads[self.bin])
        if share < MOST_OF_A_BIN:
            return ()
        return (
            f"operator {name!r}: one key has {share:.0%} of the rows of bin {self.bin}, and splitting"
            f" does not separate the rows of a key: {_instead(name, facts)}",
        )


@registered
@dataclass(frozen=True, slots=True)
class Merge(Change):
    """Join neighbouring bins into one, at the task of the first of them."""

    kind = "merge"

    operator: Operator
    bins: Annotated[
        tuple[NonNegativeInt, ...],
        Meta(min_length=2, description="Numbers of the bins, a range without gaps."),
        Cli(argument=True, help="Numbers and ranges of bins, such as 0-3,9.", read=bin_numbers),
    ]

    def resolved(self, configuration: Configuration, facts: StreamFacts) -> Configuration:
        """One bin in place of these."""
        del facts
        _, routing = routed(configuration, self.operator)
        bins = sorted(set(self.bins))
        check_bins(self.operator, routing, bins)
        check_spreads(self.operator, routing, bins=bins)
        if len(bins) < 2 or bins != list(range(bins[0], bins[-1] + 1)):
            msg = (
                f"operator {self.operator!r}: bins {list(self.bins)} are not neighbours; merge a range,"
                f" such as {[bins[0], bins[0] + 1]}"
            )
            raise RefusedError(msg)
        if routing.bins - len(bins) + 1 < routing.tasks:
            msg = (
                f"operator {self.operator!r}: {routing.bins - len(bins) + 1} bins are too few for its"
                f" {routing.tasks} tasks; merge fewer, or rescale it first"
            )
            raise RefusedError(msg)
        together = routing.with_owners(dict.fromkeys(bins, routing.owners[bins[0]]))
        starts = [start for i, start in enumerate(routing.starts) if i not in bins[1:]]
        return with_fields(configuration, self.operator, routing=together.with_starts(starts))


@registered
@dataclass(frozen=True, slots=True)
class Rewrite(Change):
    """Write the state of an operator anew, bin by bin: one run per bin, in its present columns.

    It removes the old columns that a migration left; otherwise merging does so over time. Each step needs a timestep
    that writes.
    """

    kind = "rewrite"

    operator: Operator

    def resolved(self, configuration: Configuration, facts: StreamFacts) -> Configuration:
        """The same Configuration: the work is in the steps."""
        del facts
        routed(configuration, self.operator)
        return configuration

    @property
    def rewrites(self) -> str | None:
        """Return the operator, whose state is rewritten."""
        return self.operator


def _instead(name: str, facts: StreamFacts) -> str:
    if name in facts.combinable:
        return f"pre-aggregate it with combine({name!r}, 'on')"
    known = facts.divisible.get(name)
    if known is not None and any(known.undivided(side) is None for side in (0, 1)):
        return f"several tasks can share its rows: spread({name!r}, key)"
    return "no placement spreads it"


rebalance = Rebalance
rewrite = Rewrite
split = Split


@in_python
def move(operator: str, bins: int | Sequence[int], task: int) -> Move:
    """Place bins, by number, at a task."""
    return Move(operator, bins if hasattr(bins, "__iter__") else (bins,), task)  # type: ignore[arg-type]


@in_python
def merge(operator: str, bins: Sequence[int]) -> Merge:
    """Join neighbouring bins into one, at the task of the first of them."""
    return Merge(operator, tuple(bins))
