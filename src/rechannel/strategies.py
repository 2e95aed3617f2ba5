"""How gently a change is carried out: `job.reconfigure(change, rc.strategies.fluid(budget_ms=50))`."""

from __future__ import annotations

from rechannel.reconfigure import strategies
from rechannel.reconfigure.strategies import *  # noqa: F403 - the strategies list their names once

__all__: list[str] = []
__all__ += strategies.__all__
