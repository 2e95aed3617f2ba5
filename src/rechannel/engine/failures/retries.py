"""Count the retries of something that fails: how often, since when, and when the next one is due. Pure.

Only failures that are known to pass are retried (`blame.py`). Times are milliseconds of a monotonic clock.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from rechannel.engine.failures.blame import blame_of
from rechannel.errors import RechannelError, TimestepError, one_sentence
from rechannel.model.patience import Patience


class Retries(Struct, frozen=True, kw_only=True):
    """Retries of one kind of thing: of timesteps, or of looks at what lies outside."""

    patience: Patience
    failures: int = 0
    """Failures in a row."""
    total: int = 0
    """Failures since the driver started."""
    since_ms: float = 0.0
    """When the first failure in a row was."""
    due_ms: float | None = None
    """When the next retry is due; None if there is no failure."""

    def failed(self, what: str, error: Exception, steady_ms: float) -> Retries | Exception:
        """Record a failure of `what`.

        Return the error that ends the job if it is not known to pass, or if the patience is exhausted.
        """
        if not blame_of(error).passes:
            return error
        since = self.since_ms if self.failures else steady_ms
        lasted = max(0.0, steady_ms - since)
        wait = self.patience.wait_ms(self.failures + 1, lasted)
        if wait is None:
            return self._given_up(what, error, lasted)
        return replace(
            self,
            failures=self.failures + 1,
            total=self.total + 1,
            since_ms=since,
            due_ms=steady_ms + wait,
        )

    def _given_up(self, what: str, error: Exception, lasted: float) -> Exception:
        if not self.failures:
            return error
        kind = type(error) if isinstance(error, RechannelError) else TimestepError
        made = kind(
            f"{what} failed {self.failures + 1} times in {lasted / 1e3:,.0f} s, and no further retry is allowed."
            f" Start the job again when the cause is gone: {one_sentence(error)}"
        )
        made.__cause__ = error
        return made

    def holds(self, steady_ms: float) -> bool:
        """Return whether the next retry is not due yet."""
        return self.due_ms is not None and steady_ms < self.due_ms

    def well(self) -> Retries:
        """Return the retries after a success."""
        return replace(self, failures=0, due_ms=None) if self.failures else self
