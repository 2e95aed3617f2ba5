"""What controllers may ask of a change without requesting it: whether it would be refused, and what it would cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rechannel.engine.reconfigure.measured import PerBin
from rechannel.model.configuration import Configuration
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.coordination import Coordination, Now
from rechannel.reconfigure.plan import Plan, plan
from rechannel.reconfigure.requests import refusal
from rechannel.reconfigure.steps import Sizes
from rechannel.reconfigure.strategies import Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """What the last timesteps report of rows and state, by operator. It takes time per bin to collect."""

    rows: PerBin
    """Received, by bin."""
    bytes: PerBin
    """Of state, by bin; expected."""
    hot: Mapping[str, Mapping[int, float]]
    """Rows of the keys that have many, by hash."""
    rows_of_sides: Mapping[str, tuple[float, float]]
    """Of operators with two inputs, over the last timesteps, (left, right)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Answers from the stream as it was at a timestep boundary. Any thread may ask."""

    coordination: Coordination
    now: Now
    ms_per_byte: float
    """Measured cost of a moved byte."""

    def refusal(self, change: Change) -> str:
        """Return why a change would be refused; "" if it would not."""
        return refusal(self.coordination, change, self.now)

    def plan(self, change: Change, strategy: Strategy) -> Plan:
        """Return what a change would do. Raises what a request would."""
        return plan(self.coordination, change, strategy, self.now, self.ms_per_byte)


def sizes_of(configuration: Configuration, per_bin: PerBin) -> Sizes:
    """Return bytes per bin with the bins that they belong to."""
    bins = {}
    for name, sizes in per_bin.items():
        operator = configuration.operators.get(name)
        if operator is not None and operator.routing is not None:
            bins[name] = operator.routing.starts, tuple(sizes)
    return Sizes(bins=bins)
