"""What can be done ahead of a border whatever the engine: ask for executors and wait until they are there."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from rechannel.engine.cluster import Cluster
from rechannel.engine.exchange import Exchange
from rechannel.engine.placement import surplus
from rechannel.errors import NotReadyError
from rechannel.reconfigure.changes import ChangeProgram, SetExecutors, parts_of
from rechannel.reconfigure.coordination import Now
from rechannel.reconfigure.record import Phase, Record
from rechannel.state.manifest import Manifest

_LOG = logging.getLogger(__name__)

PATIENCE_SECONDS = 300.0
"""How long executors may take to come before a change fails."""


class ClusterPreparer:
    """Asks the cluster, and says which programs this driver has."""

    def __init__(
        self,
        *,
        exchange: Exchange,
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

    @property
    def application(self) -> str:
        """In which ids of executors mean something."""
        return self.cluster.application

    def recovered(self, executors: int) -> None:
        """Ask for executors again that the driver before had. They may be refused here: then it goes on with fewer."""
        try:
            if len(self.cluster.executors()) >= executors:
                return
            refusal = self.cluster.refuses_executors(executors)
            if refusal is None:
                self.cluster.request(executors)
        except Exception as error:
            refusal = str(error)
        if refusal is not None:
            _LOG.warning("there were %d executors before: %s", executors, refusal)

    def prepare(
        self, record: Record, now: Now, manifests: Mapping[str, Manifest]
    ) -> dict[str, Any]:
        """Wait for executors that the change asks for. Raises NotReadyError when they do not come."""
        del now, manifests
        facts: dict[str, Any] = {}
        for part in parts_of(record.change):
            if isinstance(part, SetExecutors):
                facts["executors"] = self._executors(part.executors)
        return facts

    def ahead(self, record: Record, now: Now, manifests: Mapping[str, Manifest]) -> None:
        """Nothing: executors and functions are there before the first step."""

    def facts(self, record: Record) -> Mapping[str, Any]:
        """There is nothing to tell."""
        del record
        return {}

    def _executors(self, total: int) -> int:
        there = len(self.cluster.executors())
        if there >= total:
            return there
        self.cluster.request(total)
        waited = 0.0
        while len(self.cluster.executors()) < total:
            if waited >= self._patience:
                msg = (
                    f"{total} executors were asked for and {len(self.cluster.executors())} are there after"
                    f" {waited:.0f} s: the cluster has no room; ask for fewer, or give it room"
                )
                raise NotReadyError(msg)
            self._sleep(0.1)
            waited += 0.1
        return len(self.cluster.executors())

    def impossible(self, record: Record) -> str | None:
        """A program change whose functions this driver does not have: only one that ended had them."""
        for part in parts_of(record.change):
            if isinstance(part, ChangeProgram) and not self.exchange.has(part.version):
                return (
                    "its functions and streams are not in this driver's memory (any more): ask for it again, or start"
                    " the program with the change in its text"
                )
        return None

    def finished(self, record: Record) -> None:
        """Let executors go that are not wanted any more; forget a program that does not come."""
        for part in parts_of(record.change):
            if isinstance(part, ChangeProgram) and record.phase is not Phase.DONE:
                self.exchange.withdraw(part.version)
            if isinstance(part, SetExecutors):
                try:
                    self._part_with(record.phase is Phase.DONE, part.executors)
                except (
                    Exception
                ) as error:  # of the cluster: the change is over, and the job goes on
                    _LOG.warning("executors that are not wanted any more may stay: %s", error)

    def _part_with(self, done: bool, wanted: int) -> None:
        """Ask for no more executors than there are to be, and let the others end."""
        alive = self.cluster.executors()
        if not done:
            self.cluster.request(max(1, len(alive)))  # no more than came so far
        elif len(alive) > wanted:
            self.cluster.request(wanted)
            self.cluster.decommission(surplus(wanted, alive, self.places()))
