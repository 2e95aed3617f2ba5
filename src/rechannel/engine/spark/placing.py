"""Remembers where the tasks of every stateful operator ran, and puts them there again."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from py4j.protocol import Py4JError

from rechannel.engine.cluster import Executor
from rechannel.engine.placement import place
from rechannel.engine.spark.private import Anchor, Anchors
from rechannel.model.configuration import OperatorConfiguration

_LOG = logging.getLogger(__name__)

Open = Callable[[], Anchors | None]
"""Makes what holds tasks in place; None where Spark offers nothing for it."""

Shares = Callable[[OperatorConfiguration], bool]
"""Whether an operator's tasks run on the session's own executors (terms.shares_executors)."""


@dataclass(frozen=True)
class _Held:
    """Where an operator's tasks are, what that was decided from, and what holds them there."""

    tasks: int
    wanted: Mapping[int, str]
    executors: tuple[Executor, ...]
    places: Mapping[int, str] = field(default_factory=dict)
    anchor: Anchor | None = None

    def follows(self, tasks: int, wanted: Mapping[int, str], executors: Sequence[Executor]) -> bool:
        """Whether deciding again would change nothing."""
        return (self.tasks, self.wanted, self.executors) == (tasks, wanted, executors)


class Placing:
    """Places tasks, timestep after timestep. Decides only when executors, tasks or wishes have changed.

    executors: those alive now; asked once per timestep. On one executor nothing is placed and nothing is spent.
    """

    def __init__(
        self, executors: Callable[[], Sequence[Executor]], open_anchors: Open, shares: Shares
    ) -> None:
        """Nothing is asked of Spark yet."""
        self._ask = executors
        self._open = open_anchors
        self._shares = shares
        self._anchors: Anchors | None = None
        self._opened = False
        self._executors: tuple[Executor, ...] = ()
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()

    def look(self) -> None:
        """See which executors are alive. Where Spark cannot tell, tasks stay with those known: a place is a wish."""
        try:
            alive = tuple(executor for executor in self._ask() if executor.profile == 0)
        except Py4JError as error:
            _LOG.warning("tasks are placed on the executors known before: %s", error)
            return
        with self._lock:
            self._executors = alive

    def anchor(self, operator: str, configuration: OperatorConfiguration) -> Anchor | None:
        """What holds the operator's tasks where they are to run; None = anywhere."""
        with self._lock:
            if len(self._executors) < 2 or not self._shares(configuration):
                self._held.pop(operator, None)
                return None
            anchors = self._opened_once()
            return None if anchors is None else self._decide(operator, configuration, anchors)

    def anchors(self) -> Anchors | None:
        """What holds tasks in place, for whoever places others; None where Spark offers nothing for it."""
        with self._lock:
            return self._opened_once()

    def _opened_once(self) -> Anchors | None:
        # Looking Spark's classes up takes longer than using them.
        if not self._opened:
            self._anchors, self._opened = self._open(), True
        return self._anchors

    def _decide(
        self, operator: str, configuration: OperatorConfiguration, anchors: Anchors
    ) -> Anchor | None:
        tasks, wanted = configuration.tasks, dict(configuration.placement)
        usable = _usable(self._executors, configuration)
        held = self._held.get(operator)
        if held is None or not held.follows(tasks, wanted, usable):
            before = held.places if held else {}
            places = place(tasks, before, wanted, self._least_first(operator, usable))
            known = {executor.id: executor for executor in usable}
            anchor = (
                anchors.of({task: known[at] for task, at in places.items()}) if places else None
            )
            held = _Held(tasks, wanted, usable, places, anchor)
            self._held[operator] = held
        return held.anchor

    def _least_first(self, operator: str, executors: Sequence[Executor]) -> list[Executor]:
        """Executors with the fewest tasks of other operators first: what ties is not settled alike for all."""
        others = [held for name, held in self._held.items() if name != operator]
        load = Counter(at for held in others for at in held.places.values())
        return sorted(executors, key=lambda executor: load[executor.id] / executor.cores)

    def expected(self, operator: str, configuration: OperatorConfiguration) -> dict[int, Executor]:
        """Where the operator's tasks would run under a configuration; empty where nothing is placed."""
        self.look()
        with self._lock:
            if len(self._executors) < 2 or not self._shares(configuration):
                return {}
            usable = _usable(self._executors, configuration)
            held = self._held.get(operator)
            before = held.places if held else {}
            wanted = dict(configuration.placement)
            order = self._least_first(operator, usable)
            places = place(configuration.tasks, before, wanted, order)
            known = {executor.id: executor for executor in usable}
            return {task: known[at] for task, at in places.items()}

    @property
    def places(self) -> dict[str, dict[int, str]]:
        """Executor of every task that is placed, by operator."""
        with self._lock:
            return {name: dict(held.places) for name, held in self._held.items()}


def _usable(
    executors: Sequence[Executor], configuration: OperatorConfiguration
) -> tuple[Executor, ...]:
    """Executors by how many of the operator's tasks they run at a time; none that can run none."""
    cpus = configuration.resources.cpus if configuration.resources else 1
    return tuple(
        replace(executor, cores=executor.cores // cpus)
        for executor in executors
        if executor.cores >= cpus
    )
