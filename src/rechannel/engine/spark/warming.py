"""Run a first task on executors that join a running stream, before tasks of the stream go there.

The first task of an executor takes seconds: its JVM loads classes, and Python workers begin there. Where Spark starts
copies of slow tasks, a copy on another host ends sooner, and Spark kills the Python worker of the task that lost. So
the executor's next task is again a first one, and the executor adds nothing to the stream for as long as it lives.

Spark starts no copies of the tasks of a barrier stage, so the first task is one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rechannel.engine.reconfigure.cluster import Executor
from rechannel.engine.spark.calls import Shipped
from rechannel.engine.spark.private import Anchors
from rechannel.engine.spark.stages import Stages
from rechannel.engine.spark.warmup_calls import FirstCall
from rechannel.errors import one_sentence
from rechannel.logs import fields

_LOG = logging.getLogger("rechannel")

PATIENCE = 10.0
"""Seconds after which an executor gets tasks, whether its first ones have ended or not."""
AT_ONCE = 8
"""Executors that are warmed at the same time."""
PAUSE = 0.1
"""Seconds between two looks at which executors there are."""
LOOKS = 10
"""Looks between two at what became of their tasks."""
LOSSES = 2
"""Looks in a row at which an executor had lost a worker, after which it is warmed again."""
REST, LONGEST_REST = 10.0, 160.0
"""Seconds that an executor is left alone after it was warmed; twice as long every time, because a slow one loses for
good."""


@dataclass(kw_only=True)
class Warming:
    """Which executors have not run their first tasks yet."""

    executors: Callable[[], Sequence[Executor]]
    """Returns those that are alive."""
    warm: Callable[[Executor], None]
    """Runs an executor's first tasks. Called in a thread of its own."""
    killed: Callable[[], Mapping[str, int]] | None = None
    """Returns how many tasks Spark has killed, by id of the executor; None where it starts no copies of tasks."""
    clock: Callable[[], float] = time.monotonic
    """Seconds."""
    pause: Callable[[float], None] = time.sleep
    _warm: set[str] = field(default_factory=set)
    _cold: dict[str, float] = field(default_factory=dict)
    """By id of an executor: when its first tasks were asked for."""
    _losses: dict[str, _Losses] = field(default_factory=dict)
    _watching: bool = False
    _closed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _room: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(AT_ONCE))

    def look(self, alive: Sequence[Executor]) -> frozenset[str]:
        """Return the ids of the executors that are cold; begin to warm those that are new.

        Where none is warm, as when a stream begins, all are used while they are warmed. From the first look on, a
        thread looks more often than once per timestep.
        """
        with self._lock:
            now, ids = self.clock(), {executor.id for executor in alive}
            late = {id_ for id_, since in self._cold.items() if now - since >= PATIENCE}
            self._warm = (self._warm | late) & ids
            self._cold = {i: at for i, at in self._cold.items() if i in ids and i not in late}
            new = [each for each in alive if each.id not in self._warm | self._cold.keys()]
            if not self._warm:
                self._warm, self._cold = ids, {}
            else:
                self._cold.update({executor.id: now for executor in new})
            self._losses = {i: known for i, known in self._losses.items() if i in ids}
            for executor in new:
                self._start(self._first, executor)
            if not self._watching and not self._closed:
                self._watching = True
                self._start(self._watch)
            return frozenset(self._cold)

    def close(self) -> None:
        """Begin nothing more."""
        self._closed = True

    def _start(self, run: Callable[..., None], *given: object) -> None:
        threading.Thread(target=run, args=given, name="rechannel-warming", daemon=True).start()

    def _first(self, executor: Executor) -> None:
        try:
            with self._room:
                if not self._closed:
                    self.warm(executor)
        except Exception as error:  # it may be gone again; if not, it gets tasks all the same
            _LOG.debug(
                "executor %s gets tasks without first ones: %s",
                executor.id,
                one_sentence(error),
                extra=fields("executor_not_warmed", reason=error),
            )
        with self._lock:
            if self._cold.pop(executor.id, None) is not None:
                self._warm.add(executor.id)

    def _watch(self) -> None:
        looks = 0
        try:
            while not self._closed:
                alive = self.executors()
                if {executor.id for executor in alive} != self._warm | self._cold.keys():
                    self.look(alive)
                looks += 1
                if self.killed is not None and looks % LOOKS == 0:
                    self._warm_again(alive, self.killed())
                self.pause(PAUSE)
        except Exception as error:  # the next timestep begins a new one
            _LOG.debug(
                "executors are not watched: %s",
                one_sentence(error),
                extra=fields("executor_not_warmed", reason=error),
            )
        finally:
            with self._lock:
                self._watching = False

    def _warm_again(self, alive: Sequence[Executor], killed: Mapping[str, int]) -> None:
        """Warm executors that lose a worker time and again, one at a time, so that tasks have somewhere to run."""
        with self._lock:
            now = self.clock()
            for executor in alive:
                known = self._losses.setdefault(executor.id, _Losses())
                known.count(killed.get(executor.id, 0))
                if (
                    known.in_a_row >= LOSSES
                    and now >= known.rests_until
                    and executor.id in self._warm
                    and len(self._warm) > 1
                    and not self._cold
                ):
                    known.rest(now)
                    self._warm.discard(executor.id)
                    self._cold[executor.id] = now
                    _LOG.info(
                        "executor %s loses its Python workers: copies of its tasks on other hosts end sooner",
                        executor.id,
                        extra=fields("executor_warmed_again"),
                    )
                    self._start(self._first, executor)


@dataclass
class _Losses:
    """How often an executor has lost a worker."""

    killed: int = 0
    in_a_row: int = 0
    rests: float = REST
    rests_until: float = 0.0

    def count(self, killed: int) -> None:
        """Take the tasks that have been killed there so far."""
        self.in_a_row = self.in_a_row + 1 if killed > self.killed else 0
        self.killed = killed

    def rest(self, now: float) -> None:
        """It is warmed now."""
        self.in_a_row = 0
        self.rests_until = now + self.rests
        self.rests = min(2 * self.rests, LONGEST_REST)


ROUNDS = 3
"""Pairs of first tasks, one after the other: the JVM compiles what it runs often."""
HOLD = 0.1
"""Seconds that a task goes on which starts a worker, so that the tasks beside it start others."""


def first_tasks(
    stages: Stages,
    executor: Executor,
    anchors: Anchors,
    shipped: Sequence[Shipped],
    *,
    copied: bool,
) -> None:
    """Run tasks on an executor as a timestep does: a source's, and one after an exchange; then one for each core.

    Returns when they have ended. shipped: programs that they load. copied: whether Spark may copy them: it refuses
    barrier stages where it decides how many executors run.
    """
    load, nothing = FirstCall(tuple(shipped)), FirstCall(())
    anchor = anchors.of({0: executor})
    for _ in range(ROUNDS):
        read = stages.call(stages.numbers(1, anchor), load, None, copied=copied)
        exchange = stages.exchange(read, 1)
        try:
            stages.collect(stages.call(exchange.read(0, 1, anchor), nothing, None, copied=copied))
        finally:
            exchange.release()
    if executor.cores > 1:
        every = anchors.of(dict.fromkeys(range(executor.cores), executor))
        workers = stages.numbers(executor.cores, every)
        stages.collect(stages.call(workers, replace(load, hold=HOLD), None, copied=copied))


def elastic(spark: Any) -> bool:
    """Return whether Spark decides how many executors a session has."""
    return str(spark.conf.get("spark.dynamicAllocation.enabled", "false")).lower() == "true"


def speculative(spark: Any) -> bool:
    """Return whether Spark starts copies of slow tasks."""
    return str(spark.conf.get("spark.speculation", "false")).lower() == "true"
