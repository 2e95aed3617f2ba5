"""Where rows leave. Public: `Batch`, which identifies a timestep to a `for_each_batch` function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rechannel.sinks.batch import Batch

__all__ = ["Batch"]


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from rechannel.sinks.batch import Batch

    return Batch
