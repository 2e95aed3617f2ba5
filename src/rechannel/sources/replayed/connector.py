"""Replayed dead letters of an operator, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import pyarrow as pa

from rechannel.errors import RefusedError
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

    def beginning_at(self, to: object) -> NoReturn:
        """Refuse: rows that were taken and are passed over could not be replayed again. Raises RefusedError."""
        del to
        msg = (
            f"{self.describe()} cannot be reset: dead letters are read once, when they are replayed. To have some tried"
            " again, replay them again"
        )
        raise RefusedError(msg)

    def open(self, context: SourceContext) -> SourceReader:
        """Open it."""
        from rechannel.sources.replayed.reader import ReplayedReader

        return ReplayedReader(self, store=context.store, name=context.name)
