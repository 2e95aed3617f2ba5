"""The words of a changelog: what a row says of the table that an operator's rows make up.

A table has one row per key. Of each key that changes in a timestep, the changelog has one of these:

- `insert`, if the key is new;
- `update_before` and `update_after`, its old row and its new one;
- `delete`, its last row, if it has none any more.

A key whose row stays equal, as GROUP BY compares, has no row in the changelog. So a reader that applies the changes of
each key, timestep by timestep, has the table, whatever the order of keys within a timestep.
"""

from __future__ import annotations

CHANGE = "change"
"""The column that has these words, unless the user names it otherwise."""

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = "insert", "update_before", "update_after", "delete"

KINDS = (INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE)
"""All of them."""

PRESENT = (INSERT, UPDATE_AFTER)
"""The row is in the table after the timestep."""

GONE = (UPDATE_BEFORE, DELETE)
"""The row is no longer in the table after the timestep."""
