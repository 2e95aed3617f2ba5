"""Run first tasks on executors that join a running stream, before placement uses them for tasks of the stream.

The first task of an executor takes seconds: its JVM loads classes, and Python workers begin there. Where Spark starts
copies of slow tasks, a copy on another host ends sooner, and Spark kills the Python worker of the task that lost. So
the executor's next task is again a first one, and the executor adds nothing to the stream for as long as it lives.

Spark starts no copies of the tasks of a barrier stage, so first tasks are such.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from rechannel.engine.reconfigure.cluster import Counts, Executor
from rechannel.engine.spark.calls import Shipped
from rechannel.engine.spark.jobs import Jobs
from rechannel.engine.spark.private import Anchors
from rechannel.engine.spark.session.session_limits import SessionLimits
from rechannel.engine.spark.stages import Rows, Stages
from rechannel.engine.spark.warmup_calls import HOLD, LoadCall
from rechannel.errors import one_sentence
from rechannel.logs import fields

_LOG = logging.getLogger("rechannel")

PATIENCE = 10.0
"""Seconds after which an executor gets tasks, whether its first ones have ended or not."""
AWAITED = 60.0
"""Seconds for which a replacement of a lost executor is expected."""
LONGEST = 60.0
"""Seconds after which first tasks are cancelled: they may wait for slots that never are free together."""
AT_ONCE = 8
"""Executors that are warmed at the same time."""
PAUSE = 0.05
"""Seconds between two looks at which executors there are."""
LOOKS = 20
"""Looks between two at what became of their tasks."""
COUNTED = 0.1
"""Seconds in which Spark counts a task that has ended."""
LOSSES = 2
"""Looks in a row at which an executor had lost most of its tasks, after which it is warmed again."""
REST, LONGEST_REST = 10.0, 160.0
"""Seconds that an executor is left alone after it was warmed; twice as long every time, because a slow one loses for
good."""


class First(Protocol):
    """First tasks of executors."""

    def run(self, executor: Executor) -> None:
        """Run those of an executor, in this thread; returns when they have ended."""

    def cancel(self, executor: str) -> None:
        """End those of an executor, by its id, wherever they are."""


@dataclass(kw_only=True)
class Warming:
    """Which executors have not run their first tasks yet."""

    executors: Callable[[], Sequence[Executor]]
    """Returns those that are alive: what `look` takes."""
    first: First
    counts: Callable[[], Mapping[str, Counts]]
    """Returns what became of tasks, by id of the executor."""
    lost: Callable[[Set[str]], None] = field(default=lambda ids: None)
    """Told which executors are gone, by their ids, also while a timestep runs."""
    died: Callable[[Set[str]], None] = field(default=lambda ids: None)
    """The same of those that no change has given back; called after it."""
    copies: bool = False
    """Whether Spark starts copies of tasks."""
    clock: Callable[[], float] = time.monotonic
    """Seconds."""
    pause: Callable[[float], None] = time.sleep
    _warm: set[str] = field(default_factory=set)
    _cold: dict[str, float] = field(default_factory=dict)
    """By id of an executor: when its first tasks were asked for."""
    _missing: int = 0
    """Lost executors that nothing has replaced."""
    _awaited_until: float = 0.0
    _given_back: set[str] = field(default_factory=set)
    """Ids of executors that changes give back."""
    _gone: set[str] = field(default_factory=set)
    """Ids of executors that are gone, and not reported to `lost` yet."""
    _dead: set[str] = field(default_factory=set)
    """Of these, those that no change has given back."""
    _running: dict[str, float] = field(default_factory=dict)
    """By id of an executor: when its first tasks began."""
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
            gone = (self._warm | self._cold.keys()) - ids
            dead = gone - self._given_back
            self._gone, self._dead = self._gone | gone, self._dead | dead
            if dead:
                self._missing, self._awaited_until = self._missing + len(dead), now + AWAITED
            self._given_back &= ids
            self._warm = (self._warm | late) & ids
            self._cold = {i: at for i, at in self._cold.items() if i in ids and i not in late}
            new = [each for each in alive if each.id not in self._warm | self._cold.keys()]
            if not self._warm:
                self._warm, self._cold = ids, {}
            else:
                self._cold.update({executor.id: now for executor in new})
            self._missing = max(0, self._missing - len(new))
            self._losses = {i: known for i, known in self._losses.items() if i in ids}
            for executor in new:
                self._start(self._first, executor, now)
            if not self._watching:
                self._watching = True
                self._start(self._watch)
            return frozenset(self._cold)

    def give_back(self, ids: Set[str]) -> None:
        """Expect no replacement of these, by their ids: they end because a change gives them back."""
        with self._lock:
            self._given_back |= ids

    @property
    def awaited(self) -> bool:
        """Whether a replacement may come at any moment, and get tasks from Spark before it is seen here."""
        return self._missing > 0 and self.clock() < self._awaited_until

    def close(self) -> None:
        """Begin nothing more, and end what has begun."""
        with self._lock:
            self._closed = True
            ids = list(self._running)
        for id_ in ids:
            self.first.cancel(id_)

    def _start(self, run: Callable[..., None], *given: object) -> None:
        if not self._closed:
            made = threading.Thread(target=run, args=given, name="rechannel-warming", daemon=True)
            made.start()

    def _first(self, executor: Executor, since: float) -> None:
        """Run first tasks until some have ended there: Spark may run them elsewhere, or the program may change."""
        with self._room:
            while not self._over(executor, since):
                if self._have_run(executor):
                    break
                self.pause(PAUSE)
        with self._lock:
            if self._cold.get(executor.id) == since:
                del self._cold[executor.id]
                self._warm.add(executor.id)

    def _have_run(self, executor: Executor) -> bool:
        """Run first tasks, and return whether they have ended on their executor."""
        with self._lock:
            if self._closed:
                return False
            self._running[executor.id] = self.clock()
        try:
            before = self._done(executor)
            self.first.run(executor)
            return self._ended_there(executor, before)
        except Exception as error:
            _LOG.debug(
                "first tasks of executor %s have not ended: %s",
                executor.id,
                one_sentence(error),
                extra=fields("executor_not_warmed", reason=error),
            )
            return False
        finally:
            with self._lock:
                self._running.pop(executor.id, None)

    def _over(self, executor: Executor, since: float) -> bool:
        """Whether an executor is not waited for any more."""
        with self._lock:
            there = executor.id in self._warm or executor.id in self._cold
            return self._closed or not there or self.clock() - since >= PATIENCE

    def _done(self, executor: Executor) -> int:
        return self.counts().get(executor.id, Counts()).done

    def _ended_there(self, executor: Executor, before: int) -> bool:
        """Whether tasks have ended on an executor; Spark counts them slightly later."""
        for _ in range(3):
            if self._done(executor) > before:
                return True
            self.pause(COUNTED)
        return False

    def _watch(self) -> None:
        looks = 0
        try:
            while not self._closed:
                with self._lock:
                    known, now = self._warm | self._cold.keys(), self.clock()
                    stuck = [id_ for id_, at in self._running.items() if now - at >= LONGEST]
                    self._running.update(dict.fromkeys(stuck, now))
                # Asked after what is known was read: else a new one could be taken for lost.
                alive = self.executors()
                there = {executor.id for executor in alive}
                if there != known:
                    self.look(alive)
                with self._lock:
                    gone, self._gone = self._gone, set()
                    dead, self._dead = self._dead, set()
                if gone:
                    self.lost(gone)
                if dead:
                    self.died(dead)
                for id_ in stuck:
                    self.first.cancel(id_)
                looks += 1
                if self.copies and looks % LOOKS == 0:
                    self._warm_again(alive, self.counts())
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

    def _warm_again(self, alive: Sequence[Executor], counts: Mapping[str, Counts]) -> None:
        """Warm executors that lose most of their tasks, one at a time, so that tasks have somewhere to run."""
        with self._lock:
            now = self.clock()
            for executor in alive:
                known = self._losses.setdefault(executor.id, _Losses())
                known.count(counts.get(executor.id, Counts()))
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
                        "executor %s loses most of its tasks, and a Python worker with each:"
                        " copies of them on other hosts end sooner",
                        executor.id,
                        extra=fields("executor_warmed_again"),
                    )
                    self._start(self._first, executor, now)


@dataclass
class _Losses:
    """How often an executor has lost most of its tasks."""

    so_far: Counts = field(default_factory=Counts)
    in_a_row: int = 0
    rests: float = REST
    rests_until: float = 0.0

    def count(self, now: Counts) -> None:
        """Take what has become of its tasks so far. Copies that lose on a sound executor are fewer than its tasks."""
        killed, done = now.killed - self.so_far.killed, now.done - self.so_far.done
        self.in_a_row = self.in_a_row + 1 if killed > 0 and killed >= done else 0
        self.so_far = now

    def rest(self, now: float) -> None:
        """It is warmed now."""
        self.in_a_row = 0
        self.rests_until = now + self.rests
        self.rests = min(2 * self.rests, LONGEST_REST)


ROUNDS = 3
"""Pairs of first tasks, one after the other: the JVM compiles what it runs often."""


@dataclass(frozen=True, kw_only=True)
class FirstTasks:
    """First tasks as jobs of Spark: pairs such as those of a timestep, and then one for each slot."""

    stages: Stages
    jobs: Jobs
    anchors: Callable[[], Anchors | None]
    """Returns what holds tasks in place; None if nothing does: then none are run."""
    shipped: Callable[[], Sequence[Shipped]]
    """Returns the programs that they load."""
    limits: SessionLimits
    tag: str
    """What the tags of these jobs begin with."""

    def run(self, executor: Executor) -> None:
        """See `First`."""
        anchors = self.anchors()
        if anchors is None:
            return
        tag = self._tag(executor.id)
        self.jobs.describe(f"rechannel: first tasks of executor {executor.id}")
        self.jobs.tag(tag)
        try:
            self._run(executor, anchors)
        finally:
            self.jobs.untag(tag)

    def cancel(self, executor: str) -> None:
        """See `First`."""
        self.jobs.cancel(self._tag(executor))

    def _tag(self, executor: str) -> str:
        return f"{self.tag}-first-{executor}"

    def _run(self, executor: Executor, anchors: Anchors) -> None:
        load, nothing = LoadCall(tuple(self.shipped())), LoadCall(())
        anchor = anchors.of({0: executor})
        for _ in range(ROUNDS):
            exchange = self.stages.exchange(self._call(self.stages.numbers(1, anchor), load), 1)
            try:
                self.stages.collect(self._call(exchange.read(0, 1, anchor), nothing))
            finally:
                exchange.release()
        slots = 1 if self.limits.amounts else executor.cores // self.limits.task_cpus
        if slots > 1:
            every = anchors.of(dict.fromkeys(range(slots), executor))
            workers = self.stages.numbers(slots, every)
            self.stages.collect(self._call(workers, replace(load, hold=HOLD)))

    def _call(self, rows: Rows, call: LoadCall) -> Rows:
        """Spark refuses barrier stages where it decides how many executors run: copies may win there."""
        return self.stages.call(rows, call, None, copied=self.limits.dynamic)


def speculative(spark: Any) -> bool:
    """Return whether Spark starts copies of slow tasks."""
    return str(spark.conf.get("spark.speculation", "false")).lower() == "true"
