"""What can be done ahead of a border on Spark: load functions on workers, and fetch state to where it will move.

State is fetched in small pieces with pauses between them: a piece occupies a core of its executor for a moment, and
tasks of timesteps wait for cores. So what moves is in the cache of its new host before the border, and no
timestep before it has waited long.

Timesteps go on meanwhile: they write state, and merge what was fetched into segments that were not. So
state is fetched again, from what there is then, as long as that is much less every time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rechannel.engine.cluster import Cluster, Executor
from rechannel.engine.exchange import Exchange
from rechannel.engine.pace import Pace, worth_another
from rechannel.engine.preparing import ClusterPreparer
from rechannel.engine.spark.calls import Shipped, settle
from rechannel.engine.spark.placing import Placing
from rechannel.engine.spark.private import PlacedNumbers
from rechannel.engine.versions import Program
from rechannel.errors import RechannelError
from rechannel.kernels.prefetch import prefetch
from rechannel.model.hashspace import Intervals
from rechannel.reconfigure.changes import ChangeProgram, parts_of
from rechannel.reconfigure.coordination import Now
from rechannel.reconfigure.record import Record
from rechannel.reconfigure.requests import planned_route
from rechannel.reconfigure.resolve import resolve
from rechannel.reconfigure.steps import BinMove
from rechannel.state.manifest import Manifest, Run

PIECE_MS = 25.0
"""How long one piece of prefetching should occupy a core, unless a budget says less."""

HOLD = 0.2
"""Seconds that a task which starts a worker goes on."""

PAUSE = 2.0
"""Pauses between pieces, in lengths of a piece: of the time that it occupied a core, not that it waited for one."""


@dataclass(frozen=True, kw_only=True)
class Errand:
    """What one task has to fetch: bins of an operator that move to it."""

    operator: str
    task: int
    executor: Executor
    moves: tuple[BinMove, ...]


@dataclass(frozen=True)
class FetchCall:
    """mapInArrow function: fetch what stands under the number of the partition."""

    shipped: Shipped
    pieces: tuple[tuple[tuple[Run, ...], Intervals], ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Numbers in, JSON of `Prefetched` out."""
        settle()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                runs, where = self.pieces[number]
                done = prefetch(self.shipped.program(), runs, where)
                yield pa.RecordBatch.from_pydict({"done": [json.dumps(done.to_json())]})


@dataclass(frozen=True)
class LoadCall:
    """mapInArrow function: unpickle programs, so that the first timestep under them need not.

    hold: seconds that the task goes on, so that those beside it run in workers of their own.
    """

    shipped: tuple[Shipped, ...]
    hold: float = 0.0

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Numbers in, names of programs out."""
        settle()
        for _ in batches:
            names = [one.program().operator for one in self.shipped]
            time.sleep(self.hold)
            yield pa.RecordBatch.from_pydict({"done": names})


class SparkPreparer(ClusterPreparer):
    """Prepares on a session's executors."""

    def __init__(
        self,
        *,
        spark: Any,
        exchange: Exchange,
        cluster: Cluster,
        placing: Placing | None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """placing: knows where tasks will be; None = on the only executor there is."""
        super().__init__(
            exchange=exchange,
            cluster=cluster,
            sleep=sleep,
            places=lambda: {} if placing is None else placing.places,
        )
        self._spark = spark
        self._placing = placing
        self._placed: PlacedNumbers | None = None

    def prepare(
        self, record: Record, now: Now, manifests: Mapping[str, Manifest]
    ) -> dict[str, Any]:
        """Executors, functions, state: in this order. Raises RechannelError where a function cannot be loaded."""
        facts = super().prepare(record, now, manifests)
        for part in parts_of(record.change):
            if isinstance(part, ChangeProgram):
                facts["functions"] = self._load(part.version)
        # Whether the change is still possible is judged at the border; here is only nothing to do then.
        with suppress(RechannelError):
            facts.update(self._workers(record, now))
            facts.update(self._fetch(record, now, manifests))
        return facts

    def _workers(self, record: Record, now: Now) -> dict[str, Any]:
        """Start Python workers for the tasks that there will be more of at a time: that takes a second of CPU each."""
        target = resolve(now.configuration, record.change, now.facts)
        cores = sum(executor.cores for executor in self.cluster.executors()) or 1
        before, after = (
            min(cores, max(operator.tasks for operator in configuration.operators.values()))
            for configuration in (now.configuration, target)
        )
        if after <= before:
            return {}
        programs = self.exchange.current.program.programs
        call = LoadCall(tuple(Shipped.of(made) for made in programs.values()), hold=HOLD)
        self._spark.range(0, after, 1, after).mapInArrow(call, "done string").toArrow()
        return {"workers": after}

    def _load(self, version: int) -> list[str]:
        """Names of the programs that workers have loaded."""
        waiting = self.exchange.waiting(version)
        if waiting is None:
            return []
        fresh = _fresh(waiting.program, self.exchange.current.program)
        cores = sum(executor.cores for executor in self.cluster.executors()) or 1
        call = LoadCall(tuple(Shipped.of(waiting.program.programs[name]) for name in fresh))
        numbers = self._spark.range(0, cores, 1, cores)
        numbers.mapInArrow(call, "done string").toArrow()
        return fresh

    def _fetch(self, record: Record, now: Now, manifests: Mapping[str, Manifest]) -> dict[str, Any]:
        errands = list(self._errands(record, now))
        if not errands:
            return {}
        pace = Pace(limit=record.strategy.budget_ms or PIECE_MS)
        passes: list[int] = []
        while worth_another(passes):
            before = pace.fetched
            for operator in dict.fromkeys(errand.operator for errand in errands):
                mine = [errand for errand in errands if errand.operator == operator]
                self._pass(operator, mine, manifests, pace)
            passes.append(pace.fetched - before)
        return {**pace.to_json(), "passes": passes}

    def _pass(
        self,
        operator: str,
        errands: list[Errand],
        manifests: Mapping[str, Manifest],
        pace: Pace,
    ) -> None:
        queues = [list(errand.moves) for errand in errands]
        shipped = Shipped.of(self.exchange.current.program.programs[operator])
        while any(queues):
            taken = [_take(queue, pace.piece) for queue in queues]
            done = self._piece(shipped, manifests.get(operator, Manifest()), errands, taken)
            self._sleep(PAUSE * pace.took(done) / 1e3)

    def _errands(self, record: Record, now: Now) -> Iterator[Errand]:
        if self._placing is None:
            return
        moves = planned_route(now.configuration, record.change, now).moves
        target = resolve(now.configuration, record.change, now.facts)
        groups: dict[tuple[str, int], list[BinMove]] = {}
        for move in moves:
            groups.setdefault((move.operator, move.target), []).append(move)
        for (operator, task), bins in sorted(groups.items()):
            program = self.exchange.current.program.programs[operator]
            if getattr(program.store, "ranges", None) is None:
                continue  # every host reads the files themselves
            places = self._placing.expected(operator, target.operators[operator])
            if task in places:
                yield Errand(operator=operator, task=task, executor=places[task], moves=tuple(bins))

    def _piece(
        self,
        shipped: Shipped,
        manifest: Manifest,
        errands: list[Errand],
        taken: list[list[BinMove]],
    ) -> list[dict[str, Any]]:
        pieces: list[tuple[tuple[Run, ...], Intervals]] = []
        places: dict[int, Executor] = {}
        for errand, moves in zip(errands, taken, strict=True):
            if moves:
                where = Intervals.of((move.lo, move.hi) for move in moves)
                places[len(pieces)] = errand.executor
                pieces.append((manifest.within(where), where))
        # Looking Spark's classes up takes longer than a piece should.
        self._placed = self._placed or PlacedNumbers(self._spark)
        numbers = self._placed.frame(places)
        found = numbers.mapInArrow(FetchCall(shipped, tuple(pieces)), "done string").toArrow()
        return [json.loads(text) for text in found.column("done").to_pylist()]


def _take(queue: list[BinMove], size: float) -> list[BinMove]:
    """The next moves of about so many bytes, at least one; they leave the queue."""
    taken: list[BinMove] = []
    total = 0.0
    while queue and (not taken or total + queue[0].size <= size):
        total += queue[0].size
        taken.append(queue.pop(0))
    return taken


def _fresh(new: Program, old: Program) -> list[str]:
    """Stages whose programs workers have not seen."""
    return [name for name, made in new.programs.items() if old.programs.get(name) is not made]


def spark_preparer(
    spark: Any, exchange: Exchange, cluster: Cluster, placing: Placing | None
) -> SparkPreparer:
    """The preparer of a session."""
    return SparkPreparer(spark=spark, exchange=exchange, cluster=cluster, placing=placing)
