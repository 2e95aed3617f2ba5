"""Prepare changes with any engine: request executors from the cluster, and rehearse migrations."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rechannel.engine.reconfigure.cluster import Cluster
from rechannel.engine.reconfigure.placement import surplus
from rechannel.engine.reconfigure.rehearsal import (
    LAST_SECONDS,
    SECONDS,
    Rehearsal,
    migrating_programs,
    rehearse,
)
from rechannel.engine.reconfigure.switch import ProgramSwitch
from rechannel.errors import NotReadyError, OtherDataflowError, UserFunctionError, one_sentence
from rechannel.logs import fields
from rechannel.model.eventtime import NEVER, Clock
from rechannel.reconfigure.coordination import Now
from rechannel.reconfigure.record import Phase, Record
from rechannel.state.manifest import Manifest

_LOG = logging.getLogger("rechannel")

MOST_IN_FLIGHT = 64
"""Timesteps: the bound of `set_in_flight`."""

PATIENCE_SECONDS = 300.0
"""How long executors may take to come before a change fails."""


def executors_kept(record: Record) -> int | None:
    """How many executors the Configuration keeps from a change that is over; None if the change did not set them."""
    begun = record.taken and Phase.REVERSING not in record.times
    if record.phase is not Phase.DONE and not begun:
        return None
    return record.change.executors_needed


class ClusterPreparer:
    """Requests executors, rehearses migrations, and knows which program versions this driver has.

    Changes request executors in threads of their own, and end in the driver's thread. However they end, the cluster
    still has a request for as many executors as the Configuration has, and as each open change needs.
    """

    def __init__(
        self,
        *,
        switch: ProgramSwitch,
        cluster: Cluster,
        places: Callable[[], Mapping[str, Mapping[int, str]]] = dict,
        patience: float = PATIENCE_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """places: executor of each placed task, by operator. patience: seconds that executors may take to start."""
        self.switch = switch
        self.cluster = cluster
        self.places = places
        self._patience = patience
        self._sleep = sleep
        self._configured = 0
        """Executors of the Configuration; before any change has requested some, those that were there."""
        self._requested: dict[str, int] = {}
        """Executors that each open change needs."""
        self._ended: set[str] = set()
        """Changes that are over."""
        self._rehearsed_until: dict[str, int] = {}
        """First timestep whose state a change's migrations have not been tried on."""
        self._lock = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """See `Preparer.close`."""
        self._closed = True

    @property
    def application(self) -> str:
        """Id of the application whose executors these are."""
        return self.cluster.application

    def restore_executors(self, executors: int) -> None:
        """Request the executors that the previous driver had. If the cluster refuses, the job goes on with fewer."""
        try:
            there = len(self.cluster.executors()) >= executors
            refusal = None if there else self.cluster.refuses_executors(executors)
            if refusal is None:
                self._configured = executors
                if not there:
                    self.cluster.request(executors)
        except Exception as error:
            refusal = str(error)
        if refusal is not None:
            _LOG.warning(
                "the previous driver had %d executors: %s",
                executors,
                refusal,
                extra=fields("executors_refused", reason=refusal),
            )

    def prepare(
        self, record: Record, now: Now, manifests: Mapping[str, Manifest]
    ) -> dict[str, Any]:
        """Wait for the executors that the change needs, and try its migrations on the existing state.

        Raises NotReadyError if they do not start or the change is over; UserFunctionError if a row cannot be converted.
        """
        facts: dict[str, Any] = {}
        executors, version = record.change.executors_needed, record.change.program_version
        if executors is not None:
            facts["executors"] = self._executors(record.id, executors)
        if version is not None:
            tried = self._rehearsed(version, now, manifests)
            # What timesteps in flight write is in no manifest yet.
            self._rehearsed_until[record.id] = now.timestep - (0 if now.drained else MOST_IN_FLIGHT)
            facts.update({} if tried is None else tried.to_json())
        return facts

    def check_at_boundary(
        self, record: Record, now: Now, manifests: Mapping[str, Manifest]
    ) -> str | None:
        """Return why a change cannot begin now, or None.

        Tries its migrations on the state written since `prepare`, and ends the logs of sources that go.
        """
        version = record.change.program_version
        if version is None:
            return None
        since = self._rehearsed_until.get(record.id, 0)
        try:
            self._rehearsed(version, now, manifests, since=since, seconds=LAST_SECONDS)
        except UserFunctionError as error:
            return f"its migration fails: {error}"
        try:
            self.switch.end_logs(version)
        except OtherDataflowError as error:
            return str(error)
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
        waiting = self.switch.waiting(version)
        programs = (
            ()
            if waiting is None
            else migrating_programs(waiting.program, self.switch.current.program)
        )
        if not programs:
            return None

        def clock(operator: str) -> Clock:
            watermark = now.event_times.get(operator, NEVER)
            return Clock(stream_ms=now.time_ms, before=watermark, watermark=watermark)

        tried = rehearse(programs, manifests, clock, time.monotonic, since=since, seconds=seconds)
        if tried.rows < tried.of:
            _LOG.warning(
                "migrations were tried on %d of %d rows of state: the others may still fail",
                tried.rows,
                tried.of,
                extra=fields("migration_tried_in_part"),
            )
        return tried

    def prepare_next_steps(
        self, record: Record, now: Now, manifests: Mapping[str, Manifest]
    ) -> None:
        """Do nothing: executors and functions are there before the first step."""

    def final_facts(self, record: Record) -> Mapping[str, Any]:
        """Return no facts: this preparer fetches no state ahead."""
        del record
        return {}

    def _executors(self, id_: str, total: int) -> int:
        self._request(id_, total)
        waited = 0.0
        while len(self.cluster.executors()) < total:
            if id_ in self._ended or self._closed:
                msg = f"{id_} is over: it no longer waits for {total} executors"
                raise NotReadyError(msg)
            if waited >= self._patience:
                msg = (
                    f"of {total} executors, {len(self.cluster.executors())} are there after {waited:.0f} s: the"
                    " cluster has no room for the others; request fewer, or give the cluster room"
                )
                raise NotReadyError(msg)
            self._sleep(0.1)
            waited += 0.1
        return len(self.cluster.executors())

    def _request(self, id_: str, total: int) -> None:
        with self._lock:
            if id_ in self._ended:
                return
            there = len(self.cluster.executors())
            self._configured = self._configured or there
            self._requested[id_] = total
            if there < total:
                self.cluster.request(self._needed())

    def _needed(self) -> int:
        """The most executors that the Configuration has or an open change needs."""
        return max(self._configured, *self._requested.values(), 1)

    def impossible(self, record: Record) -> str | None:
        """Return why, if the change begins a program version that this driver has not opened."""
        version = record.change.program_version
        if version is None or self.switch.has(version):
            return None
        return (
            "its functions and streams are not in this driver's memory: request the change again, or start the job"
            " from a program that contains it"
        )

    def release(self, record: Record) -> None:
        """Release executors that are no longer needed, and the program version of a change that was not made."""
        self._rehearsed_until.pop(record.id, None)
        version = record.change.program_version
        if version is not None and record.phase is not Phase.DONE:
            self.switch.withdraw(version)
        if record.change.executors_needed is not None:
            try:
                self._release_executors(record)
            except Exception as error:  # from the cluster: the change is over, and the job goes on
                _LOG.warning(
                    "executors that are no longer needed may stay: %s",
                    one_sentence(error),
                    extra=fields("executors_not_released", reconfiguration=record.id, reason=error),
                )

    def _release_executors(self, record: Record) -> None:
        """Request only the executors that are needed from now on, and decommission the others; once per change."""
        with self._lock:
            if record.id in self._ended:
                return
            before = self._needed()
            self._ended.add(record.id)
            self._requested.pop(record.id, None)
            self._configured = executors_kept(record) or self._configured
            alive, needed = self.cluster.executors(), self._needed()
            if record.phase is not Phase.DONE:
                self.cluster.request(max(len(alive), needed))  # no more than have started so far
            elif len(alive) < needed and before < needed:  # it held before it was prepared
                self.cluster.request(needed)
            elif max(len(alive), before) > needed:
                self.cluster.request(needed)
                self._give_back(surplus(needed, alive, self.places()))

    def _give_back(self, ids: Sequence[str]) -> None:
        """Let executors end, by their ids."""
        self.cluster.decommission(ids)
