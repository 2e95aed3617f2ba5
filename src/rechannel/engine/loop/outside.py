"""What the commands of the loop are carried out on: every collaborator of one driver, as a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, Queue

from rechannel.engine.control.host import ControlHost
from rechannel.engine.journal.log import Journal
from rechannel.engine.loop.core.events import UnitDone, UnitFailed
from rechannel.engine.loop.core.inline import Choice
from rechannel.engine.loop.core.state import LoopState, position_of
from rechannel.engine.loop.draining import Draining
from rechannel.engine.loop.listener import Listener
from rechannel.engine.loop.published import PublishedPosition
from rechannel.engine.loop.source_tracker import SourceTracker
from rechannel.engine.program.position import StreamPosition
from rechannel.engine.publish.publisher import Publisher
from rechannel.engine.reconfigure.history import History
from rechannel.engine.reconfigure.measured import Measured
from rechannel.engine.reconfigure.reconfigurer import Reconfigurer
from rechannel.engine.reconfigure.switch import ProgramSwitch
from rechannel.engine.stages.runner import Runner

CameBack = UnitDone | UnitFailed


class DriverInbox:
    """What other threads leave for the driver's: units that came back, errors that end it, or a wish that it looks."""

    def __init__(self) -> None:
        """Hold nothing."""
        self._queue: Queue[CameBack | BaseException | None] = Queue()

    def put(self, item: CameBack | BaseException) -> None:
        """Leave a unit, or an error that ends the driver."""
        self._queue.put(item)

    def wake(self) -> None:
        """Have the driver look around."""
        self._queue.put(None)

    def take(self) -> list[CameBack]:
        """Take everything there is; does not wait. Raises an error that was left."""
        units: list[CameBack] = []
        while True:
            try:
                item = self._queue.get_nowait()
            except Empty:
                return units
            if isinstance(item, BaseException):
                raise item
            if item is not None:
                units.append(item)

    def wait(self, at_most_ms: float | None) -> list[CameBack]:
        """Wait for something; return what it is if it is a unit. Raises an error that was left."""
        try:
            item = self._queue.get(timeout=None if at_most_ms is None else at_most_ms / 1e3)
        except Empty:
            return []
        if isinstance(item, BaseException):
            raise item
        return [] if item is None else [item]


@dataclass(frozen=True, kw_only=True)
class Outside:
    """The collaborators of one driver."""

    journal: Journal
    switch: ProgramSwitch
    runner: Runner
    choose: Choice
    publisher: Publisher
    sources: SourceTracker
    changes: Reconfigurer
    controllers: ControlHost
    measured: Measured
    history: History
    listener: Listener
    draining: Draining
    inbox: DriverInbox
    published: PublishedPosition
    sweep: Callable[[Callable[[], int | None]], None]
    """Counts a commit, and removes files now and then. The argument: the oldest timestep that a sink has to read."""
    clock: Callable[[], float]
    """Unix milliseconds."""
    waits: Callable[[], float]
    """Milliseconds that pass, by which what has failed waits for its next try."""

    def position(self, state: LoopState, stream_ms: int | None = None) -> StreamPosition:
        """Return where the stream stands. stream_ms: time of the stream; None = now."""
        if stream_ms is None:
            stream_ms = self.sources.stream_ms()
        return position_of(state, stream_ms, self.changes.coordination)
