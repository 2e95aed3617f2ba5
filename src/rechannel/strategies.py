"""How gently a change is carried out: `job.reconfigure(change, rc.strategies.fluid(budget_ms=50))`."""

from __future__ import annotations

from rechannel.reconfigure.ask import all_at_once, batched, fluid, optimized

__all__ = ["all_at_once", "batched", "fluid", "optimized"]
