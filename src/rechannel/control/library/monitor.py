"""Watches every operator: load of its tasks, latencies, heaviest keys with counts, lag of event time.

The rows of a key in a timestep are in one task, or in those over which it is spread, which are added up, so the
heaviest keys of a timestep are exact. Over timesteps they are counted in a sketch of bounded size, as are the times of
the slowest tasks. The figures are the controller's state; every `log_every` operations, its log has a line per
operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rechannel.control.controller import Control, Controller, Outcome
from rechannel.control.library.load import AskLoad, Figures, fitting
from rechannel.control.library.sketches import library
from rechannel.control.operation import Operation, operation
from rechannel.control.triggers import every
from rechannel.errors import RefusedError

MOST_KEYS = 100
METRICS = ("slowest_task_p99_ms", "busiest_task_share")
MOST_METRICS_OF = 40
"""Operators whose figures are metrics, too: the first ones by name."""
MOST_BYTES = 512 << 10
"""Of the figures of all operators, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitored:
    """What the monitor knows."""

    operations: int = 0
    operators: Mapping[str, Figures] = field(default_factory=dict)


class Monitor(Controller):
    """Asks all tasks for their load, every few timesteps."""

    def __init__(
        self,
        *,
        operators: list[str] | None = None,
        timesteps: int = 10,
        keys: int = 10,
        log_every: int = 10,
    ) -> None:
        """operators: names; None = all. timesteps: from one operation to the next. keys: heaviest ones that are shown.

        Raises RefusedError, also without the package `datasketches`.
        """
        if timesteps < 1 or log_every < 1 or not 0 <= keys <= MOST_KEYS:
            given = f"{timesteps=}, {keys=}, {log_every=}"
            msg = f"Monitor({given}): give timesteps and log_every >= 1, keys of 0 to {MOST_KEYS}"
            raise RefusedError(msg)
        library()
        self.trigger = every(timesteps=timesteps)
        self.operators, self.keys, self.log_every = operators, keys, log_every

    def on_init(self) -> Monitored:
        """Nothing is known."""
        return Monitored()

    def on_begin(self, control: Control[Monitored]) -> Operation:
        """Ask."""
        del control
        return operation(AskLoad(self.keys), operators=self.operators)

    def on_complete(self, control: Control[Monitored], outcome: Outcome) -> None:
        """Add what the tasks have replied."""
        known = control.state
        new = {
            n: known.operators.get(n, Figures()).after(load, self.keys)
            for n, load in outcome.replies.items()
        }
        # One that does not reply is gone, unless its reply may be among those that failed.
        operators = fitting({**known.operators, **new} if outcome.failed else new, MOST_BYTES)
        control.state = Monitored(operations=known.operations + 1, operators=operators)
        shown = list(operators)[:MOST_METRICS_OF]
        for name in {*known.operators} - {*shown}:
            for metric in METRICS:
                control.metric(metric, None, operator=name)
        for name in shown:
            p99, share = operators[name].p99_ms, operators[name].latest.busiest_share
            for metric, value in zip(METRICS, (p99, share), strict=True):
                control.metric(metric, value, operator=name)
        if control.state.operations % self.log_every == 0:
            for name, figures in sorted(new.items()):
                control.note(f"timestep {outcome.timestep}, operator {name!r}: {figures}")
