"""To which executor which bins of an operator go with the next steps of a change."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from rechannel.engine.reconfigure.cluster import Executor
from rechannel.engine.reconfigure.placement import moved_tasks
from rechannel.engine.reconfigure.prefetch_plan import (
    bins_of_tasks,
    bins_to_share,
    may_place_anew,
    moves_of_next_steps,
    pieces,
)
from rechannel.engine.spark.placing import Placing
from rechannel.kernels.lsm.ahead import Errand
from rechannel.model.configuration import Configuration
from rechannel.model.hashspace import Intervals
from rechannel.reconfigure.coordination import Now
from rechannel.reconfigure.steps import BinMove, Step
from rechannel.state.manifest import Manifest


def bins_by_target(
    placing: Placing,
    operator: str,
    steps: Sequence[Step],
    now: Now,
    first: Configuration,
    last: Configuration,
) -> dict[Executor, list[BinMove]]:
    """Bins of an operator by the executor they go to: with the next steps, or with a task that has to run elsewhere.

    first, last: Configuration after the next step, and after all steps considered.
    """
    targets: dict[Executor, list[BinMove]] = {}
    moves = [move for move in moves_of_next_steps(steps) if move.operator == operator]
    moves += bins_to_share(now.configuration, first, operator, now.sizes)
    if moves:
        places = placing.expected(operator, first.operators[operator], first.executors)
        for move in moves:
            if move.target in places:
                targets.setdefault(places[move.target], []).append(move)
    if may_place_anew(now.configuration, last, operator):
        before = placing.present(operator, now.configuration.operators[operator].tasks)
        places = placing.expected(operator, last.operators[operator], last.executors)
        elsewhere = moved_tasks(before, {task: executor.id for task, executor in places.items()})
        known = {(executor, move.lo, move.hi) for executor, own in targets.items() for move in own}
        for move in bins_of_tasks(last, operator, frozenset(elsewhere), now.sizes):
            if (places[move.source], move.lo, move.hi) not in known:
                targets.setdefault(places[move.source], []).append(move)
    return targets


def errand_for(manifest: Manifest, moves: Sequence[BinMove]) -> Errand:
    """What one host fetches: all runs that intersect the bins, in pieces."""
    where = Intervals.of((move.lo, move.hi) for move in moves)
    runs = (*manifest.within(where), *manifest.totals(where))
    return Errand(uuid.uuid4().hex, runs, tuple(pieces(moves)))
