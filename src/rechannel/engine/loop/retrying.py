"""Runs again what failed for reasons that pass: timesteps, and looks at what lies outside.

A timestep that failed takes those after it with it: they rest on state that it was to write. All units under way come
back first; then the timesteps begin from scratch, under the same intents and on committed state. Files of the attempts
before carry their names, and no report names them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rechannel.engine.failures.retries import Again
from rechannel.engine.loop.in_flight import InFlights
from rechannel.engine.loop.listener import Listener
from rechannel.engine.stages.runner import Runner, Timestep
from rechannel.model.patience import Patience

T = TypeVar("T")


class Retrying:
    """What one driver tries again; belongs to its thread, and any thread may look."""

    def __init__(
        self,
        patience: Patience,
        *,
        flights: InFlights,
        runner: Runner,
        tell: Listener,
        steady: Callable[[], float],
    ) -> None:
        """Nothing has failed yet. steady: milliseconds that pass; the wall clock may be set while something waits."""
        self._timesteps, self._looks = Again(patience=patience), Again(patience=patience)
        self._flights, self._runner, self._tell, self._steady = flights, runner, tell, steady

    @property
    def total(self) -> int:
        """How often something has failed and was tried again."""
        return self._timesteps.total + self._looks.total

    @property
    def due_ms(self) -> float | None:
        """When the next try is of what has failed, on the clock that only passes; None = nothing has."""
        due = (self._timesteps.due_ms, self._looks.due_ms)
        return min((at for at in due if at is not None), default=None)

    def holds(self) -> bool:
        """Whether nothing may begin now: something has still to come back, or to wait."""
        now = self._steady()
        return self._flights.halted or self._timesteps.holds(now) or self._looks.holds(now)

    def failed(self, number: int, error: Exception) -> None:
        """A timestep failed: it, and those after it, run again if that may help. Raises the error if not."""
        wait = self._timesteps.failed(f"timestep {number}", error, self._steady())
        self._tell.failed(number, error, again_ms=wait)
        self._flights.halt()
        self._runner.cancel()

    def taken_back(self) -> list[Timestep]:
        """Timesteps that are to begin from scratch, oldest first: once, when all of their units have come back."""
        return self._flights.take_back() if self._flights.halted else []

    def committed(self) -> None:
        """A timestep is in the journal."""
        if self._timesteps.well():
            self._tell.well()

    def look(self, what: str, call: Callable[[], T]) -> T | None:
        """What a look at something outside says; None = it failed, and is tried again. what: it, in words."""
        try:
            seen = call()
        except Exception as error:
            wait = self._looks.failed(what, error, self._steady())
            self._tell.failed(None, error, again_ms=wait)
            return None
        if self._looks.well():
            self._tell.well()
        return seen
