"""Asks the tasks of an operator for their heaviest key."""

from __future__ import annotations

from dataclasses import dataclass

from rechannel.kernels.protocol.control import OperatorHandler, TaskView

KEY_CHARACTERS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Heaviest:
    """The heaviest key of an operator in one timestep."""

    rows: int = 0
    """That the operator received."""
    key: str = ""
    """As text; "" without rows."""
    hash: int = 0
    key_rows: int = 0

    @property
    def share(self) -> float:
        """The key's share of the rows; 0 without rows."""
        return self.key_rows / self.rows if self.rows else 0.0


def text_of(key: tuple[object, ...]) -> str:
    """Return a key as text, cut to 100 characters."""
    return ", ".join(map(repr, key))[:KEY_CHARACTERS]


class AskHeaviest(OperatorHandler):
    """Replies with the heaviest key of a task. Its count is that of the task: tasks may share the rows of a key."""

    heaviest = 1
    reply_type = Heaviest

    def on_complete(self, task: TaskView) -> Heaviest:
        """The heaviest key of this task."""
        if not task.heaviest:
            return Heaviest(rows=task.rows_in)
        top = task.heaviest[0]
        return Heaviest(rows=task.rows_in, key=text_of(top.key), hash=top.hash, key_rows=top.rows)

    def merge(self, one: Heaviest, other: Heaviest) -> Heaviest:
        """The heavier of two, of all rows."""
        top = max(one, other, key=lambda each: (each.key_rows, each.hash))
        return Heaviest(
            rows=one.rows + other.rows, key=top.key, hash=top.hash, key_rows=top.key_rows
        )
