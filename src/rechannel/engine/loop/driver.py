"""The driver: asks the loop what to do (`core/step.py`, pure), and has it carried out (`hands.py`).

    sources --> intent --> units, as the schedule allows --> commit --> publish --> published
               journalled                                  journalled               journalled

One thread runs it and is the only one that writes to the journal's order of timesteps; units run in a pool; sinks
publish in threads of their own, so that a slow one delays no timestep until the backlog is full. What other threads see
of it is the position that it publishes once per turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor

from rechannel.engine.failures.closing import (
    GONE_SECONDS,
    SECONDS,
    ClosingStep,
    close_all,
    reason_of,
)
from rechannel.engine.failures.stopping import Stopping
from rechannel.engine.journal.entries import Closed
from rechannel.engine.loop.core.commands import WORK, AwaitEvent, Command
from rechannel.engine.loop.core.events import (
    Begin,
    ChangesAnswered,
    Commit,
    Event,
    Open,
    Rest,
    Start,
)
from rechannel.engine.loop.core.state import LoopState
from rechannel.engine.loop.core.step import step
from rechannel.engine.loop.hands import Hands
from rechannel.engine.loop.outside import CameBack, Outside
from rechannel.engine.loop.recovering import recovered
from rechannel.engine.program.position import StreamPosition
from rechannel.sources.reader import explained

CHANGED = ChangesAnswered(happened=True)


class Driver:
    """Runs one dataflow on one state directory. `run` is the body of its thread."""

    def __init__(
        self,
        outside: Outside,
        state: LoopState,
        *,
        stopping: Stopping,
        executor: Executor | None = None,
    ) -> None:
        """Take the parts; nothing runs yet.

        state: before it has recovered. stopping: what all who try again look at. executor: runs units; None = this
        thread and a pool.
        """
        self._out, self._state = outside, state
        self._hands = Hands(outside, executor)
        self._stopping = stopping
        self._came: list[CameBack] = []
        self._worked = False
        self.finished = threading.Event()
        self.error: BaseException | None = None

    # What other threads may call -----------------------------------------------------------------

    @property
    def position(self) -> StreamPosition:
        """Where the stream stood at the end of the last turn."""
        return self._out.published.position

    def wait_for(
        self, reached: Callable[[StreamPosition], bool], timeout: float | None = None
    ) -> bool:
        """Wait for a position, or for the end of the driver. False after `timeout` seconds."""
        return self._out.published.wait_for(reached, timeout)

    def stop(self) -> None:
        """Finish the timesteps in flight, publish them, and end; what fails has few tries left."""
        self._stopping.ask()
        self._out.inbox.wake()

    @property
    def stopping(self) -> bool:
        """Whether it was asked to stop, or has ended."""
        return self._stopping.asked

    def drain(self, timeout: float | None = None) -> bool:
        """Wait until everything that sources had when this was called is committed and published. False on time-out.

        What then moves without a timestep is waited for as well.
        """
        return self._out.draining.wait(self.finished.is_set, timeout)

    def fail(self, error: BaseException) -> None:
        """End with this error, as soon as the loop looks."""
        self._out.inbox.put(error)

    def abandon(self, error: BaseException) -> None:
        """Tell everybody that it is over, even if the driver's own thread hangs."""
        self.error = self.error or error
        self._out.publisher.shut()
        self._finish()

    def gone(self) -> str | None:
        """Why nothing can run any more, in a sentence; None while it can."""
        return self._out.runner.gone()

    def starved(self) -> str | None:
        """Why no task can begin now, in a sentence; None if that is not so or not known."""
        return self._out.runner.starved()

    # The loop ------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until stopped or failed; `error` then says why."""
        try:
            self._out.publisher.start()
            self.recover()
            while self._state.in_flight or not self._stopping.asked:
                self._turn()
            self._out.publisher.drain()
            self._out.history.finish()
            self._out.journal.append(Closed(time_ms=int(self._out.clock())))
        except BaseException as error:
            self._stopping.ask()  # what is asked of the store from here on must not take its patience again
            known = explained(error, self._out.sources.readers.values())
            reason = known or reason_of(error, self._out.journal.fenced, self._out.runner.gone)
            self.error = self.error or reason
        finally:
            self._close()

    def recover(self) -> None:
        """Take up what an earlier driver left."""
        self._state = recovered(self._state, self._out)
        self.publish()

    def publish(self) -> None:
        """Publish where the stream stands now. The driver's thread does, once per turn."""
        self._out.published.publish(self._out.position(self._state))

    def step(self) -> bool:
        """Take a turn without waiting. Returns whether to take another one at once.

        `run` is this in a loop with waiting in between; a test kit calls `recover` once and then this, with an
        `executor` that it drives itself.
        """
        came, self._came = [*self._came, *self._out.inbox.take()], []
        self._worked = bool(came)
        for event in came:
            self._react(event)
        self._react(Begin(stopping=self._stopping.asked))
        self._react(Open(at_ms=self._out.waits()))
        self._react(Start())
        self._react(Commit())
        self.publish()
        return self._worked or self._state.moving

    def _react(self, event: Event) -> None:
        """Have everything carried out that follows from an event; an answer comes before the next command."""
        self._state, commands = step(self._state, event)
        agenda: list[Command] = [*reversed(commands)]  # the next one is the last
        while agenda:
            command = agenda.pop()
            answer = self._hands.carry_out(command, self._state)
            if type(command) in WORK:
                self._worked = True
            if answer is not None:
                self._worked = self._worked or answer == CHANGED
                self._state, commands = step(self._state, answer)
                agenda += reversed(commands)

    def _turn(self) -> None:
        """Take a turn, and wait where there was nothing to do."""
        asked, out = self._out.draining.asked, self._out
        # A stream that is idle while something moves looks at its sources as often as any other idle one.
        if self.step() and not self._state.moving:
            return
        rest = Rest(
            asked=asked,
            fetching=out.changes.fetching,
            published=out.publisher.idle(),
            wall_ms=out.clock(),
            polled_ms=out.sources.polled_ms,
        )
        self._state, commands = step(self._state, rest)
        for command in commands:
            if isinstance(command, AwaitEvent):
                self._came = out.inbox.wait(command.at_most_ms)
            else:
                self._hands.carry_out(command, self._state)

    # The end -------------------------------------------------------------------------------------

    def _close(self) -> None:
        error, out = self.error, self._out
        steps: list[ClosingStep] = []
        if error is not None:
            steps += [
                ("the timesteps in flight", lambda: self._report_failed(error)),
                ("Spark's jobs", out.runner.cancel),
            ]
        steps += [
            (
                "the units that run",
                lambda: self._hands.shut_down(None if error is None else out.runner.cancel),
            ),
            ("the sinks", out.publisher.close),
            ("the runner", out.runner.close),
            ("the sources", out.sources.close),
            ("the journal", out.journal.close),
        ]
        try:
            gone = error is not None and out.runner.gone() is not None
            close_all(steps, GONE_SECONDS if gone else SECONDS)
        finally:
            self._finish()

    def _report_failed(self, error: BaseException) -> None:
        for number in self._state.in_flight:
            self._out.listener.failed(number, error)

    def _finish(self) -> None:
        self.finished.set()
        parts: list[ClosingStep] = [
            ("what was asked for", self._out.changes.close),
            ("the controllers", self._out.controllers.close),
        ]
        close_all(parts, GONE_SECONDS)
        self._out.draining.over()
        self._out.published.wake()
