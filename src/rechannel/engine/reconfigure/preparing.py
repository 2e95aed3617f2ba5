"""Prepare changes with any engine: request executors, try migrations."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from rechannel.engine.reconfigure.cluster import Cluster
from rechannel.engine.reconfigure.placement import surplus
from rechannel.engine.reconfigure.rehearsal import (
    LAST_SECONDS,
    SECONDS,
    Rehearsal,
    migrated,
    rehearse,
)
from rechannel.engine.reconfigure.switch import ProgramSwitch
from rechannel.errors import NotReadyError, UserFunctionError
from rechannel.model.eventtime import NEVER, Clock
from rechannel.reconfigure.coordination import Now
from rechannel.reconfigure.record import Phase, Record
from rechannel.state.manifest import Manifest

_LOG = logging.getLogger("rechannel")

PATIENCE_SECONDS = 300.0
"""How long executors may take to come before a change fails."""


def held_by(record: Record) -> int | None:
    """Executors that the Configuration has from a change that is over; None where it has none from it."""
    begun = record.taken and Phase.REVERSING not in record.times
    if record.phase is not Phase.DONE and not begun:
        return None
    return record.change.executors_needed


class ClusterPreparer:
    """Asks the cluster, and says which programs this driver has.

    Changes ask for executors in threads of their own, and end in the driver's. However they end, at least so many stay
    asked for as the Configuration has and as changes that are open ask for.
    """

    def __init__(
        self,
        *,
        exchange: ProgramSwitch,
        cluster: Cluster,
        places: Callable[[], Mapping[str, Mapping[int, str]]] = dict,
        patience: float = PATIENCE_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """places: executor of every task that is placed, by operator. patience: seconds that executors may take."""
        self.exchange = exchange
        self.cluster = cluster
        self.places = places
        self._patience = patience
        self._sleep = sleep
        # What the Configuration has; before a change has asked: how many there were.
        self._holds = 0
        self._asked: dict[str, int] = {}
        self._over: set[str] = set()
        # The first timestep whose state a change's migrations were not tried over.
        self._rehearsals: dict[str, int] = {}
        self._lock = threading.Lock()

    @property
    def application(self) -> str:
        """In which ids of executors mean something."""
        return self.cluster.application

    def recovered(self, executors: int) -> None:
        """Ask for executors again that the driver before had. They may be refused here: then it goes on with fewer."""
        try:
            there = len(self.cluster.executors()) >= executors
            refusal = None if there else self.cluster.refuses_executors(executors)
            if refusal is None:
                self._holds = executors
                if not there:
                    self.cluster.request(executors)
        except Exception as error:
            refusal = str(error)
        if refusal is not None:
            _LOG.warning("there were %d executors before: %s", executors, refusal)

    def prepare(
        self, record: Record, now: Now, manifests: Mapping[str, Manifest]
    ) -> dict[str, Any]:
        """Wait for executors that the change asks for, and try its migrations over the state that is there.

        Raises NotReadyError when they do not come, or it is over; UserFunctionError where a row cannot be converted.
        """
        facts: dict[str, Any] = {}
        executors, version = record.change.executors_needed, record.change.program_version
        if executors is not None:
            facts["executors"] = self._executors(record.id, executors)
        if version is not None:
            tried = self._rehearsed(version, now, manifests)
            self._rehearsals[record.id] = now.timestep
            facts.update({} if tried is None else tried.to_json())
        return facts

    def last_look(self, record: Record, now: Now, manifests: Mapping[str, Manifest]) -> str | None:
        """Return why a change cannot begin now, or None: try its migrations over what was written since."""
        version = record.change.program_version
        if version is None:
            return None
        since = self._rehearsals.get(record.id, 0)
        try:
            self._rehearsed(version, now, manifests, since=since, seconds=LAST_SECONDS)
        except UserFunctionError as error:
            return f"its migration fails: {error}"
        return None

    def _rehearsed(
        self,
        version: int,
        now: Now,
        manifests: Mapping[str, Manifest],
        *,
        since: int = 0,
        seconds: float = SECONDS,
    ) -> Rehearsal | None:
        waiting = self.exchange.waiting(version)
        programs = (
            () if waiting is None else migrated(waiting.program, self.exchange.current.program)
        )
        if not programs:
            return None

        def clock(operator: str) -> Clock:
            watermark = now.event_times.get(operator, NEVER)
            return Clock(now_ms=now.time_ms, before=watermark, watermark=watermark)

        tried = rehearse(programs, manifests, clock, time.monotonic, since=since, seconds=seconds)
        if tried.rows < tried.of:
            _LOG.warning(
                "migrations were tried over %d of %d rows of state: the others may still fail",
                tried.rows,
                tried.of,
            )
        return tried

    def ahead(self, record: Record, now: Now, manifests: Mapping[str, Manifest]) -> None:
        """Nothing: executors and functions are there before the first step."""

    def facts(self, record: Record) -> Mapping[str, Any]:
        """Return no facts: this preparer fetches no state ahead."""
        del record
        return {}

    def _executors(self, id_: str, total: int) -> int:
        self._ask(id_, total)
        waited = 0.0
        while len(self.cluster.executors()) < total:
            if id_ in self._over:
                msg = f"{id_} is over: {total} executors are not waited for any more"
                raise NotReadyError(msg)
            if waited >= self._patience:
                msg = (
                    f"{total} executors were asked for and {len(self.cluster.executors())} are there after"
                    f" {waited:.0f} s: the cluster has no room; ask for fewer, or give it room"
                )
                raise NotReadyError(msg)
            self._sleep(0.1)
            waited += 0.1
        return len(self.cluster.executors())

    def _ask(self, id_: str, total: int) -> None:
        with self._lock:
            if id_ in self._over:
                return
            there = len(self.cluster.executors())
            self._holds = self._holds or there
            self._asked[id_] = total
            if there < total:
                self.cluster.request(self._needed())

    def _needed(self) -> int:
        """So many the Configuration has, or a change that is open asks for."""
        return max(self._holds, *self._asked.values(), 1)

    def impossible(self, record: Record) -> str | None:
        """A program change whose functions this driver does not have: only one that ended had them."""
        version = record.change.program_version
        if version is None or self.exchange.has(version):
            return None
        return (
            "its functions and streams are not in this driver's memory (any more): ask for it again, or start"
            " the program with the change in its text"
        )

    def finished(self, record: Record) -> None:
        """Let executors go that are not wanted any more; forget a program that does not come."""
        self._rehearsals.pop(record.id, None)
        version = record.change.program_version
        if version is not None and record.phase is not Phase.DONE:
            self.exchange.withdraw(version)
        if record.change.executors_needed is not None:
            try:
                self._part_with(record)
            except Exception as error:  # of the cluster: the change is over, and the job goes on
                _LOG.warning("executors that are not wanted any more may stay: %s", error)

    def _part_with(self, record: Record) -> None:
        """Ask for no more executors than there are to be, and let the others end; once."""
        with self._lock:
            if record.id in self._over:
                return
            before = self._needed()
            self._over.add(record.id)
            self._asked.pop(record.id, None)
            self._holds = held_by(record) or self._holds
            alive, needed = self.cluster.executors(), self._needed()
            if record.phase is not Phase.DONE:
                self.cluster.request(max(len(alive), needed))  # no more than came so far
            elif max(len(alive), before) > needed:
                self.cluster.request(needed)
                self.cluster.decommission(surplus(needed, alive, self.places()))
