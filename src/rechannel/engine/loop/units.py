"""Runs units: in the driver's thread where it has nothing else to do and timesteps are short, otherwise in a pool."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future

from rechannel.engine.loop.core.commands import StartUnits
from rechannel.engine.loop.core.events import UnitDone, UnitFailed
from rechannel.engine.loop.core.schedule import Unit
from rechannel.engine.loop.outside import CameBack, DriverInbox
from rechannel.engine.stages.runner import Runner
from rechannel.kernels.protocol.program import StageStep
from rechannel.threads import DaemonThreads

CANCEL_SECONDS = 1.0
CANCELS = 300
"""After that many, a unit that has not come back is left to its thread."""
MOST_THREADS = 512
"""Of units: a thread is made only when it is needed, and waits for tasks for most of its life."""


class Units:
    """Starts units. They come back through the driver's inbox."""

    def __init__(
        self,
        runner: Runner,
        inbox: DriverInbox,
        executor: Executor | None,
        waits: Callable[[], float],
    ) -> None:
        """executor: None = the calling thread for a unit alone, and a pool. waits: dates failures."""
        self._runner, self._inbox, self._executor, self._waits = runner, inbox, executor, waits
        self._pool: DaemonThreads | None = None

    def start(self, command: StartUnits) -> CameBack | None:
        """Start units; return what one brought that ran here and now."""
        if self._executor is None and command.alone:
            ((unit, step),) = command.units.items()
            return self._run(unit, step)
        for unit, step in command.units.items():
            self._workers().submit(self._run, unit, step).add_done_callback(self._ended)
        return None

    def _run(self, unit: Unit, step: StageStep) -> CameBack:
        name, number = unit
        try:
            return UnitDone(unit=unit, reports=self._runner.run(number, name, step))
        except Exception as error:
            return UnitFailed(unit=unit, error=error, at_ms=self._waits())

    def _ended(self, future: Future[CameBack]) -> None:
        if not future.cancelled():
            error = future.exception()
            self._inbox.put(future.result() if error is None else error)

    def _workers(self) -> Executor:
        if self._executor is not None:
            return self._executor
        if self._pool is None:
            self._pool = DaemonThreads(MOST_THREADS, "rechannel-unit")
        return self._pool

    def shut_down(self, cancel: Callable[[], None] | None = None) -> None:
        """Drop queued units and wait for those that run. cancel: called every second meanwhile, for `CANCELS` seconds.

        A unit that was still planning when Spark's jobs were cancelled submits its job afterwards.
        """
        if self._pool is None:
            return
        self._pool.shutdown(wait=False, cancel_futures=True)
        if cancel is None:
            self._pool.join()
            return
        for _ in range(CANCELS):
            if self._pool.join(CANCEL_SECONDS):
                return
            cancel()
