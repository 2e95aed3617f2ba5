"""How gently a change is made: how many bins move per timestep, how long to pause, and what a step may cost.

The strategies are Megaphone's (VLDB'19, section 4.4). A budget cuts every step of any of them further, by the
measured size of the bins (bytes) or by their measured cost (milliseconds).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from rechannel.reconfigure.changes import read_as
from rechannel.reconfigure.numbers import PositiveFloat, PositiveInt, Whole


class _Strategy(BaseModel):
    """gap: timesteps between two steps. budget_bytes, budget_ms: most that one timestep may pay for moves.

    prepare: do what can be done ahead of the border (fetch state, load functions).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    gap: Annotated[Whole, Field(ge=0, le=1_000_000)] = 0
    budget_bytes: PositiveInt | None = None
    budget_ms: PositiveFloat | None = None
    prepare: bool = True

    def __str__(self) -> str:
        """As it would be written in Python."""
        fields = self.model_dump(mode="json", exclude={"kind"}, exclude_defaults=True)
        return f"{getattr(self, 'kind', '?')}({', '.join(f'{k}={v!r}' for k, v in fields.items())})"


class AllAtOnce(_Strategy):
    """Everything in one timestep."""

    kind: Literal["all_at_once"] = "all_at_once"


class Batched(_Strategy):
    """A number of bins per step."""

    kind: Literal["batched"] = "batched"
    bins: PositiveInt = 16


class Fluid(_Strategy):
    """One bin per step (or a few)."""

    kind: Literal["fluid"] = "fluid"
    bins: PositiveInt = 1


class Optimized(_Strategy):
    """Steps by maximum bipartite matching of source and target tasks.

    Each task takes part in at most one transfer per step; bins: of one transfer.
    """

    kind: Literal["optimized"] = "optimized"
    bins: PositiveInt = 1


Strategy: TypeAlias = Annotated[
    AllAtOnce | Batched | Fluid | Optimized, Field(discriminator="kind")
]
_ADAPTER: TypeAdapter[Any] = TypeAdapter(Strategy)


def to_json(strategy: Strategy) -> dict[str, Any]:
    """Plain JSON values."""
    data: dict[str, Any] = strategy.model_dump(mode="json")
    return data


def from_json(data: Mapping[str, Any]) -> Strategy:
    """Invert `to_json`. Raises RefusedError naming the field that is wrong."""
    strategy: Strategy = read_as(_ADAPTER, data, "strategy")
    return strategy
