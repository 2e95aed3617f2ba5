"""Where rows come from. Public: `MemoryConnector`, which a test or a notebook pushes rows to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rechannel.sources.connectors import MemoryConnector

__all__ = ["MemoryConnector"]


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from rechannel.sources.connectors import MemoryConnector

    return MemoryConnector
