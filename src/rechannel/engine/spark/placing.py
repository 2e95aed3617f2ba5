"""Place the tasks of stateful operators on the executors where they ran before."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Protocol

from py4j.protocol import Py4JError

from rechannel.engine.reconfigure.cluster import Executor
from rechannel.engine.reconfigure.placement import admitted_executors, place, surplus
from rechannel.engine.spark.private import Anchor, Anchors
from rechannel.engine.stages.bundles import Bundles, bundles_of, placed_bundles
from rechannel.engine.stages.runner import Placed
from rechannel.errors import one_sentence
from rechannel.logs import fields
from rechannel.model.configuration import OperatorConfiguration

_LOG = logging.getLogger("rechannel")

RECENT = 16
"""Anchors of tasks without state that are remembered: of stages that may not have begun."""

Open = Callable[[], Anchors | None]
"""Opens the means to place tasks; returns None if Spark offers none."""

Shares = Callable[[OperatorConfiguration], bool]
"""Returns whether an operator's tasks run on the session's own executors (`terms.shares_executors`)."""


class Cold(Protocol):
    """Knows which executors are cold; see `Warming`."""

    def look(self, alive: Sequence[Executor]) -> Set[str]:
        """Return their ids; never all of those given."""

    def give_back(self, ids: Set[str]) -> None:
        """Expect no replacement of these."""

    @property
    def awaited(self) -> bool:
        """Whether another one may come at any moment."""

    def close(self) -> None:
        """Begin nothing more."""


@dataclass(frozen=True)
class _Held:
    """Where an operator's tasks are, and what that was decided from."""

    tasks: int
    """Tasks of the operator."""
    wanted: Mapping[int, str]
    """Executor that a placement asks for, by task."""
    executors: tuple[Executor, ...]
    """Executors that could be used."""
    places: Mapping[int, str] = field(default_factory=dict)
    """Executor of each task."""
    anchor: Anchor | None = None
    """What makes Spark run the tasks there; None means anywhere."""
    per_core: float = 0.0
    """Bundles for each core; 0 = not decided."""
    bundles: Bundles = ()
    bundled: Anchor | None = None
    """What makes Spark run bundles where their tasks are."""

    def let_go(self, lost: Set[str]) -> None:
        """Hold nothing on executors that are gone, by their ids."""
        for anchor in (self.anchor, self.bundled):
            if anchor is not None:
                anchor.let_go(lost)

    def follows(self, tasks: int, wanted: Mapping[int, str], executors: Sequence[Executor]) -> bool:
        """Return whether a new decision would be the same."""
        return (self.tasks, self.wanted, self.executors) == (tasks, wanted, executors)


class Placing:
    """Places tasks, timestep after timestep. It decides again only if executors, tasks or wanted places have changed.

    With a single executor, no task is placed. Executors that start for a change get tasks from the change's timestep
    boundary on; executors that leave with a change get none from there on. Cold executors get none.
    """

    def __init__(
        self,
        executors: Callable[[], Sequence[Executor]],
        open_anchors: Open,
        shares: Shares,
    ) -> None:
        """executors: returns those alive; called once per timestep. Spark is not called yet."""
        self.warming: Cold | None = None
        self._ask = executors
        self._open = open_anchors
        self._shares = shares
        self._cold: Set[str] = frozenset()
        self._anchors: Anchors | None = None
        self._opened = False
        self._alive: tuple[Executor, ...] = ()
        self._admitted: tuple[Executor, ...] = ()
        self._executors: tuple[Executor, ...] = ()
        self._total: int | None = None
        self._looked = False
        self._going: frozenset[str] = frozenset()
        self._kept_for: dict[str, int] = {}
        self._most = 0
        self._held: dict[str, _Held] = {}
        self._lost: Set[str] = frozenset()
        self._stateless: deque[Anchor] = deque(maxlen=RECENT)
        self._lock = threading.Lock()

    def look(self, executors: int | None = None) -> None:
        """Update which executors are alive and which of them are used.

        executors: how many the timestep's Configuration asks for; if this number changes, a change begins here. If
        Spark does not answer, tasks stay on the executors known: placement is only a preference.
        """
        alive = self._see()
        with self._lock:
            if self._looked and executors != self._total:
                self._going = self._surplus(executors, alive)
                self._border(executors)
            self._total, self._looked = executors, True
            self._use(alive)

    def keep(self, id_: str, executors: int) -> None:
        """Reserve executors that start from now on for a change, until it begins.

        id_: of the change. executors: how many it asks for.
        """
        alive = self._see()
        with self._lock:
            if not self._kept_for:
                self._use(alive)
                self._most = max(len(self._admitted), self._total or 0)
            self._kept_for[id_] = executors

    def release(self, id_: str, executors: int | None = None) -> None:
        """End the reservation of a change that is over: all executors that stay can be used.

        executors: how many the Configuration asks for if the change was made. On an idle stream no timestep has begun
        with that number yet, and the next timestep must not count as the beginning of a change.
        """
        with self._lock:
            self._kept_for.pop(id_, None)
            self._going = frozenset()
            if self._looked and executors not in {None, self._total}:
                self._border(executors)
                self._total = executors

    def _border(self, executors: int | None) -> None:
        """Begin to use the executors that were reserved for changes to this number."""
        waiting = self._kept_for.items()
        self._kept_for = {id_: total for id_, total in waiting if total != executors}
        self._most = executors or self._most

    def alive(self) -> tuple[Executor, ...]:
        """Return the executors that can be used. Raises Py4JError if Spark does not answer."""
        return tuple(executor for executor in self._ask() if executor.profile == 0)

    def _see(self) -> tuple[Executor, ...]:
        try:
            return self.alive()
        except Py4JError as error:
            _LOG.warning(
                "tasks are placed on the executors known before: %s",
                one_sentence(error),
                extra=fields("executors_unknown", reason=error),
            )
            return self._alive

    def let_go(self, lost: Set[str]) -> None:
        """Hold no tasks on executors that are gone, by their ids, in the stages that have not begun yet."""
        with self._lock:
            self._let_go(lost)
            self._lost |= lost

    def _let_go(self, lost: Set[str]) -> None:
        for anchor in self._stateless:
            anchor.let_go(lost)
        for operator, held in self._held.items():
            if held.anchor is not None and lost & set(held.places.values()):
                held.let_go(lost)
                # The next timestep decides anew, also if they were taken for lost by mistake.
                self._held[operator] = replace(held, executors=())

    def give_back(self, ids: Set[str]) -> None:
        """Expect no replacement of these executors: they end because a change gives them back."""
        if self.warming is not None:
            self.warming.give_back(ids)

    def _use(self, alive: tuple[Executor, ...]) -> None:
        self._let_go({each.id for each in self._alive} - {each.id for each in alive})
        self._alive, self._lost = alive, frozenset()
        self._cold = frozenset() if self.warming is None else self.warming.look(alive)
        staying = tuple(executor for executor in alive if executor.id not in self._going)
        known = {executor.id for executor in self._admitted}
        self._admitted = (
            admitted_executors(staying, known, self._most) if self._kept_for else staying
        )
        warm = tuple(executor for executor in self._admitted if executor.id not in self._cold)
        self._executors = warm or self._admitted

    def _surplus(self, executors: int | None, alive: Sequence[Executor]) -> frozenset[str]:
        """Return the executors that a change to this number gives back."""
        places = {name: held.places for name, held in self._held.items()}
        return frozenset() if executors is None else frozenset(surplus(executors, alive, places))

    def anchor(self, operator: str, configuration: OperatorConfiguration) -> Anchor | None:
        """Return what makes Spark run the operator's tasks where they belong; None means anywhere."""
        with self._lock:
            held = self._held_anew(operator, configuration)
            return None if held is None else held.anchor

    def _held_anew(self, operator: str, configuration: OperatorConfiguration) -> _Held | None:
        """Return where the operator's tasks are from now on; None if Spark chooses."""
        alone = len(self._alive) < 2 and not self._awaited
        if alone or not self._shares(configuration):
            self._held.pop(operator, None)
            return None
        anchors = self._opened_once()
        return None if anchors is None else self._decide(operator, configuration, anchors)

    def bundles(
        self, operator: str, configuration: OperatorConfiguration, per_core: float
    ) -> tuple[Bundles, Anchor | None]:
        """Return bundles of the operator's tasks, and what makes Spark run them where the tasks belong.

        per_core: bundles for each core of an executor. There are none if Spark chooses where tasks run.
        """
        with self._lock:
            held, anchors = self._held_anew(operator, configuration), self._opened_once()
            if held is None or not held.places or anchors is None:
                if len(self._executors) != 1:
                    return (), None
                number = max(1, int(self._executors[0].cores * per_core))
                return bundles_of(configuration.tasks, number), None
            if held.per_core != per_core:
                held = self._bundled(held, per_core, anchors)
                self._held[operator] = held
            return held.bundles, held.bundled

    def _bundled(self, held: _Held, per_core: float, anchors: Anchors) -> _Held:
        known = {executor.id: executor for executor in held.executors}
        number = {id_: max(1, int(executor.cores * per_core)) for id_, executor in known.items()}
        bundles = placed_bundles(held.places, number)
        places = {place: known[held.places[bundle[0]]] for place, bundle in enumerate(bundles)}
        widest = max(map(len, bundles), default=0)
        anchor = anchors.of(places, widest) if places else None
        if anchor is not None:
            anchor.let_go(self._lost)
        return replace(held, per_core=per_core, bundles=bundles, bundled=anchor)

    @property
    def _awaited(self) -> bool:
        return self.warming is not None and bool(self._alive) and self.warming.awaited

    def forget(self, *, all_but: Set[str]) -> None:
        """Forget where tasks of other operators than these ran: the program has no others."""
        with self._lock:
            self._held = {name: held for name, held in self._held.items() if name in all_but}

    def away_from_new(self, tasks: int) -> Anchor | None:
        """Return what keeps tasks without state off executors that are cold or may come at any moment; else None.

        A task there would wait for the executor's first worker, and the timestep for the task.
        """
        with self._lock:
            used = [executor for executor in self._executors if executor.id not in self._lost]
            held = self._kept_for or self._cold or self._awaited
            anchors = self._opened_once() if used and held else None
            if anchors is None:
                return None
            anchor = anchors.of({task: used[task % len(used)] for task in range(tasks)})
            self._stateless.append(anchor)
            return anchor

    def anchors(self) -> Anchors | None:
        """Return the means to place tasks, for other callers; None if Spark offers none."""
        with self._lock:
            return self._opened_once()

    def _opened_once(self) -> Anchors | None:
        # Looking up Spark's classes takes longer than using them.
        if not self._opened:
            self._anchors, self._opened = self._open(), True
        return self._anchors

    def _decide(
        self, operator: str, configuration: OperatorConfiguration, anchors: Anchors
    ) -> _Held:
        tasks, wanted = configuration.tasks, dict(configuration.placement)
        usable = _usable(self._executors, configuration)
        held = self._held.get(operator)
        if held is None or not held.follows(tasks, wanted, usable):
            places = self._places(operator, configuration, usable)
            known = {executor.id: executor for executor in usable}
            anchor = (
                anchors.of({task: known[at] for task, at in places.items()}) if places else None
            )
            if anchor is not None:
                anchor.let_go(self._lost)
            held = _Held(tasks, wanted, usable, places, anchor)
            self._held[operator] = held
        return held

    def _least_first(self, operator: str, executors: Sequence[Executor]) -> list[Executor]:
        """Sort executors by their tasks of other operators, so that ties do not all go to the same executor."""
        others = [held for name, held in self._held.items() if name != operator]
        load = Counter(at for held in others for at in held.places.values())
        return sorted(executors, key=lambda executor: load[executor.id] / executor.cores)

    def _places(
        self, operator: str, configuration: OperatorConfiguration, usable: Sequence[Executor]
    ) -> dict[int, str]:
        """Return the executor of each task; empty if no executor can be used."""
        if len(usable) == 1:
            return dict.fromkeys(range(configuration.tasks), usable[0].id)
        before = self._before(operator, configuration.tasks)
        order = self._least_first(operator, usable)
        return place(configuration.tasks, before, dict(configuration.placement), order)

    def expected(
        self, operator: str, configuration: OperatorConfiguration, executors: int | None = None
    ) -> dict[int, Executor]:
        """Return where the operator's tasks would run under a configuration; empty if tasks are not placed.

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
        """Return the executor of each task, as far as it is known; with a single executor, all tasks are there."""
        with self._lock:
            return dict(self._before(operator, tasks))

    def _before(self, operator: str, tasks: int) -> Mapping[int, str]:
        held = self._held.get(operator)
        if held is None and len(self._executors) == 1:
            return dict.fromkeys(range(tasks), self._executors[0].id)
        return held.places if held else {}

    @property
    def cores(self) -> int:
        """Cores of the executors that are used."""
        with self._lock:
            return sum(executor.cores for executor in self._executors)

    def close(self) -> None:
        """Warm no more executors."""
        if self.warming is not None:
            self.warming.close()

    @property
    def placed(self) -> Placed:
        """Return the executors that are used, or will be once they are warm, and the executor of each placed task;
        nothing if there is only one executor.
        """
        with self._lock:
            if len(self._admitted) < 2:
                return Placed()
            tasks = {name: dict(held.places) for name, held in self._held.items() if held.places}
            return Placed(executors={e.id: e.cores for e in self._admitted}, tasks=tasks)

    @property
    def places(self) -> dict[str, dict[int, str]]:
        """Executor of each placed task, by operator."""
        with self._lock:
            return {name: dict(held.places) for name, held in self._held.items()}


def _usable(
    executors: Sequence[Executor], configuration: OperatorConfiguration
) -> tuple[Executor, ...]:
    """Return the executors that can run a task of the operator, with the number that each can run at once as cores."""
    cpus = configuration.resources.cpus if configuration.resources else 1
    return tuple(
        replace(executor, cores=executor.cores // cpus)
        for executor in executors
        if executor.cores >= cpus
    )
