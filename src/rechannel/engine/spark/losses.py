"""Begin a job anew when an executor is lost while tasks read an exchange.

Spark comes round by itself, and takes its time: on the cores that are left, tasks ask the lost executor for its rows,
fail, and take their Python workers along; 200 ms after the first of them Spark runs again what was lost, and then what
has failed. Where tasks have just begun, it is sooner to end the job and ask for it again: Spark then sees at once which
tasks of earlier stages it has to run again, and keeps what the others have sent.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from rechannel.errors import one_sentence
from rechannel.logs import fields

_LOG = logging.getLogger("rechannel")

T = TypeVar("T")

RECENT_MS = 500.0
"""For how long tasks may have read an exchange that begin anew: what they have done is lost."""
MOST = 3
"""How often a job begins anew; from then on Spark sees to it."""


class Readers(Protocol):
    """Names jobs, and knows which of them read an exchange."""

    def tag(self, tag: str) -> None:
        """Add a tag to the jobs that this thread starts."""

    def untag(self, tag: str) -> None:
        """Remove a tag."""

    def cancel(self, tag: str) -> None:
        """Cancel the tag's jobs."""

    def reading_since(self, tag: str) -> float | None:
        """Return since when tasks of the tag's jobs have read an exchange, in Unix milliseconds; None if none does."""


@dataclass
class Losses:
    """The jobs that may begin anew."""

    jobs: Readers
    clock: Callable[[], float] = time.time
    """Seconds since 1970."""
    _running: dict[str, bool] = field(default_factory=dict)
    """By tag of a job: whether it was ended to begin anew."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, job: Callable[[], T]) -> T:
        """Run a job in this thread, and again where it was ended here. Raises what it raises."""
        for _ in range(MOST):
            tag = f"rechannel-{uuid.uuid4().hex}"
            with self._lock:
                self._running[tag] = False
            self.jobs.tag(tag)
            try:
                return job()
            except Exception as error:
                with self._lock:
                    ended = self._running[tag]
                if not ended:
                    raise
                _LOG.info(
                    "an executor was lost while tasks asked it for rows: the job of Spark begins anew: %s",
                    one_sentence(error),
                    extra=fields("job_begins_anew", reason=error),
                )
            finally:
                self.jobs.untag(tag)
                with self._lock:
                    self._running.pop(tag)
        return job()

    def lost(self, executors: Set[str]) -> None:
        """End the jobs whose tasks have just begun to read an exchange."""
        with self._lock:
            tags = list(self._running)
        for tag in tags:
            since = self.jobs.reading_since(tag)
            if since is None or self.clock() * 1e3 - since > RECENT_MS:
                continue
            with self._lock:
                if tag not in self._running:
                    continue
                self._running[tag] = True
            self.jobs.cancel(tag)
