"""How uneven the load of an operator's tasks is, and what helps. Pure.

Skew is the load of the busiest task over the mean of all tasks of the operator, minus 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np

from rechannel.control.library.heaviest import Heaviest
from rechannel.model.routing import Routing
from rechannel.reconfigure.balance import load_of_tasks, rebalanced

HELPS = 0.05
"""By how much moving bins has to lower the skew to be worth it."""
MOST_PIECES = 16
MOST_DOUBLINGS = 6

Remedy: TypeAlias = Literal["move", "look", "none"]
"""Move bins; or look at the keys of the heaviest bin, to cut it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What to do about the heaviest bin of the busiest task."""

    bin: int
    into: int
    """How many bins to make of it; 1 = cutting does not help."""
    one_key: bool
    """Whether one key of it is more than a task's share by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What the controller knows of an operator."""

    uneven: bool = False
    acted: int = 0
    """Timestep of its latest step."""
    key: str = ""
    """The key that the log names as the reason, since the operator became uneven."""
    crossed: bool = False
    """Whether another controller or a user has changed the operator since that step."""
    times: int = 0
    """How many of its steps before that one were crossed, in a row."""

    def waits(self, cool_down: int) -> int:
        """Return the timesteps to wait: twice as many for each step in a row that was crossed."""
        return cool_down << min(self.times + self.crossed, MOST_DOUBLINGS)

    def acting(self, timestep: int) -> Watched:
        """Return it after another step."""
        times = self.times + 1 if self.crossed else 0
        return replace(self, acted=timestep, crossed=False, times=times)


@dataclass(frozen=True, slots=True, kw_only=True)
class Balancing:
    """What the controller knows."""

    operators: Mapping[str, Watched] = field(default_factory=dict)

    def of(self, name: str) -> Watched:
        """What it knows of an operator."""
        return self.operators.get(name, Watched())

    def after(self, name: str, watched: Watched) -> Balancing:
        """Return it with other knowledge of an operator."""
        return Balancing(operators={**self.operators, name: watched})


def skew_of(routing: Routing, rows: Sequence[float]) -> float:
    """Return the skew. rows: by bin, shape (bins,); 0 without any."""
    load = load_of_tasks(routing, np.asarray(rows, dtype=np.float64))
    return float(load.max() / load.mean() - 1) if load.sum() else 0.0


def is_uneven(skew: float, *, before: bool, enter: float, leave: float) -> bool:
    """Whether an operator counts as uneven: from above `enter` until below `leave`."""
    return skew > (leave if before else enter)


def remedy(routing: Routing, rows: Sequence[float], leave: float) -> Remedy:
    """Return what helps an uneven operator."""
    skew = skew_of(routing, rows)
    if skew <= leave or routing.tasks < 2:
        return "none"
    moved = skew_of(rebalanced(routing, rows, leave), rows)
    return "move" if moved < skew - HELPS else "look"


def cut_of(routing: Routing, rows: Sequence[float], heaviest: Heaviest, leave: float) -> Cut:
    """Return how to cut the heaviest bin of the busiest task, whose heaviest key is known.

    A key cannot be cut. If it is the reason, only the other keys of its bin can move elsewhere.
    """
    weights = np.array(rows, dtype=np.float64)
    load = load_of_tasks(routing, weights)
    shared = [n for n in range(routing.bins) if routing.spread_at(n)] if routing.spreads else []
    weights[shared] = 0.0  # no cut spreads them further
    mine = np.array(routing.bins_of(int(load.argmax())), dtype=np.int64)
    if not len(mine):  # it owns no bin, and is busy with those that it shares
        return Cut(bin=routing.bin_of(heaviest.hash), into=1, one_key=False)
    bin_ = int(mine[weights[mine].argmax()])
    lo, hi = routing.span(bin_)
    share = heaviest.share if lo <= heaviest.hash < hi else 0.0
    one_key = share * load.sum() > (1 + leave) * load.mean()
    others = weights[bin_] - (share * load.sum() if one_key else 0.0)
    if hi - lo < MOST_PIECES or others <= leave * load.mean():
        return Cut(bin=bin_, into=1, one_key=one_key)
    into = int(np.clip(np.ceil(2 * weights[bin_] / load.mean()), 2, MOST_PIECES))
    return Cut(bin=bin_, into=into, one_key=one_key)


def said_of_one_key(name: str, heaviest: Heaviest, refusal: str) -> str:
    """Return the line about a key that is more than a task's share. refusal: why it cannot be spread; "" = it can."""
    what = "no placement spreads it" if refusal else "rc.control.library.SkewJoin spreads it"
    return f"operator {name!r}: the key {heaviest.key} alone has {heaviest.share:.0%} of the rows: {what}"
