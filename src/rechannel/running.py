"""The handle on a running job: what `Job.start` returns."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rechannel.engine.driver import Driver
from rechannel.engine.housekeeping import Housekeeper
from rechannel.engine.journal import Journal
from rechannel.engine.lease import Lease
from rechannel.engine.physical import PhysicalPlan
from rechannel.engine.state_view import StateView
from rechannel.errors import NotReadyError, UnknownOperatorError, as_rechannel_error
from rechannel.model.configuration import Configuration
from rechannel.sinks.memory import MemoryWriter
from rechannel.sinks.writer import SinkWriter
from rechannel.sources.reader import SourceReader
from rechannel.telemetry.hub import Hub

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RENEW_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a job was put together from."""

    name: str
    plan: PhysicalPlan
    journal: Journal
    readers: Mapping[str, SourceReader]
    writers: Mapping[str, SinkWriter]
    housekeeper: Housekeeper
    driver: Driver
    lease: Lease
    hub: Hub
    view: StateView


class RunningJob:
    """The handle on a running job. All methods may be called from any thread."""

    def __init__(self, parts: Parts) -> None:
        """Start the threads."""
        self._parts = parts
        self._driver = parts.driver
        self._lease = parts.lease
        self._hub = parts.hub
        self._over = threading.Event()
        self._thread = threading.Thread(
            target=self._body, name=f"rechannel-{self.name}", daemon=True
        )
        self._heart = threading.Thread(target=self._beat, name="rechannel-lease", daemon=True)
        self._thread.start()
        self._heart.start()

    @property
    def name(self) -> str:
        """The job's name."""
        return self._parts.name

    def _body(self) -> None:
        self._driver.run()
        try:
            self._parts.housekeeper.finish()
            self._lease.release()
            self._hub.close(self._driver.error)
        finally:
            # Whatever cannot be put away: those who wait for the end must hear of it.
            self._over.set()

    def _beat(self) -> None:
        while not self._over.wait(RENEW_SECONDS):
            try:
                self._lease.renew()
            except Exception:
                return

    # Watching ------------------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """Whether it still runs."""
        return not self._over.is_set()

    @property
    def status(self) -> dict[str, Any]:
        """What it is doing: name, active, message, last committed timestep, configuration version."""
        error = self._driver.error
        message = (
            "running" if self.is_active else ("stopped" if error is None else f"failed: {error}")
        )
        return {
            "name": self.name,
            "active": self.is_active,
            "message": message,
            "timestep": self._parts.journal.state.last_committed,
            "configuration": self._driver.configuration.version,
        }

    @property
    def last_progress(self) -> dict[str, Any] | None:
        """Facts of the last committed timestep, or None before the first."""
        return self._hub.last_progress

    @property
    def recent_progress(self) -> list[dict[str, Any]]:
        """Facts of the last timesteps, oldest first."""
        return self._hub.recent_progress

    @property
    def configuration(self) -> Configuration:
        """What the next timestep runs under."""
        return self._driver.configuration

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of its sources."""
        return tuple(self._parts.readers)

    def committed_offset(self, source: str) -> dict[str, Any]:
        """How far a source has been read and committed; empty before the first commit."""
        return dict(self._parts.journal.state.offsets.get(source) or {})

    @property
    def exception(self) -> BaseException | None:
        """Why it failed, or None."""
        error = self._driver.error
        return None if error is None else as_rechannel_error(error)

    # Waiting and stopping ------------------------------------------------------------------------------------

    def process_all_available(self, timeout: float | None = None) -> None:
        """Wait until all input that was there when this was called is committed and published.

        Raises what the job failed with, NotReadyError after `timeout` seconds.
        """
        if not self._driver.drain(timeout):
            msg = f"job {self.name!r} has not processed its input after {timeout} s; wait longer"
            raise NotReadyError(msg)
        if self._driver.finished.is_set():
            # The last facts are written before the error is shown.
            self._over.wait(timeout)
        self._raise()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait for the end. True when it came, False after `timeout` seconds. Raises what the job failed with."""
        ended = self._over.wait(timeout)
        if ended:
            self._raise()
        return ended

    def stop(self, timeout: float | None = None) -> None:
        """Finish the timesteps under way, publish them, and end. Raises what the job failed with."""
        self._driver.stop()
        self.await_termination(timeout)

    def _raise(self) -> None:
        error = self.exception
        if error is not None:
            raise error

    # State ---------------------------------------------------------------------------------------------------

    def state(self, operator: str, *, timestep: int | None = None) -> DataFrame | Any:
        """Live state of an operator as of the last commit (or of an earlier, kept one).

        A Spark DataFrame with the operator's output columns (an Arrow table in process). Raises UnknownOperatorError,
        NotReadyError when that timestep is not kept.
        """
        return self._parts.view.frame(operator, self._parts.journal.state, timestep)

    def state_table(self, operator: str, *, timestep: int | None = None) -> pa.Table:
        """The same as an Arrow table exactly as stored (hash, key and state columns), in one order: for proofs."""
        return self._parts.view.canonical(operator, self._parts.journal.state, timestep)

    def memory(self, table: str) -> pa.Table:
        """Everything that a memory sink holds, as one table."""
        for sink in self._parts.plan.sinks:
            writer = self._parts.writers[sink.sink.name]
            if isinstance(writer, MemoryWriter) and writer.table_name == table:
                return writer.table()
        msg = f"job {self.name!r} has no memory sink {table!r}"
        raise UnknownOperatorError(msg)
