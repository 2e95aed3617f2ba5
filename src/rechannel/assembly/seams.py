"""What an assembly needs from outside: where a driver touches the world, and how it is to start."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

from rechannel.control.controller import Installation
from rechannel.engine.failures.stopping import Stopping
from rechannel.engine.journal.entries import Opened
from rechannel.engine.loop.housekeeping import Thread
from rechannel.engine.program.starting import ProgramStart
from rechannel.engine.reconfigure.cluster import Cluster
from rechannel.engine.reconfigure.opener import Opener, Ready
from rechannel.engine.reconfigure.preparer import Preparer
from rechannel.engine.reconfigure.switch import ProgramSwitch
from rechannel.engine.stages.runner import Runner
from rechannel.engine.stages.sink_rows import RowsOf
from rechannel.engine.view.state_view import Scan
from rechannel.errors import FencedError
from rechannel.model.configuration import Configuration
from rechannel.settings import Settings
from rechannel.sinks.claims import Ledger
from rechannel.state.store import Store
from rechannel.telemetry.hub import Hub

Clock = Callable[[], float]


class LeaseLike(Protocol):
    """What keeps a second driver out of a state directory."""

    def watch(self, entry: Callable[[], int]) -> None:
        """See `Lease.watch`."""

    def renew(self, fenced: Callable[[], FencedError | None]) -> None:
        """See `Lease.renew`."""

    def release(self) -> None:
        """See `Lease.release`."""


class Stamp(Protocol):
    """Makes the entry with which a driver takes over."""

    def __call__(self, *, fingerprint: str, time_ms: int, id: str) -> Opened:  # noqa: A002 - the entry's word
        """See `this_driver.this_opened`."""


class Bearing(Protocol):
    """Makes the view of a store through which the journal is written once the driver is open."""

    def __call__(
        self,
        store: Store,
        stopping: Stopping,
        tell: Callable[[BaseException | None], None],
        /,
    ) -> Store:
        """stopping: bounds how long a call is repeated. tell: called with outages, and with None at their end."""


@dataclass(frozen=True, kw_only=True)
class Seams:
    """Where a driver touches what is outside of it.

    A job's are in `job_seams.py`, a harness's in `testing/harness.py`.
    """

    store: Store
    clock: Clock
    """Unix milliseconds."""
    steady: Clock | None
    """Milliseconds that pass, whatever is done to the clock; None = the clock."""
    waits: Clock | None
    """Milliseconds, by which what has failed waits for its next try; None = as `steady`."""
    ids: Callable[[], str]
    """Makes words that are unique for ever: of owners and openings."""
    stamp: Stamp
    acquire: Callable[[bool], LeaseLike]
    """Takes the lease. The argument: whether to take it over from a driver that is awake."""
    opener: Callable[[Callable[[], str], Callable[[], Ledger]], Opener]
    """How sources and sinks are opened. The arguments: who claims paths, and what the journal knows of them."""
    cluster: Callable[[], Cluster]
    engine: Callable[[Ready, Cluster], tuple[Runner, RowsOf]]
    """What runs the stages of a program, and how its sinks read rows."""
    preparer: Callable[[ProgramSwitch, Cluster, Runner], Preparer]
    hub: Callable[[Configuration, int], Hub]
    """Opens telemetry. The arguments: the first Configuration, and the next timestep."""
    bearing: Bearing
    scan: Scan | None = None
    """Reads state for `job.state`; None = as an Arrow table."""
    executor: Executor | None = None
    """Runs units and preparations; None = the driver's thread, and pools of its own."""
    journal_writer: Executor | None = None
    """Writes intents; None = the driver's thread."""
    journal_cleaner: Executor | None = None
    """Deletes old entries of the journal; None = the driver's thread."""
    signs: Callable[[Callable[[], None]], AbstractContextManager[object]] = nullcontext
    """Calls again and again, while a driver opens, what renews its lease."""
    thread: Callable[..., Thread] = threading.Thread
    """Makes the thread of a sweep."""
    sweep_every: int
    """Commits from one sweep of files to the next."""
    deletes: int = 1
    """Files that a sweep deletes side by side."""
    configure: Callable[[Configuration], Configuration] = lambda first: first
    """Changes the Configuration that a new job starts with."""
    sized: Callable[[Settings], Settings] = lambda settings: settings
    """Fills in bounds of bytes by the memory that there is."""
    session: Any = None
    """The Spark session, if there is one."""


@dataclass(frozen=True, kw_only=True)
class Start(ProgramStart):
    """What a user permits at a start. See `Job.start`."""

    takeover: bool = False
    """Take the state directory from a driver that is awake."""
    replan: bool = False
    """Plan timesteps anew that were planned and not committed."""
    remove_later_output: bool = False
    """Remove published timesteps that the state directory does not know."""
    controllers: Mapping[str, Installation] = field(default_factory=dict)
    """The program's controllers, by name."""
