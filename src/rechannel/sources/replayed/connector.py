"""Replayed dead letters of an operator, as a value."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from rechannel.sources.connector import Connector, SourceContext
from rechannel.sources.reader import SourceReader


@dataclass(frozen=True, eq=False, kw_only=True)
class ReplayedConnector(Connector):
    """Rows that an operator could not handle, once more, as `rechannel replay-dead-letters` asks for them."""

    operator: str
    schema: pa.Schema
    """Columns of what the operator reads."""

    def describe(self) -> str:
        """Return whose dead letters they are."""
        return f"replayed dead letters of {self.operator!r}"

    def open(self, context: SourceContext) -> SourceReader:
        """Open it."""
        from rechannel.sources.replayed.reader import ReplayedReader

        return ReplayedReader(self, store=context.store, name=context.name)
