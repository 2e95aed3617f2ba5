"""What follows when a sink fails: another attempt, dead letters, quarantine, or the end of the job.

`sinks/failure.py` defines what a policy says; this carries it out.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from rechannel.engine.failures.frames import let_go
from rechannel.engine.failures.stopping import Stopping
from rechannel.engine.publish.lane import Lane, Work, one_line
from rechannel.engine.publish.quarantining import Quarantining
from rechannel.errors import FencedError, StorageError
from rechannel.logs import fields
from rechannel.sinks.failure import Verdict, fatal
from rechannel.telemetry.troubles import Trouble

_LOG = logging.getLogger("rechannel")


def nothing() -> None:
    """Wake no driver."""


@dataclass(slots=True, kw_only=True)
class Gate:
    """What the threads of all lanes wait for."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    """Guards the lanes, and tells that something about them has changed."""
    threaded: bool = False
    """Whether each lane publishes in a thread of its own."""
    closed: bool = False
    """Whether no further attempt begins."""
    wake: Callable[[], None] = nothing
    """Has the driver look, which may wait for a sink to have room."""


class Failures:
    """Carries out the failure policies of all sinks. Any thread of a lane may call it."""

    def __init__(
        self, *, gate: Gate, quarantining: Quarantining, stopping: Stopping, trouble: Trouble
    ) -> None:
        """stopping: bounds attempts once the job is to end. trouble: receives sinks that fail and are retried."""
        self._gate, self._quarantining = gate, quarantining
        self._stopping, self._trouble = stopping, trouble
        stopping.on_asked(self._wake)

    def meet(self, lane: Lane, work: Work, raised: BaseException) -> None:
        """Apply the failure policy of the sink. Raises the error if that is to stop the job, or the job has ended."""
        error = _believed(lane.meant(raised, work.batch), lane)
        verdict = lane.judged(error)
        if self._gate.closed:
            raise error
        if verdict is Verdict.RETRY:
            let_go(raised)  # a client that was given up: the error may stay for minutes
            if not self.waited(lane, lane.failures, error) and not self._put_off(lane):
                raise error
            # A client that tries again may shut out the driver that has replaced this one.
            gone: FencedError | None = None
            with suppress(StorageError):
                gone = lane.journal.fenced()
            if gone is not None:
                raise gone from error
            return
        buried = False
        if verdict is Verdict.DEAD_LETTER:
            try:
                buried = lane.bury(work, error)
            except Exception as failed:
                # The place of dead letters fails, or the sink, which is asked what it has.
                self._again(lane, lane.meant(failed, work.batch))
                return
        if buried:
            self._trouble(f"sink {lane.name}", None)
            with self._gate.changed:
                lane.done()
                self._gate.changed.notify_all()
            self._gate.wake()
            return
        if lane.leaving and not fatal(error):
            self.give_up(lane, f"the sink was removed and cannot write: {one_line(error)}")
        elif verdict is Verdict.SKIP:
            self._quarantine(lane, work, error)
        else:
            raise error

    def _again(self, lane: Lane, error: BaseException) -> None:
        """Let a sink whose rows could not become dead letters try again. Raises errors that end the job."""
        lane.trouble = one_line(error)
        if fatal(error) or not (self.waited(lane, lane.failures, error) or self._put_off(lane)):
            raise error

    def waited(self, lane: Lane, failures: int, error: BaseException) -> bool:
        """Pause before the next attempt. Returns False if there is none, because the job ends."""
        if not self._gate.threaded:
            return lane.policy.then != "stop"
        self._trouble(f"sink {lane.name}", error)
        left, asked = self._stopping.left(), self._stopping.asked
        pause = min(lane.policy.pause(failures) / 1e3, left, threading.TIMEOUT_MAX)
        if left <= 0:
            return False
        with self._gate.changed:
            self._gate.changed.wait_for(
                lambda: self._gate.closed or self._stopping.asked != asked, pause
            )
            return not self._gate.closed

    def _put_off(self, lane: Lane) -> bool:
        """Leave what a sink owes to the next start, if the job stops and the sink's policy is not to stop it."""
        if lane.policy.then == "stop" or not self._stopping.asked:
            return False
        with self._gate.changed:
            if self._gate.closed:
                return False
            lane.put_off = True
            self._emptied(lane)
        _LOG.warning(
            "the job stops while sink %r still owes timesteps: %s",
            lane.name,
            lane.trouble,
            extra=fields("sink_put_off", sink=lane.name, reason=lane.trouble),
        )
        return True

    def _wake(self) -> None:
        """End all pauses before further attempts."""
        with self._gate.changed:
            self._gate.changed.notify_all()

    def _quarantine(self, lane: Lane, work: Work, error: BaseException) -> None:
        reason = one_line(error)
        self._quarantining.put_in(lane, work.batch.timestep, reason)
        with self._gate.changed:
            lane.quarantine, leaving = reason, lane.leaving
            self._emptied(lane)
        if leaving:  # it was removed meanwhile, and was in no quarantine then
            self.give_up(lane, f"the sink was removed in quarantine ({reason})")
            self._quarantining.let_out(lane)

    def give_up(self, lane: Lane, reason: str) -> None:
        """Give up what a sink owes."""
        lane.give_up(reason)
        self._emptied(lane)

    def _emptied(self, lane: Lane) -> None:
        with self._gate.changed:
            lane.work.clear()
            self._gate.changed.notify_all()
        self._gate.wake()


def _believed(error: BaseException, lane: Lane) -> BaseException:
    """Return an error after which the sink tries again, if its place reports another driver and the journal knows none.

    That driver is one that this driver has replaced: it took the place for a moment before it noticed.
    """
    if isinstance(error, FencedError):
        with suppress(StorageError):
            if lane.journal.fenced() is None:
                again = StorageError(f"{one_line(error)}; no other driver has the state directory")
                again.__cause__ = error
                return again
    return error
