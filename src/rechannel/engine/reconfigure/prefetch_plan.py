"""Which of the state that is going to move is prefetched, in which pieces, and when to stop. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rechannel.kernels.lsm.ahead import Attended
from rechannel.model.configuration import Configuration
from rechannel.model.hashspace import Intervals
from rechannel.reconfigure.steps import BinMove, Sizes, Step, rewritten

STEPS = 8
"""Number of steps whose state is prefetched. State of later steps would be merged into other segments by then."""

AGAIN = 4
"""Number of steps after which the next steps are prefetched again."""

PIECE = 4 << 20
"""Estimated bytes that are fetched between two pauses; at least one bin."""

PASSES = 5
"""Most passes over the state of bins that all move at once."""

LITTLE = 0.1
"""The pass that fetches at most this share of the first pass is the last."""

SHRINKS = 0.7
"""So is a pass that fetches more than this share of the pass before it: timesteps write as fast as it fetches."""

GUESS = 1e-5
"""Milliseconds per byte (100 MB/s) until a fetch has been measured."""

SOONEST, LATEST = 0.25, 5.0
"""Bounds of the seconds between two questions about progress."""


def moves_of_next_steps(steps: Sequence[Step]) -> tuple[BinMove, ...]:
    """Moves of the next steps that bring state to another task."""
    return tuple(move for step in steps[:STEPS] for move in step.moves if not move.stays)


def bins_to_share(
    before: Configuration, later: Configuration, operator: str, sizes: Sizes
) -> tuple[BinMove, ...]:
    """Spread bins, once for each task that reads them anew. A bin of unknown size becomes a piece of its own."""
    old, new = before.operators.get(operator), later.operators.get(operator)
    if old is None or new is None or old.routing is None or new.routing is None:
        return ()
    former = {one.lo: one.tasks for one in old.routing.spreads}
    return tuple(
        BinMove(
            operator=operator,
            lo=one.lo,
            hi=one.hi,
            source=one.tasks[0],
            target=task,
            size=sizes.of(operator, one.lo, one.hi) or PIECE,
        )
        for one in new.routing.spreads
        for task in one.tasks[1:]
        if task not in former.get(one.lo, ())
    )


def may_place_anew(before: Configuration, later: Configuration, operator: str) -> bool:
    """Whether tasks that an operator has in both Configurations may have to run on another executor."""
    old, new = before.operators.get(operator), later.operators.get(operator)
    if old is None or new is None or new.routing is None:
        return False
    if before.executors != later.executors:
        return True
    return (old.tasks, old.placement, old.resources) != (new.tasks, new.placement, new.resources)


def bins_of_tasks(
    configuration: Configuration, operator: str, tasks: Collection[int], sizes: Sizes
) -> tuple[BinMove, ...]:
    """All bins of tasks that go to another host. A bin of unknown size becomes a piece of its own."""
    bins = [move for move in rewritten(configuration, operator, sizes) if move.source in tasks]
    return tuple(replace(move, size=move.size or PIECE) for move in bins)


def pieces(moves: Iterable[BinMove], size: float = PIECE) -> Iterator[Intervals]:
    """Yield the hashes of moves, in the order of the moves, in pieces of about `size` bytes."""
    taken: list[tuple[int, int]] = []
    total = 0.0
    for move in moves:
        if taken and total + move.size > size:
            yield Intervals.of(taken)
            taken, total = [], 0.0
        taken.append((move.lo, move.hi))
        total += move.size
    if taken:
        yield Intervals.of(taken)


def worth_another(passes: Sequence[int]) -> bool:
    """Whether another pass is worth it. passes: bytes that each pass so far has fetched."""
    if not passes:
        return True
    if len(passes) >= PASSES or passes[-1] <= LITTLE * passes[0]:
        return False
    return len(passes) < 2 or passes[-1] <= SHRINKS * passes[-2]


@dataclass(kw_only=True)
class Tally:
    """What was prefetched for one reconfiguration."""

    bytes_fetched: int = 0
    bytes_present: int = 0
    pieces: int = 0
    passes: list[int] = field(default_factory=list)
    ms_per_byte: float = GUESS
    """Measured on the slowest host in the last pass."""
    closed: bool = False
    """The reconfiguration is over: nothing more is fetched for it."""

    def count(self, over: Iterable[Attended]) -> None:
        """Add a pass that all hosts have finished."""
        over = tuple(over)
        self.passes.append(sum(one.bytes_fetched for one in over))
        self.bytes_fetched += self.passes[-1]
        self.bytes_present += sum(one.bytes_present for one in over)
        self.pieces += sum(one.pieces for one in over)
        rates = [
            one.ms / covered
            for one in over
            if (covered := one.bytes_fetched + one.bytes_present) and one.ms
        ]
        self.ms_per_byte = max(rates, default=self.ms_per_byte)

    def patience(self, size: float, looks: int) -> float:
        """Seconds until the next question about progress, longer each time. size: most bytes that a host fetches."""
        expected = size * self.ms_per_byte / 1e3
        return min(LATEST, max(SOONEST, expected) * (1.0 if looks == 0 else 0.5 * looks))

    def to_json(self) -> Mapping[str, int | list[int]]:
        """Plain JSON values, for the history."""
        return {
            "bytes_fetched": self.bytes_fetched,
            "bytes_present": self.bytes_present,
            "pieces": self.pieces,
            "passes": list(self.passes),
        }
