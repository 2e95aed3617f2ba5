"""The thread that keeps a dataset tidy beside its publishing, at a bounded rate."""

from __future__ import annotations

import logging
import threading
import time

from rechannel.errors import FencedError, one_sentence
from rechannel.logs import fields
from rechannel.sinks.dataset.compacting import Compaction, StoppedError
from rechannel.threads import daemon_thread

_LOG = logging.getLogger("rechannel")

PAUSE_SECONDS = 10.0
"""Between two looks if no timestep comes."""
LONGEST_PAUSE_SECONDS = 300.0
"""Between two attempts if the store fails."""
CLOSING_SECONDS = 5.0
"""How long the end of a sink waits for the thread. A merge that is given up leaves files to the next driver."""


class Pace:
    """A bound of bytes per second, and an end."""

    def __init__(self, rate: int) -> None:
        """rate: bytes per second."""
        self._rate = rate
        self._free_at = time.monotonic()
        self.ended = threading.Event()

    def spend(self, size: int) -> None:
        """Wait until these bytes may be read. Raises StoppedError once there is an end."""
        now = time.monotonic()
        waits = self._free_at - now
        self._free_at = max(now, self._free_at) + size / self._rate
        if self.ended.wait(max(0.0, waits)):
            raise StoppedError


class Background:
    """Takes the steps of a compaction, one after the other."""

    def __init__(self, compaction: Compaction, pace: Pace, name: str, tidy_seconds: float) -> None:
        """tidy_seconds: between two looks for files that no reader needs."""
        self._compaction, self._pace, self._name = compaction, pace, name
        self._tidy_seconds = tidy_seconds
        self._woken = threading.Event()
        self._thread = daemon_thread(self._run, f"rechannel-compact-{name}")

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Look for something to do now."""
        self._woken.set()

    def close(self) -> None:
        """End, after the file that is read or written."""
        self._pace.ended.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(CLOSING_SECONDS)

    def _run(self) -> None:
        failures, swept, tidied = 0, False, 0.0
        while not self._pace.ended.is_set():
            self._woken.clear()
            try:
                if not swept:
                    self._compaction.sweep()
                    swept = True
                if time.monotonic() - tidied >= self._tidy_seconds:
                    self._compaction.tidy()
                    tidied = time.monotonic()
                if not self._compaction.step():
                    self._woken.wait(min(PAUSE_SECONDS, self._tidy_seconds))
                failures = 0
            except StoppedError:
                return
            except FencedError as error:
                _LOG.warning(
                    "dataset %s is compacted no longer: %s",
                    self._name,
                    one_sentence(error),
                    extra=fields("compaction_ended", dataset=self._name, reason=error),
                )
                return
            except Exception as error:
                failures += 1
                _LOG.warning(
                    "dataset %s was not compacted: %s",
                    self._name,
                    one_sentence(error),
                    extra=fields(
                        "compaction_failed", dataset=self._name, reason=error, failures=failures
                    ),
                )
                self._pace.ended.wait(min(LONGEST_PAUSE_SECONDS, 0.5 * 2 ** min(failures, 20)))
