"""Submit a job again when an executor is lost while tasks read from it.

Spark recovers by itself, and takes its time: on the cores that are left, tasks ask the lost executor for its rows,
fail, and take their Python workers along; 200 ms after the first of them Spark runs again what was lost, and then what
has failed. Where tasks have just begun, it is sooner to cancel the job and to submit it again: Spark then sees at once
which tasks of earlier stages it has to run again, and keeps what the others have sent.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from rechannel.engine.spark.jobs import Jobs
from rechannel.errors import one_sentence
from rechannel.logs import fields

_LOG = logging.getLogger("rechannel")

T = TypeVar("T")

RECENT_MS = 500.0
"""For how long tasks of a job may have run that is submitted again: what they have done is lost."""
MOST = 3
"""How often a job is submitted again; from then on Spark recovers."""
PATIENCE_S, PAUSE_S = 2.0, 0.02
"""For how long after a loss jobs are looked at, and how often: Spark notices what is missing a moment later."""


class TaggedJobs(Jobs, Protocol):
    """Names jobs, cancels them, and knows when their stages began."""

    def began(self, tag: str, place: int) -> float | None:
        """Return when a stage of the tag's job began, in Unix milliseconds; None if it has not, or has ended.

        place: of the stage among those of the job, in the order in which they run; -1 is the last one.
        """


class Input(Protocol):
    """An exchange that tasks read."""

    def incomplete(self) -> bool:
        """Return whether some of its rows are not there: not yet, or not any more."""


@dataclass
class _Running:
    """A job that a thread waits for."""

    inputs: Sequence[Input]
    place: int
    cancelled: bool = False
    """Whether it was, to be submitted again."""


@dataclass
class Resubmitting:
    """The jobs that may be submitted again."""

    jobs: TaggedJobs
    clock: Callable[[], float] = time.time
    """Seconds since 1970."""
    pause: Callable[[float], None] = time.sleep
    _running: dict[str, _Running] = field(default_factory=dict)
    """By tag."""
    _stops: int = 0
    _until: float = 0.0
    _looking: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, job: Callable[[], T], inputs: Sequence[Input], place: int = -1) -> T:
        """Run a job in this thread, and once more where it was cancelled here. Raises what it raises.

        inputs: what its last tasks read. place: of their stage, see `TaggedJobs.began`.
        """
        with self._lock:
            stops = self._stops
        for _ in range(MOST):
            tag = f"rechannel-{uuid.uuid4().hex}"
            running = _Running(inputs, place)
            try:
                self.jobs.tag(tag)
                with self._lock:
                    self._running[tag] = running
                return job()
            except Exception as error:
                with self._lock:
                    again = running.cancelled and self._stops == stops
                if not again:
                    raise
                _LOG.info(
                    "an executor was lost while tasks read from it: their job is submitted again: %s",
                    one_sentence(error),
                    extra=fields("job_resubmitted", reason=error),
                )
            finally:
                with self._lock:
                    self._running.pop(tag, None)
                self.jobs.untag(tag)
        return job()

    def stop(self) -> None:
        """Submit no job again that runs now: all of them are about to be cancelled for good."""
        with self._lock:
            self._stops += 1

    def lost(self, executors: Set[str]) -> None:
        """Look after the jobs that run, for some time: these executors have died, by their ids."""
        with self._lock:
            self._until = self.clock() + PATIENCE_S
            if self._looking or not executors:
                return
            self._looking = True
        threading.Thread(target=self._look, name="rechannel-resubmitting", daemon=True).start()

    def _look(self) -> None:
        try:
            while True:
                with self._lock:
                    running = dict(self._running)
                    if self.clock() >= self._until:
                        return
                for tag, job in running.items():
                    if not job.cancelled and self._is_to_run_again(tag, job):
                        self._cancel(tag, job)
                self.pause(PAUSE_S)
        except Exception as error:
            _LOG.debug(
                "jobs that read from lost executors are left to Spark: %s",
                one_sentence(error),
                extra=fields("job_not_resubmitted", reason=error),
            )
        finally:
            with self._lock:
                self._looking = False

    def _is_to_run_again(self, tag: str, job: _Running) -> bool:
        """Return whether its last tasks have just begun, and lack what was there when they began."""
        began = self.jobs.began(tag, job.place)
        recent = began is not None and self.clock() * 1e3 - began <= RECENT_MS
        return recent and any(each.incomplete() for each in job.inputs)

    def _cancel(self, tag: str, job: _Running) -> None:
        with self._lock:
            if tag not in self._running:
                return
            job.cancelled = True
        try:
            self.jobs.cancel(tag)
        except BaseException:
            job.cancelled = False
            raise
