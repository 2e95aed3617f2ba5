"""Prepare changes on Spark: load functions on workers, and fetch state to the executors it will move to.

State is fetched in the background (`kernels/lsm/ahead.py`): a short Spark task starts an errand on the executor that
bins move to, and later tasks ask for its progress. So the state is in the cache of its new host before it moves.

Timesteps continue meanwhile: they write state, and merge what was fetched into new segments. So if all bins move at
once, their state is fetched again as long as each pass has much less to fetch than the one before. If they move step by
step, the state of the next steps is fetched, and while those are made, that of the steps after them.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rechannel.engine.program.versions import Program
from rechannel.engine.reconfigure.cluster import Cluster, Executor
from rechannel.engine.reconfigure.cluster_preparer import ClusterPreparer, executors_kept
from rechannel.engine.reconfigure.prefetch_plan import (
    STEPS,
    Tally,
    worth_another,
)
from rechannel.engine.reconfigure.switch import ProgramSwitch
from rechannel.engine.spark.calls import Shipped
from rechannel.engine.spark.placing import Placing
from rechannel.engine.spark.prefetch_targets import bins_by_target, errand_for
from rechannel.engine.spark.private import PlacedNumbers
from rechannel.engine.spark.stages import ROWS
from rechannel.engine.spark.warmup_calls import HOLD, FetchCall, LoadCall
from rechannel.errors import one_sentence
from rechannel.kernels.lsm.ahead import Attended, Errand
from rechannel.logs import fields
from rechannel.model.codec import decode
from rechannel.reconfigure.coordination import Now
from rechannel.reconfigure.record import Record
from rechannel.reconfigure.requests import planned_route, planned_steps
from rechannel.reconfigure.steps import Step, apply_steps
from rechannel.state.manifest import Manifest
from rechannel.state.store import RangedStore

_LOG = logging.getLogger("rechannel")

PATIENCE = 300.0
"""Seconds that a change waits for state to be fetched; what is missing then is fetched when it is read."""


class SparkPreparer(ClusterPreparer):
    """Prepares changes on a session's executors: starts workers, loads functions, fetches state."""

    def __init__(
        self,
        *,
        spark: Any,
        switch: ProgramSwitch,
        cluster: Cluster,
        placing: Placing | None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """placing: knows where tasks will run; None = on the only executor."""
        super().__init__(
            switch=switch,
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
        """Prepare executors, then functions, then state. Raises RechannelError if a function cannot be loaded."""
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

    def _give_back(self, ids: Sequence[str]) -> None:
        if self._placing is not None:
            self._placing.give_back(set(ids))
        super()._give_back(ids)

    def _workers(self, record: Record, now: Now) -> dict[str, Any]:
        """Start Python workers if more tasks will run at a time: each takes a second of CPU to start."""
        target = record.change.resolved(now.configuration, now.facts)
        cores = sum(executor.cores for executor in self.cluster.executors()) or 1
        before, after = (
            min(cores, max((each.tasks for each in configuration.operators.values()), default=0))
            for configuration in (now.configuration, target)
        )
        if after <= before:
            return {}
        programs = self.switch.current.program.programs
        call = LoadCall(tuple(Shipped.of(made) for made in programs.values()), hold=HOLD)
        self._spark.range(0, after, 1, after).mapInArrow(call, ROWS).toArrow()
        return {"workers": after}

    def _load(self, version: int) -> list[str]:
        """Load the new programs of a version in workers; returns their names."""
        waiting = self.switch.waiting(version)
        if waiting is None:
            return []
        fresh = _fresh(waiting.program, self.switch.current.program)
        if not fresh:  # only functions of DataFrames are others, which run on the driver
            return []
        cores = sum(executor.cores for executor in self.cluster.executors()) or 1
        call = LoadCall(tuple(Shipped.of(waiting.program.programs[name]) for name in fresh))
        numbers = self._spark.range(0, cores, 1, cores)
        numbers.mapInArrow(call, ROWS).toArrow()
        return fresh

    def _fetch(
        self, record: Record, now: Now, manifests: Mapping[str, Manifest]
    ) -> Mapping[str, Any]:
        """Fetch what the first steps move: once if more steps follow, else until little is left to fetch.

        A task that goes to another host takes all its state along.
        """
        way = planned_route(now.configuration, record.change, now)
        steps = planned_steps(record, way, now)
        tally = self._tallies.setdefault(record.id, Tally())
        while worth_another(tally.passes) and (len(steps) == 1 or not tally.passes):
            if tally.closed or self._closed or not self._pass(tally, steps, now, manifests):
                return {}
        return tally.to_json()

    def prepare_next_steps(
        self, record: Record, now: Now, manifests: Mapping[str, Manifest]
    ) -> None:
        """Fetch what the next steps move, as it is now. What cannot be fetched now is fetched when it is read."""
        tally = self._tallies.setdefault(record.id, Tally())
        _warmed(record, lambda: self._pass(tally, _coming(record, now), now, manifests))

    def final_facts(self, record: Record) -> Mapping[str, Any]:
        """Return what was fetched in total, also after `prepare`. Fetching that is under way is no longer followed."""
        tally = self._tallies.pop(record.id, None)
        if tally is None:
            return {}
        tally.closed = True
        return tally.to_json() if tally.passes else {}

    def release(self, record: Record) -> None:
        """Also let every operator use the executors that were reserved for it."""
        super().release(record)
        if record.change.executors_needed is not None and self._placing is not None:
            self._placing.release(record.id, executors_kept(record))

    def _pass(
        self, tally: Tally, steps: Sequence[Step], now: Now, manifests: Mapping[str, Manifest]
    ) -> bool:
        """Have what the next steps move fetched to where it goes; returns whether there was anything to fetch."""
        over: list[Attended] = []
        if self._placing is None:
            return False
        first, last = (apply_steps(now.configuration, steps[:many]) for many in (1, STEPS))
        for operator, program in self.switch.current.program.programs.items():
            # Without ranges, every host reads the store's files directly.
            if not isinstance(program.store, RangedStore):
                continue
            targets = bins_by_target(self._placing, operator, steps, now, first, last)
            manifest = manifests.get(operator, Manifest())
            errands = [errand_for(manifest, own) for own in targets.values()]
            size = max((sum(move.size for move in own) for own in targets.values()), default=0.0)
            if errands:
                over += self._attend(Shipped.of(program), errands, list(targets), size, tally)
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
        """Begin errands, each on its executor, and ask for their progress until they are over."""
        placed = PlacedNumbers(self._spark, self._placing.anchors() if self._placing else None)
        over: dict[int, Attended] = {}
        began, waited, looks = time.monotonic(), 0.0, 0
        call = FetchCall(shipped, tuple(errands), self._background())
        while True:
            left = [number for number in range(len(errands)) if number not in over]
            if not left or waited > PATIENCE or tally.closed or self._closed:
                return list(over.values())
            mine = replace(call, errands=tuple(errands[number] for number in left))
            numbers = placed.frame({at: hosts[number] for at, number in enumerate(left)})
            rows = numbers.mapInArrow(mine, "number long, progress string").toArrow().to_pydict()
            for at, text in zip(rows["number"], rows["progress"], strict=True):
                so_far = decode(Attended, json.loads(text))
                if so_far.done:
                    over[left[at]] = so_far
            if len(over) < len(errands):
                pause = tally.patience(size, looks)
                self._sleep(pause)
                # Looking takes time as well, where executors are busy.
                waited, looks = max(waited + pause, time.monotonic() - began), looks + 1

    def _background(self) -> bool:
        """Whether workers outlive their tasks."""
        return str(self._spark.conf.get("spark.python.worker.reuse", "true")).lower() == "true"


def _coming(record: Record, now: Now) -> Sequence[Step]:
    """Steps that are left; of a record that has not begun, those that would be planned now."""
    if record.under_way:
        return record.left
    return planned_steps(record, planned_route(now.configuration, record.change, now), now)


def _warmed(record: Record, warm: Callable[[], Any]) -> Mapping[str, Any]:
    """Return the facts of a warm-up. A change does not depend on it: an error is logged, and the change continues.

    Whether the change is still possible is decided when it begins.
    """
    try:
        return warm() or {}
    except Exception as error:
        _LOG.warning(
            "%s: a part of its preparation failed, so its first timesteps may be slower: %s",
            record.id,
            one_sentence(error),
            extra=fields("preparation_failed", reconfiguration=record.id, reason=error),
        )
        return {"warming": _line(error)}


def _line(error: Exception) -> str:
    """Return the first line of an error, because a stack trace of Spark may follow it."""
    return f"{type(error).__name__}: {error}".partition("\n")[0][:200]


def _fresh(new: Program, old: Program) -> list[str]:
    """Stages whose programs workers have not loaded yet."""
    return [name for name, made in new.programs.items() if old.programs.get(name) is not made]


def spark_preparer(
    spark: Any, switch: ProgramSwitch, cluster: Cluster, placing: Placing | None
) -> SparkPreparer:
    """The preparer of a session."""
    return SparkPreparer(spark=spark, switch=switch, cluster=cluster, placing=placing)
