"""What a commit to an Iceberg table changes, before it is committed."""

from __future__ import annotations

from typing import Any

from pyiceberg.table import Transaction


class Staged(Transaction):  # type: ignore[misc]
    """A transaction that makes its metadata once per change.

    PyIceberg makes them at every look at them, some dozen times per commit, and copies all snapshots of the table each
    time.
    """

    def __init__(self, table: Any) -> None:
        """Change nothing yet."""
        super().__init__(table)
        self._made: tuple[Any, Any, Any] | None = None

    @property
    def table_metadata(self) -> Any:
        """The metadata of the table with the changes so far."""
        base, updates = self._table.metadata, self._updates
        if self._made is None or self._made[0] is not base or self._made[1] is not updates:
            self._made = base, updates, super().table_metadata
        return self._made[2]
