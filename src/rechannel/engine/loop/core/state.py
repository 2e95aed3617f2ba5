"""What the loop knows: one frozen value, from which everything it does next is decided. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from rechannel.engine.failures.retries import Retries
from rechannel.engine.loop.core.pace import Pace
from rechannel.engine.loop.core.schedule import Needs, Schedule
from rechannel.engine.program.physical import PhysicalPlan
from rechannel.engine.program.position import StreamPosition
from rechannel.engine.stages.runner import Timestep
from rechannel.kernels.protocol.program import BroadcastState
from rechannel.kernels.tasks.unit_report import UnitReport
from rechannel.model.bad_rows import Pasts
from rechannel.model.configuration import Configuration
from rechannel.model.eventtime import Times
from rechannel.model.hashspace import Intervals
from rechannel.reconfigure.coordination import Coordination
from rechannel.sources.backlog import Backlog
from rechannel.state.manifest import Edit, Manifest
from rechannel.state.merging import MergePolicy

BRISK_MS = 250.0
"""A unit of a timestep that takes longer has a thread of its own, so that the driver goes on to answer others."""


WAKEFUL_MS = 1_000.0
"""The longest sleep of the driver while units run: controllers that go by time, and lost executors, do not wait."""


class InFlight(Struct, frozen=True, kw_only=True):
    """A timestep that was decided and is not committed."""

    timestep: Timestep
    began_ms: float
    """When its decision began, Unix milliseconds."""
    decided_ms: float
    """When its intent was in the journal."""
    moved: float = 0.0
    """Bytes of state that moved at its boundary, as estimated."""
    rewrite: Mapping[str, Intervals] = field(default_factory=dict)
    """By operator, hashes whose state it writes anew."""
    reports: tuple[UnitReport, ...] = ()
    edits: Mapping[str, Edit] = field(default_factory=dict)
    """By operator that has finished it, what becomes of its manifest."""
    times: Mapping[str, Times] = field(default_factory=dict)
    """By operator that has finished it, its event time."""
    seen: Mapping[str, int] = field(default_factory=dict)
    """By input, the latest event time that its tasks have seen."""
    broadcasts: Mapping[str, BroadcastState] = field(default_factory=dict)
    """By operator that has finished it and is a broadcast input of others, its state."""
    backlogs: Mapping[str, Backlog] = field(default_factory=dict)
    """By source that can tell, what it leaves unread."""


class Operators(Struct, frozen=True, kw_only=True):
    """State of all operators, as the units that have come back leave it."""

    manifests: Mapping[str, Manifest] = field(default_factory=dict)
    times: Mapping[str, Times] = field(default_factory=dict)
    first_timers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By operator and segment that a task looked at: the first time that one of its rows waits for."""
    first_processing: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The same of processing time, of operators that go by both."""

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Return rows and bytes in the runs of every operator."""
        return {name: manifest.size for name, manifest in self.manifests.items()}


class Rules(Struct, frozen=True, kw_only=True):
    """Settings that the loop goes by."""

    merging: MergePolicy
    task_bytes: int
    """That a task may hold at once."""
    poll_ms: float
    """How long an idle loop sleeps at least."""
    catch_up: bool = False
    """Whether rows that a timestep leaves unread shorten the interval."""


class LoopState(Struct, frozen=True, kw_only=True):
    """Where the loop of one driver is."""

    rules: Rules
    plan: PhysicalPlan
    configuration: Configuration
    """What the next timestep runs under."""
    last: int
    """The last timestep that was intended; 0 before the first."""
    schedule: Schedule
    operators: Operators = field(default_factory=Operators)
    in_flight: Mapping[int, InFlight] = field(default_factory=dict)
    """By number, oldest first."""
    replay: tuple[Timestep, ...] = ()
    """Timesteps that were intended and have to run again, oldest first."""
    pace: Pace = field(default_factory=Pace)
    timesteps: Retries
    """Retries of timesteps that failed."""
    looks: Retries
    """Retries of looks at what lies outside: sources, and the store before a switch of programs."""
    halted: bool = False
    """Whether a timestep has failed and units have still to come back before it runs again."""
    stopping: bool = False
    seen_all: bool = False
    """Whether the sources had nothing new in this turn."""
    brisk: bool = False
    """Whether the last timestep took so little time that the driver itself may run a unit meanwhile."""
    bad_rows: Pasts = field(default_factory=dict)
    """What operators with a bound counted in the latest committed timesteps."""
    moving: bool = False
    """Whether a change goes on without timesteps: another look brings it further."""

    @property
    def drained(self) -> bool:
        """Whether no timestep is in flight or has to run again."""
        return not self.in_flight and not self.replay

    @property
    def full(self) -> bool:
        """Whether as many timesteps are in flight as the Configuration admits."""
        return len(self.in_flight) >= self.configuration.in_flight

    @property
    def tries(self) -> int:
        """How often something has failed and was tried again."""
        return self.timesteps.total + self.looks.total

    @property
    def next_try_ms(self) -> float | None:
        """When the next try is of what has failed; None = nothing has."""
        due = (self.timesteps.due_ms, self.looks.due_ms)
        return min((at for at in due if at is not None), default=None)

    def holds(self, steady_ms: float) -> bool:
        """Return whether nothing may begin: something has still to come back, or to wait for its next try."""
        return self.halted or self.timesteps.holds(steady_ms) or self.looks.holds(steady_ms)

    def follow(
        self,
        plan: PhysicalPlan,
        manifests: Mapping[str, Manifest],
        times: Mapping[str, Times],
    ) -> LoopState:
        """Return the state that goes by a plan, from committed state on. Nothing is in flight."""
        return replace(
            self,
            plan=plan,
            schedule=schedule_of(plan),
            operators=Operators(manifests=manifests, times=times),
        )


def schedule_of(plan: PhysicalPlan) -> Schedule:
    """Return the schedule of a plan, with nothing in flight."""
    return Schedule(
        {
            stage.name: Needs(stages=stage.needs, stateful=stage.logic is not None)
            for stage in plan.stages
        }
    )


def position_of(state: LoopState, stream_ms: int, coordination: Coordination) -> StreamPosition:
    """Return where the stream stands. stream_ms: its time. coordination: as the journal has it."""
    times = state.operators.times
    return StreamPosition(
        timestep=state.last + 1,
        time_ms=stream_ms,
        configuration=state.configuration,
        drained=state.drained,
        event_times={
            stage.name: times.get(stage.name, Times()).watermark
            for stage in state.plan.stages
            if stage.times and not any(each.processing and not each.beside for each in stage.times)
        },
        coordination=coordination,
        manifests=state.operators.manifests,
        tries=state.tries,
        next_try_ms=state.next_try_ms,
    )
