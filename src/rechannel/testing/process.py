"""The life of one driver: it opens the state directory, is stepped, and dies or is stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from rechannel.assembly import Parts
from rechannel.engine.control.host import ControlHost
from rechannel.engine.journal.entries import Closed
from rechannel.engine.journal.log import Journal
from rechannel.engine.loop.driver import Driver
from rechannel.engine.loop.housekeeping import sweep
from rechannel.engine.program.position import StreamPosition
from rechannel.engine.publish.publisher import Publisher
from rechannel.engine.reconfigure.opener import Opener
from rechannel.engine.reconfigure.reconfigurer import Reconfigurer
from rechannel.engine.reconfigure.switch import ProgramSwitch, offered_change
from rechannel.engine.stages.inprocess import InProcessRunner
from rechannel.errors import DamagedStateError, FencedError
from rechannel.reconfigure.arguments import strategy_of
from rechannel.reconfigure.edits import AnyChange, change_set
from rechannel.reconfigure.moment import EventMoment
from rechannel.reconfigure.requests import Request
from rechannel.reconfigure.strategies import Strategy
from rechannel.state.store import Store
from rechannel.threads import AtOnce

Choose = Callable[[int], int]
"""Of n things that may happen next, which one happens: (n) -> number below n."""


class StepExecutor(Executor):
    """Hold calls until a test runs them."""

    def __init__(self) -> None:
        """Hold nothing."""
        self._held: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Hold a call until it is made explicitly."""
        future: Future[Any] = Future()
        self._held.append((future, lambda: fn(*args, **kwargs)))
        return future

    def __len__(self) -> int:
        """How many calls are held."""
        return len(self._held)

    def run(self, number: int) -> bool:
        """Make a held call. What is no Exception (the process died) is raised here and now."""
        future, call = self._held.pop(number)
        if not future.set_running_or_notify_cancel():
            return True
        try:
            result = call()
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(result)
        return True


class StepThread:
    """A thread whose whole run is one call that an executor holds until a test makes it."""

    def __init__(
        self,
        executor: StepExecutor,
        *,
        target: Callable[..., Any],
        args: tuple[Any, ...] = (),
        **named: Any,
    ) -> None:
        """Take what it runs; nothing runs yet. named: what only real threads have."""
        del named
        self._begin = partial(executor.submit, target, *args)
        self._end: Future[Any] | None = None

    def start(self) -> None:
        """Hold the thread until it is run explicitly."""
        self._end = self._begin()

    def is_alive(self) -> bool:
        """Whether it is still held."""
        return self._end is not None and not self._end.done()

    def join(self, timeout: float | None = None) -> None:
        """Return at once: one thread does everything."""


class PromptExecutor(StepExecutor):
    """Makes every call as soon as it is given it."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Make a call."""
        future = super().submit(fn, *args, **kwargs)
        self.run(0)
        return future


class LateWriter(Executor):
    """Writes an entry at once, or when the journal waits for it: `choose` says which."""

    def __init__(self, choose: Choose, happened: Counter[str]) -> None:
        """happened: counts entries that waited ("late"), and those of them that are not written ("unwritten")."""
        self._choose, self._happened = choose, happened

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Make a call, or have the future make it."""
        if not self._choose(2):
            return AtOnce().submit(fn, *args, **kwargs)
        self._happened.update(("late", "unwritten"))
        return _Awaited(self._written, partial(fn, *args, **kwargs))

    def _written(self) -> None:
        self._happened["unwritten"] -= 1


class _Awaited(Future[Any]):
    """A future that makes its call when it is waited for."""

    def __init__(self, begun: Callable[[], None], call: Callable[[], Any]) -> None:
        super().__init__()
        self._begun, self._call = begun, call

    def result(self, timeout: float | None = None) -> Any:
        """Make the call, the first time. What is no Exception (the process died) is raised unchanged."""
        if not self.done():
            self._begun()
            made = AtOnce().submit(self._call)
            error = made.exception()
            self.set_result(made.result()) if error is None else self.set_exception(error)
        return super().result(timeout)


def _nobody_waits(due_ms: float) -> None:
    """Time passes when a test says so."""


class NoLease:
    """Keeps no driver out: a test starts another one whenever it likes."""

    def watch(self, entry: Callable[[], int]) -> None:
        """Give no signs."""

    def renew(self, fenced: Callable[[], FencedError | None]) -> None:
        """Give no sign."""

    def release(self) -> None:
        """Hold nothing."""


@dataclass(frozen=True, kw_only=True)
class Process:
    """One driver and what it needs. `Harness.start` makes it.

    wait_until: advances the monotonic clock to these milliseconds when the driver has nothing to do
    but to wait for its next retry.

    An error of the driver, of a sink or of a user's function is raised by the call that led to it,
    and ends the driver.
    """

    parts: Parts
    executor: StepExecutor
    choose: Choose = field(default=lambda _: 0)
    wait_until: Callable[[float], None] = _nobody_waits

    @property
    def store(self) -> Store:
        """The store as this driver sees it."""
        return self.parts.store

    @property
    def driver(self) -> Driver:
        """The loop of timesteps."""
        return self.parts.driver

    @property
    def position(self) -> StreamPosition:
        """Where the stream stands now: the test is in the driver's thread."""
        self.driver.publish()
        return self.driver.position

    @property
    def changes(self) -> Reconfigurer:
        """What reconfigures the stream."""
        return self.parts.changes

    @property
    def controllers(self) -> ControlHost:
        """The controllers."""
        return self.parts.controllers

    @property
    def journal(self) -> Journal:
        """The journal as this driver writes it."""
        return self.parts.journal

    @property
    def publisher(self) -> Publisher:
        """What shows committed timesteps."""
        return self.parts.publisher

    @property
    def switch(self) -> ProgramSwitch:
        """The version of the program that runs, and those that wait."""
        return self.parts.switch

    @property
    def opener(self) -> Opener:
        """How sources and sinks of another version are opened."""
        return self.parts.opener

    @property
    def runner(self) -> InProcessRunner:
        """What runs the tasks."""
        return cast("InProcessRunner", self.parts.runner)

    def step(self) -> bool:
        """Let one thing happen: a decision or a commit, a unit, a publication. False: nothing can.

        Where several can, `choose` picks one.
        """
        units = [lambda i=i: self.executor.run(i) for i in range(len(self.executor))]
        possible = [self.driver.step, *units, self.publisher.publish_next]
        first = self.choose(len(possible))
        if any(happens() for happens in possible[first:] + possible[:first]):
            return True
        due_ms = self.driver.position.next_try_ms
        if due_ms is None:
            return False
        self.wait_until(due_ms)  # what has failed is tried again then
        return self.driver.step() or self.driver.position.next_try_ms != due_ms

    def reconfigure(
        self,
        change: AnyChange | Sequence[AnyChange],
        strategy: Strategy | None = None,
        *,
        at: int | EventMoment | None = None,
        supersede: bool = False,
    ) -> str:
        """Ask for a change, as `RunningJob.reconfigure` does; its id. Raises RefusedError, UnknownOperatorError."""
        changes = change_set(change)
        with offered_change(
            changes, self.switch, self.opener, self.position, supersede=supersede
        ) as made:
            request = Request(
                change=made,
                strategy=strategy_of(strategy),
                at_timestep=at if isinstance(at, int) else None,
                at_event=at if isinstance(at, EventMoment) else None,
                supersede=supersede,
            )
            answer = self.changes.request(request)
            self.changes.answer_calls(self.position)
            return answer.result(0)

    def abort(self, id_: str) -> None:
        """End a reconfiguration, or lead it back. Raises RefusedError."""
        answer = self.changes.request_abort(id_, "aborted by a test")
        self.changes.answer_calls(self.position)
        answer.result(0)

    def run(self) -> None:
        """Step until nothing can happen: all input is committed and published."""
        while self.step():
            pass

    def stop(self) -> None:
        """Finish what is under way and close the journal, as stopping a job does."""
        self.driver.stop()
        self.run()
        self.journal.append(Closed(time_ms=0))

    def sweep(self) -> int:
        """Remove files that nothing names, as the driver does now and then; how many."""
        return sweep(
            self.parts.store,
            lambda: self.journal.state,
            self.publisher.oldest,
            lambda: self.switch.operators_to_come,
        )

    def straggle(self) -> bool:
        """Let one losing copy of a task end now; False when there is none."""
        if not self.runner.stragglers:
            return False
        late = self.runner.stragglers.pop(0)
        with suppress(
            DamagedStateError
        ):  # it may find what it reads swept: its result does not count
            late()
        return True
