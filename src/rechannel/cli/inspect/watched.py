"""A job as its state directory shows it: the journal, and the telemetry beside it. It may run meanwhile.

Each look reads the journal again, and the telemetry further on, at most once a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rechannel.cli.inspect.directory import StateDirectory
from rechannel.cli.inspect.driver import Condition, Place, condition
from rechannel.cli.inspect.told import Told
from rechannel.engine.journal.acts import acts_of
from rechannel.engine.journal.lease import process_started, read_lease
from rechannel.engine.journal.quarantine import quarantined
from rechannel.engine.journal.reading import read_only
from rechannel.engine.journal.state import JournalState
from rechannel.engine.journal.this_driver import this_holder
from rechannel.engine.program.versions import current_record
from rechannel.engine.reconfigure.history import read_one, summary
from rechannel.engine.reconfigure.history_reader import HistoryReader
from rechannel.errors import NotReadyError, RefusedError
from rechannel.model.configuration import Configuration
from rechannel.monitoring import Act, DataflowNode, Flow, JobStatus, OperatorBins, SinkStatus
from rechannel.reconfigure.record import OPEN, Record
from rechannel.running.bins import bins_of
from rechannel.running.flowing import MOST_TIMESTEPS, flow_of, nodes_of
from rechannel.running.standing import lags_of, operators_of
from rechannel.serve.answers import with_configured
from rechannel.telemetry.facts import TimestepProgress
from rechannel.telemetry.reading import EventReader

FRESH_S = 1.0
"""For how long what was read is shown before it is read again."""

_ENDED = {
    Condition.NEW: "has never run",
    Condition.DIED: "died",
    Condition.STOPPED: "stopped",
    Condition.FAILED: "failed",
}


class Saved:
    """A job as its state directory shows it."""

    def __init__(
        self,
        directory: StateDirectory,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_ms: Callable[[], float] = lambda: time.time_ns() / 1e6,
    ) -> None:
        """directory: of the job. clock: seconds. wall_ms: Unix milliseconds. Raises DamagedStateError,
        NewerFormatError.
        """
        self._directory = directory
        self._clock, self._wall_ms = clock, wall_ms
        self._lock = threading.Lock()
        self._reader = self._reader_of(directory)
        self._told = Told()
        self._history = HistoryReader(directory.store)
        self._read_s = float("-inf")
        self._state, self._condition = self._look()

    @staticmethod
    def _reader_of(directory: StateDirectory) -> EventReader | None:
        """The reader of its events; None for state in a bucket, which has none beside it."""
        try:
            return EventReader(directory.telemetry, bad=lambda _: None)
        except RefusedError:
            return None

    def _look(self) -> tuple[JournalState, Condition]:
        """Read what is new. Call it with the lock, or before anybody else may."""
        if self._clock() - self._read_s < FRESH_S:
            return self._state, self._condition
        lease = read_lease(self._directory.store)  # before the journal: see `condition`
        state = read_only(self._directory.store)
        place = Place(
            where=this_holder().where, wall_ms=int(self._wall_ms()), started=process_started
        )
        if self._reader is not None:
            self._told.see(self._reader.read())
        self._state, self._condition = state, condition(state, lease, place)
        self._read_s = self._clock()
        return self._state, self._condition

    def _now(self) -> JournalState:
        with self._lock:
            return self._look()[0]

    @property
    def name(self) -> str:
        """Its name."""
        return self._directory.identity.name

    def configuration(self) -> Configuration:
        """What the next timestep runs under. Raises NotReadyError before the first driver."""
        known = self._now().configurations
        if not known:
            msg = f"job {self.name!r} has not begun a timestep yet: it has no configuration"
            raise NotReadyError(msg)
        return known[-1][1]

    def status(self) -> dict[str, Any]:
        """Its status as of the newest event that its driver wrote: what waits gets older while the job is active."""
        with self._lock:
            state, how = self._look()
            known, told = state.configurations, self._told
            configuration = known[-1][1] if known else Configuration(version=0)
            last = told.progress.last_progress
            active = how in {Condition.RUNNING, Condition.SILENT}
            now_ms = self._wall_ms() if active or told.at_ms is None else told.at_ms
            sources = [node.name for node in self._nodes(state) if node.kind == "source"]
            status = JobStatus(
                name=self.name,
                active=active,
                message=self._message(how, told.error),
                timestep=state.last_committed or 0,
                configuration=configuration.version,
                retries=told.failures,
                troubles=told.progress.troubles,
                committed_ms=None if last is None else last.committed_ms,
                open_since_ms=told.progress.open_since_ms,
                lag=lags_of(sources, last, now_ms),
                operators=operators_of(configuration, last, told.totals.sums, now_ms),
                bad_rows={name: one.facts() for name, one in told.totals.sums.judged.items()},
            )
            return with_configured(status, configuration, state.offsets, as_of_ms=told.at_ms)

    @staticmethod
    def _message(how: Condition, error: str | None) -> str:
        if how in {Condition.FAILED, Condition.STOPPED} and error is not None:
            return f"failed: {error}"
        return _ENDED.get(how, str(how))

    def progress(self) -> Sequence[TimestepProgress]:
        """The last committed timesteps, oldest first."""
        self._now()
        return self._told.progress.recent_progress

    def reconfigurations(self, last: int) -> list[dict[str, Any]]:
        """The newest reconfigurations, oldest first."""
        records = self._now().coordination.records
        known = {record.id: record for record in records}
        found = self._history.read(records, last)
        return [_with_bins_left(one, known.get(one["id"])) for one in found]

    def open_reconfigurations(self) -> list[dict[str, Any]]:
        """Those that are not over."""
        return [_with_bins_left(summary(one), one) for one in self._now().coordination.open]

    def reconfiguration(self, id_: str) -> dict[str, Any]:
        """One of them. Raises NotReadyError if there is none."""
        records = self._now().coordination.records
        known = {record.id: record for record in records}
        return _with_bins_left(read_one(self._directory.store, id_, records), known.get(id_))

    def acts(self) -> Sequence[Act]:
        """What else was done."""
        return [Act.from_dict(dict(one)) for one in acts_of(self._now().notes)]

    def sinks(self) -> Mapping[str, SinkStatus]:
        """How far each sink is behind the commits: what the journal knows of that."""
        state = self._now()
        held = {fact["sink"]: fact["reason"] for fact in quarantined(state.notes).values()}
        owed: dict[str, list[int]] = {}
        for timestep, staged in sorted(state.unpublished.items()):
            for sink in staged:
                owed.setdefault(sink, []).append(timestep)
        names = [node.name for node in self._nodes(state) if node.kind == "sink"]
        return {
            name: SinkStatus(
                owed=len(owed.get(name, ())),
                oldest=min(owed.get(name, ()), default=None),
                failures=0,
                error=None,
                quarantine=held.get(name),
            )
            for name in dict.fromkeys([*names, *owed, *held])
        }

    def nodes(self) -> Sequence[DataflowNode]:
        """The dataflow."""
        return self._nodes(self._now())

    @staticmethod
    def _nodes(state: JournalState) -> tuple[DataflowNode, ...]:
        return nodes_of(current_record(state))

    def bins(self) -> Mapping[str, OperatorBins]:
        """The bins of each operator with state."""
        state = self._now()
        if not state.configurations:
            return {}
        return bins_of(
            state.configurations[-1][1],
            state.configurations,
            state.manifests,
            self._told.tasks.recent,
            state.coordination.open,
        )

    def flow(self) -> Flow:
        """What the latest timesteps did."""
        self._now()
        return flow_of(self._told.tasks.recent, self._told.events.recent(MOST_TIMESTEPS))


def _with_bins_left(one: dict[str, Any], record: Record | None) -> dict[str, Any]:
    left = 0 if record is None else sum(len(step.moves) for step in record.left)
    is_open = one["phase"] in OPEN
    return {**one, "open": is_open, "bins_left": left if is_open else 0}
