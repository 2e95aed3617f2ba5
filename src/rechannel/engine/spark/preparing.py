"""Prepare changes on Spark: load functions on workers, and fetch state to the executors it will move to.

State is fetched in the background (`kernels/lsm/ahead.py`): a short Spark task starts an errand on the executor that
bins move to, and later ones ask for its progress. So the state is in the cache of its new host before it moves.

Timesteps continue meanwhile: they write state, and merge what was fetched into new segments. So what moves at once is
fetched again as long as each round has much less to fetch; of what moves step by step, the next steps are fetched, and
while it moves the steps after them.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from rechannel.engine.program.versions import Program
from rechannel.engine.reconfigure.ahead import (
    STEPS,
    Tally,
    carried,
    coming,
    may_place_anew,
    pieces,
    worth_another,
)
from rechannel.engine.reconfigure.cluster import Cluster, Executor
from rechannel.engine.reconfigure.placement import moved
from rechannel.engine.reconfigure.preparing import ClusterPreparer, held_by
from rechannel.engine.reconfigure.switch import ProgramSwitch
from rechannel.engine.spark.calls import Shipped, settle
from rechannel.engine.spark.placing import Placing
from rechannel.engine.spark.private import PlacedNumbers
from rechannel.kernels.lsm.ahead import Attended, Errand, attend
from rechannel.model.codec import decode, encode
from rechannel.model.configuration import Configuration
from rechannel.model.hashspace import Intervals
from rechannel.reconfigure.coordination import Now
from rechannel.reconfigure.record import Record
from rechannel.reconfigure.requests import planned_route, planned_steps
from rechannel.reconfigure.steps import BinMove, Step, apply_steps
from rechannel.state.manifest import Manifest

_LOG = logging.getLogger("rechannel")

HOLD = 0.2
"""Seconds that a task which starts a worker goes on."""

PATIENCE = 300.0
"""Seconds that a change waits for state to be fetched; what is missing then is fetched when it is read."""


@dataclass(frozen=True)
class AheadCall:
    """mapInArrow function: begin the errand of this partition's number on this host, or see how far it is.

    background: False where workers end with their tasks: then it is done by the task.
    """

    shipped: Shipped
    errands: tuple[Errand, ...]
    background: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Numbers in, (number, JSON of `Attended`) out."""
        settle()
        program = self.shipped.program()
        cache: str = getattr(program.store, "directory_here", "")
        for batch in batches:
            for number in batch.column(0).to_pylist():
                errand = self.errands[number]
                so_far = attend(program, errand, cache, background=self.background)
                told = json.dumps(encode(so_far))
                yield pa.RecordBatch.from_pydict({"number": [number], "told": [told]})


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
        exchange: ProgramSwitch,
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
        self._tallies: dict[str, Tally] = {}

    def prepare(
        self, record: Record, now: Now, manifests: Mapping[str, Manifest]
    ) -> dict[str, Any]:
        """Executors, functions, state: in this order. Raises RechannelError where a function cannot be loaded."""
        executors, version = record.change.executors_needed, record.change.program_version
        if executors is not None and self._placing is not None:
            self._placing.keep(record.id, executors)
        facts = super().prepare(record, now, manifests)
        if not record.strategy.prepare:
            return facts
        if version is not None:
            facts["functions"] = self._load(version)
        for warm in (
            lambda: self._workers(record, now),
            lambda: self._fetch(record, now, manifests),
        ):
            facts.update(_warmed(record, warm))
        return facts

    def _workers(self, record: Record, now: Now) -> dict[str, Any]:
        """Start Python workers for the tasks that there will be more of at a time: that takes a second of CPU each."""
        target = record.change.resolved(now.configuration, now.facts)
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

    def _fetch(
        self, record: Record, now: Now, manifests: Mapping[str, Manifest]
    ) -> Mapping[str, Any]:
        """What moves with the first steps: once where more steps follow, else until there is little left to fetch.

        With a task that goes to another host moves all that it has.
        """
        way = planned_route(now.configuration, record.change, now)
        steps = planned_steps(record, way, now)
        tally = self._tallies.setdefault(record.id, Tally())
        while worth_another(tally.passes) and (len(steps) == 1 or not tally.passes):
            if tally.closed or not self._pass(tally, steps, now, manifests):
                return {}
        return tally.to_json()

    def ahead(self, record: Record, now: Now, manifests: Mapping[str, Manifest]) -> None:
        """Fetch what moves with the next steps, as it is now. What cannot be is fetched when it is read."""
        tally = self._tallies.setdefault(record.id, Tally())
        _warmed(record, lambda: self._pass(tally, _coming(record, now), now, manifests))

    def facts(self, record: Record) -> Mapping[str, Any]:
        """What was fetched ahead in all, also after it was prepared. What is under way is looked after no more."""
        tally = self._tallies.pop(record.id, None)
        if tally is None:
            return {}
        tally.closed = True
        return tally.to_json() if tally.passes else {}

    def finished(self, record: Record) -> None:
        """Executors that were kept for it are there for all."""
        super().finished(record)
        if record.change.executors_needed is not None and self._placing is not None:
            self._placing.release(record.id, held_by(record))

    def _pass(
        self, tally: Tally, steps: Sequence[Step], now: Now, manifests: Mapping[str, Manifest]
    ) -> bool:
        """Have what moves with the next steps fetched where it goes; whether there was anything to do."""
        over: list[Attended] = []
        if self._placing is None:
            return False
        first, last = (apply_steps(now.configuration, steps[:many]) for many in (1, STEPS))
        for operator, program in self.exchange.current.program.programs.items():
            # Where stores have no ranges every host reads the files themselves.
            if getattr(program.store, "ranges", None) is None:
                continue
            there = _bound(self._placing, operator, steps, now, first, last)
            manifest = manifests.get(operator, Manifest())
            errands = [_errand(manifest, own) for own in there.values()]
            size = max((sum(move.size for move in own) for own in there.values()), default=0.0)
            if errands:
                over += self._attend(Shipped.of(program), errands, list(there), size, tally)
        if over:
            tally.count(over)
        return bool(over)

    def _attend(
        self,
        shipped: Shipped,
        errands: list[Errand],
        hosts: list[Executor],
        size: float,
        tally: Tally,
    ) -> list[Attended]:
        """Begin errands, each on its executor, and look after them until they are over."""
        placed = PlacedNumbers(self._spark, self._placing.anchors() if self._placing else None)
        over: dict[int, Attended] = {}
        waited, looks = 0.0, 0
        call = AheadCall(shipped, tuple(errands), self._background())
        while True:
            left = [number for number in range(len(errands)) if number not in over]
            if not left or waited > PATIENCE or tally.closed:
                return list(over.values())
            mine = replace(call, errands=tuple(errands[number] for number in left))
            numbers = placed.frame({at: hosts[number] for at, number in enumerate(left)})
            told = numbers.mapInArrow(mine, "number long, told string").toArrow().to_pydict()
            for at, text in zip(told["number"], told["told"], strict=True):
                so_far = decode(Attended, json.loads(text))
                if so_far.done:
                    over[left[at]] = so_far
            if len(over) < len(errands):
                pause = tally.patience(size, looks)
                self._sleep(pause)
                waited, looks = waited + pause, looks + 1

    def _background(self) -> bool:
        """Whether workers outlive their tasks."""
        return str(self._spark.conf.get("spark.python.worker.reuse", "true")).lower() == "true"


def _coming(record: Record, now: Now) -> Sequence[Step]:
    """Steps that are left; those that would be planned now of a record that has not begun."""
    if record.under_way:
        return record.left
    return planned_steps(record, planned_route(now.configuration, record.change, now), now)


def _warmed(record: Record, warm: Callable[[], Any]) -> Mapping[str, Any]:
    """Return the facts of a warm-up. A change does not need it: an error is logged, and no more.

    Whether the change is still possible is decided when it begins.
    """
    try:
        return warm() or {}
    except Exception as error:
        _LOG.warning("%s begins less warm than it could: %s", record.id, error)
        return {"warming": _line(error)}


def _line(error: Exception) -> str:
    """Return the first line of an error; a stack trace of Spark may follow it."""
    return f"{type(error).__name__}: {error}".partition("\n")[0][:200]


def _bound(
    placing: Placing,
    operator: str,
    steps: Sequence[Step],
    now: Now,
    first: Configuration,
    last: Configuration,
) -> dict[Executor, list[BinMove]]:
    """Bins of an operator by where they go: alone with the next steps, or with a task that has to run elsewhere.

    first, last: Configuration after the next step, and after all steps considered.
    """
    there: dict[Executor, list[BinMove]] = {}
    moves = [move for move in coming(steps) if move.operator == operator]
    if moves:
        places = placing.expected(operator, first.operators[operator], first.executors)
        for move in moves:
            if move.target in places:
                there.setdefault(places[move.target], []).append(move)
    if may_place_anew(now.configuration, last, operator):
        before = placing.present(operator, now.configuration.operators[operator].tasks)
        places = placing.expected(operator, last.operators[operator], last.executors)
        gone = moved(before, {task: executor.id for task, executor in places.items()})
        known = {(executor, move.lo, move.hi) for executor, own in there.items() for move in own}
        for move in carried(last, operator, frozenset(gone), now.sizes):
            if (places[move.source], move.lo, move.hi) not in known:
                there.setdefault(places[move.source], []).append(move)
    return there


def _errand(manifest: Manifest, moves: list[BinMove]) -> Errand:
    where = Intervals.of((move.lo, move.hi) for move in moves)
    runs = (*manifest.within(where), *manifest.totals(where))
    return Errand(uuid.uuid4().hex, runs, tuple(pieces(moves)))


def _fresh(new: Program, old: Program) -> list[str]:
    """Stages whose programs workers have not seen."""
    return [name for name, made in new.programs.items() if old.programs.get(name) is not made]


def spark_preparer(
    spark: Any, exchange: ProgramSwitch, cluster: Cluster, placing: Placing | None
) -> SparkPreparer:
    """The preparer of a session."""
    return SparkPreparer(spark=spark, exchange=exchange, cluster=cluster, placing=placing)
