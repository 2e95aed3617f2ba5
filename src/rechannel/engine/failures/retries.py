"""What has failed and is tried again: how often, since when, and when it is due."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from rechannel.engine.failures.blame import blame_of
from rechannel.errors import RechannelError, TimestepError, one_sentence
from rechannel.model.patience import Patience

_LOG = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Again:
    """Tries of one kind of thing; belongs to the driver's thread, and any thread may look.

    failures: in a row. total: ever since the driver started. due_ms: when the next try is. Times are of a clock that
    only passes.
    """

    patience: Patience
    failures: int = 0
    total: int = 0
    due_ms: float | None = None
    _since_ms: float = 0.0

    def failed(self, name: str, error: Exception, now_ms: float) -> float:
        """Milliseconds until the next try.

        name: of what failed this time. Raises the error where it is not known to pass, and where patience is
        exhausted.
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
            "%s failed for reasons of the %s (%d in a row) and is tried again in %.1f s: %s",
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
            f"{name} failed {self.failures + 1} times in {lasted / 1e3:,.0f} s, which is all the patience that the"
            f" settings have; when the cause is gone, start the job again: {one_sentence(error)}"
        )
        made.__cause__ = error
        return made

    def holds(self, now_ms: float) -> bool:
        """Whether the next try has still to wait."""
        return self.due_ms is not None and now_ms < self.due_ms

    def well(self) -> bool:
        """It has succeeded; whether it had failed before."""
        failed, self.failures, self.due_ms = self.failures > 0, 0, None
        return failed
