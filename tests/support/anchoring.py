"""Stands for what holds tasks on executors of Spark (`engine/spark/private.py`), without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rechannel.engine.reconfigure.cluster import Executor


class Held(dict[int, str]):
    """An anchor: the id of the executor of each task that it holds."""

    def let_go(self, executors: Iterable[str]) -> None:
        """Hold nothing on these any more."""
        gone = set(executors)
        for task in [task for task, executor in self.items() if executor in gone]:
            del self[task]


class Recording:
    """Makes anchors, and keeps what each was made of."""

    def __init__(self) -> None:
        self.made: list[dict[int, str]] = []

    def of(self, places: Mapping[int, Executor], read: int = 1) -> Held:
        """An anchor for tasks at these places."""
        del read
        held = {task: executor.id for task, executor in places.items()}
        self.made.append(held)
        return Held(held)
