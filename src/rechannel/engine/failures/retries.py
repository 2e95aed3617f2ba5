"""Count the retries of something that fails: how often, since when, and when the next one is due."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from rechannel.engine.failures.blame import blame_of
from rechannel.errors import RechannelError, TimestepError, one_sentence
from rechannel.model.patience import Patience

_LOG = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Again:
    """Retries of one kind. Only the driver's thread changes it; any thread may read it. Times are monotonic."""

    patience: Patience
    failures: int = 0
    """Failures in a row."""
    total: int = 0
    """Failures since the driver started."""
    due_ms: float | None = None
    """When the next retry is due; None if there is no failure."""
    _since_ms: float = 0.0

    def failed(self, name: str, error: Exception, now_ms: float) -> float:
        """Record a failure of `name`. Returns the milliseconds until the next retry.

        Raises the error if it is not known to pass, or if the patience is exhausted.
        """
        blame = blame_of(error)
        if not blame.passes:
            raise error
        if not self.failures:
            self._since_ms = now_ms
        lasted = max(0.0, now_ms - self._since_ms)
        wait = self.patience.wait_ms(self.failures + 1, lasted)
        if wait is None:
            raise self._given_up(name, error, lasted)
        self.failures += 1
        self.total += 1
        self.due_ms = now_ms + wait
        _LOG.warning(
            "%s failed, a fault of the %s (%d in a row); next retry in %.1f s: %s",
            name,
            blame,
            self.failures,
            wait / 1e3,
            one_sentence(error),
        )
        return wait

    def _given_up(self, name: str, error: Exception, lasted: float) -> Exception:
        if not self.failures:
            return error
        kind = type(error) if isinstance(error, RechannelError) else TimestepError
        made = kind(
            f"{name} failed {self.failures + 1} times in {lasted / 1e3:,.0f} s, and no further retry is allowed."
            f" Start the job again when the cause is gone: {one_sentence(error)}"
        )
        made.__cause__ = error
        return made

    def holds(self, now_ms: float) -> bool:
        """Return whether the next retry is not due yet."""
        return self.due_ms is not None and now_ms < self.due_ms

    def well(self) -> bool:
        """Record a success. Returns whether there had been failures."""
        failed, self.failures, self.due_ms = self.failures > 0, 0, None
        return failed
