"""A store in memory that counts as one on other hosts."""

from __future__ import annotations

from typing import Any

from rechannel.state.stores.memory import MemoryStore


class Elsewhere(MemoryStore):
    """Nothing asks it for parts of a file."""

    url = "test://elsewhere"

    def lacks(self) -> None:
        """Nothing is missing."""

    def facts(self, key: str) -> Any:
        raise NotImplementedError(key)

    def fetch(self, key: str, spans: Any) -> Any:
        raise NotImplementedError(key, spans)
