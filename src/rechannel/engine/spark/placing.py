"""Remembers where the tasks of every stateful operator ran, and puts them there again."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from py4j.protocol import Py4JError

from rechannel.engine.reconfigure.cluster import Executor
from rechannel.engine.reconfigure.placement import admitted, place, surplus
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
    Executors that come for a change get tasks from its border on, those that go with one get none from there on.
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
        self._alive: tuple[Executor, ...] = ()
        self._executors: tuple[Executor, ...] = ()
        self._total: int | None = None
        self._looked = False
        self._going: frozenset[str] = frozenset()
        self._kept_for: dict[str, int] = {}
        self._most = 0
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()

    def look(self, executors: int | None = None) -> None:
        """See which executors are alive, and which of them are to be used.

        executors: how many the timestep's Configuration asks for; where that changes is the border of a change.
        Where Spark cannot tell, tasks stay with those known: a place is a wish.
        """
        alive = self._see()
        with self._lock:
            if self._looked and executors != self._total:
                self._going = self._surplus(executors, alive)
                self._border(executors)
            self._total, self._looked = executors, True
            self._use(alive)

    def keep(self, id_: str, executors: int) -> None:
        """From now on executors that come are kept for a change that asks for so many, until its border."""
        alive = self._see()
        with self._lock:
            if not self._kept_for:
                self._use(alive)
                self._most = max(len(self._executors), self._total or 0)
            self._kept_for[id_] = executors

    def release(self, id_: str, executors: int | None = None) -> None:
        """The change is over, whatever came of it: who is alive and not on its way out is there for all.

        executors: how many hold from it on, where it was made. On an idle stream no timestep has begun with them,
        and the first one that does is no border of a change any more.
        """
        with self._lock:
            self._kept_for.pop(id_, None)
            self._going = frozenset()
            if self._looked and executors not in {None, self._total}:
                self._border(executors)
                self._total = executors

    def _border(self, executors: int | None) -> None:
        """From here on so many are asked for: those that were kept for that are used."""
        waiting = self._kept_for.items()
        self._kept_for = {id_: total for id_, total in waiting if total != executors}
        self._most = executors or self._most

    def _see(self) -> tuple[Executor, ...]:
        try:
            return tuple(executor for executor in self._ask() if executor.profile == 0)
        except Py4JError as error:
            _LOG.warning("tasks are placed on the executors known before: %s", error)
            return self._alive

    def _use(self, alive: tuple[Executor, ...]) -> None:
        self._alive = alive
        staying = tuple(executor for executor in alive if executor.id not in self._going)
        known = {executor.id for executor in self._executors}
        self._executors = admitted(staying, known, self._most) if self._kept_for else staying

    def _surplus(self, executors: int | None, alive: Sequence[Executor]) -> frozenset[str]:
        """Those that a change to so many executors gives back."""
        places = {name: held.places for name, held in self._held.items()}
        return frozenset() if executors is None else frozenset(surplus(executors, alive, places))

    def anchor(self, operator: str, configuration: OperatorConfiguration) -> Anchor | None:
        """What holds the operator's tasks where they are to run; None = anywhere."""
        with self._lock:
            if len(self._alive) < 2 or not self._shares(configuration):
                self._held.pop(operator, None)
                return None
            anchors = self._opened_once()
            return None if anchors is None else self._decide(operator, configuration, anchors)

    def anchors(self) -> Anchors | None:
        """What holds tasks in place, for a caller that places others; None where Spark offers nothing for it."""
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
            places = self._places(operator, configuration, usable)
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

    def _places(
        self, operator: str, configuration: OperatorConfiguration, usable: Sequence[Executor]
    ) -> dict[int, str]:
        """Executor of every task; empty where there is none to place them on."""
        if len(usable) == 1:
            return dict.fromkeys(range(configuration.tasks), usable[0].id)
        before = self._before(operator, configuration.tasks)
        order = self._least_first(operator, usable)
        return place(configuration.tasks, before, dict(configuration.placement), order)

    def expected(
        self, operator: str, configuration: OperatorConfiguration, executors: int | None = None
    ) -> dict[int, Executor]:
        """Where the operator's tasks would run under a configuration; empty where nothing is placed.

        executors: how many the whole Configuration asks for.
        """
        alive = self._see()
        with self._lock:
            self._use(alive)
            if len(alive) < 2 or not self._shares(configuration):
                return {}
            there: Sequence[Executor] = self._executors
            if self._looked and executors != self._total:
                going = self._surplus(executors, alive)
                there = [executor for executor in alive if executor.id not in going]
            usable = _usable(there, configuration)
            known = {executor.id: executor for executor in usable}
            places = self._places(operator, configuration, usable)
            return {task: known[at] for task, at in places.items()}

    def present(self, operator: str, tasks: int) -> Mapping[int, str]:
        """Executor of every task, as far as it is known: all are on the only one there is to use."""
        with self._lock:
            return dict(self._before(operator, tasks))

    def _before(self, operator: str, tasks: int) -> Mapping[int, str]:
        held = self._held.get(operator)
        if held is None and len(self._executors) == 1:
            return dict.fromkeys(range(tasks), self._executors[0].id)
        return held.places if held else {}

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
