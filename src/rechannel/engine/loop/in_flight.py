"""Timesteps under way: which units of them run, what came back, and what state is meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from rechannel.engine.loop.schedule import Needs, Schedule, Unit
from rechannel.engine.program.physical import PhysicalPlan, Stage
from rechannel.engine.program.steps import edit_of, rowless, stage_step, states_of, timed, times_of
from rechannel.engine.stages.runner import Runner, Timestep
from rechannel.errors import TimestepError
from rechannel.kernels.protocol.program import TASK_BYTES
from rechannel.kernels.tasks.report import TaskReport
from rechannel.model.eventtime import Clock, Times
from rechannel.model.hashspace import Intervals
from rechannel.state.manifest import Edit, Manifest
from rechannel.state.merging import MergePolicy

MOST_IN_FLIGHT = 64


@dataclass(kw_only=True)
class InFlight:
    """A timestep under way.

    moved: bytes of state that moved at its border, as estimated. rewrite: hashes whose state it writes anew. times: of
    operators that have finished it. seen: latest event times that its tasks have told of.
    """

    decided: Timestep
    began_ms: float
    decided_ms: float
    moved: float = 0.0
    rewrite: Mapping[str, Intervals] = field(default_factory=dict)
    reports: list[TaskReport] = field(default_factory=list)
    edits: dict[str, Edit] = field(default_factory=dict)
    times: dict[str, Times] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Done:
    """A unit came back."""

    unit: Unit
    reports: list[TaskReport]


@dataclass(frozen=True)
class Failed:
    """A unit came back without having done its work."""

    unit: Unit
    error: Exception


CameBack = Done | Failed


class InFlights:
    """Timesteps under way; belongs to the driver's thread, units run in a pool."""

    def __init__(
        self,
        *,
        runner: Runner,
        policy: MergePolicy,
        executor: Executor | None,
        came_back: Callable[[CameBack | BaseException], None],
        memory: int | None = None,
    ) -> None:
        """executor: runs units; None = the calling thread where only one can run, and a pool of its own.

        came_back: told of units that ran elsewhere, in their threads. memory: bytes that a task may hold at once.
        """
        self._runner = runner
        self._policy = policy
        self._memory = memory or TASK_BYTES
        self._executor = executor
        self._pool: ThreadPoolExecutor | None = None
        self._came_back = came_back
        self._flights: dict[int, InFlight] = {}
        self._halted = False
        self.manifests: dict[str, Manifest] = {}
        self.times: dict[str, Times] = {}
        # What is known of runs that were looked at: the first time that one of their rows waits for.
        self._nexts: dict[str, dict[str, int]] = {}

    def __len__(self) -> int:
        """How many timesteps are under way."""
        return len(self._flights)

    @property
    def numbers(self) -> list[int]:
        """Their numbers."""
        return list(self._flights)

    @property
    def event_times(self) -> dict[str, int]:
        """How far event time has come, of every operator that goes by it, as of the timestep that it finished last."""
        timed = (
            stage.name
            for stage in self._plan.stages
            if stage.times and not any(each.processing for each in stage.times)
        )
        return {name: self.times.get(name, Times()).watermark for name in timed}

    def due(self, now_ms: int) -> bool:
        """Whether anything waits for the time of a timestep, and it has come. Nothing is under way.

        Processing time goes by it, and it tells of an input of event time that it holds no operator back any more.
        """
        passed = rowless(self._plan, self.times, now_ms)
        for stage in self._plan.stages:
            if self._early(stage, now_ms):
                return True
            if stage.can is None or stage.name not in passed:
                continue
            before, watermark = self.times.get(stage.name, Times()).watermark, passed[stage.name]
            if watermark == before:
                continue
            clock = Clock(now_ms=now_ms, before=before, watermark=watermark)
            awaited = stage.can.due_range(clock)
            if awaited is None:
                continue
            after, until = awaited
            runs = self.manifests[stage.name].state if stage.name in self.manifests else ()
            nexts = self._nexts.get(stage.name, {})
            if any(
                run.waits(after, until) and nexts.get(run.segment, until) <= until for run in runs
            ):
                return True
        return False

    def _early(self, stage: Stage, now_ms: int) -> bool:
        """Whether it is time to show early what has changed, and something has."""
        times = self.times.get(stage.name, Times())
        every = None if stage.can is None else stage.can.early_ms
        if every is None or times.beat is None or not times.beat.strikes(now_ms, every):
            return False
        runs = self.manifests[stage.name].state if stage.name in self.manifests else ()
        return any(
            run.seq > times.beat.shown and run.due is not None and run.due[1] > times.watermark
            for run in runs
        )

    def follow(
        self,
        plan: PhysicalPlan,
        manifests: Mapping[str, Manifest],
        times: Mapping[str, Times],
    ) -> None:
        """Go by another plan, from this state and event time on; nothing is under way."""
        self._plan = plan
        self.manifests, self.times = dict(manifests), dict(times)
        self._nexts = {}
        self._schedule = Schedule(
            {
                stage.name: Needs(stages=stage.needs, stateful=stage.logic is not None)
                for stage in plan.stages
            }
        )

    def open(self, flight: InFlight) -> None:
        """Another timestep is under way."""
        number = flight.decided.number
        self._flights[number] = flight
        self._schedule = self._schedule.open(number)
        self._runner.open(flight.decided)

    def halt(self) -> None:
        """Start nothing more: what is under way is to be taken back."""
        self._halted = True

    @property
    def halted(self) -> bool:
        """Whether nothing starts until `take_back`."""
        return self._halted

    def take_back(self) -> list[Timestep]:
        """Every timestep under way, to begin from scratch, once all units have come back; empty until then.

        Files of its attempts carry their names, and no report names them. Then `follow`, from committed state on.
        """
        if self._schedule.running:
            return []
        back = [flight.decided for flight in self._flights.values()]
        for decided in back:
            self._runner.release(decided.number)
        self._flights, self._halted = {}, False
        return back

    def start_ready(self) -> CameBack | bool:
        """Start the units that may run; whether there were any, or what one brought that ran here and now."""
        ready = () if self._halted else self._schedule.ready()
        if not ready:
            return False
        for unit in ready:
            self._schedule = self._schedule.start(unit)
        if self._executor is None and len(ready) == 1 and not self._schedule.running - set(ready):
            return self._run(ready[0])
        for unit in ready:
            self._workers().submit(self._run, unit).add_done_callback(self._ended)
        return True

    def _workers(self) -> Executor:
        if self._executor is not None:
            return self._executor
        if self._pool is None:
            # Threads are made when they are needed: how many timesteps may be under way can change.
            size = len(self._plan.stages) * MOST_IN_FLIGHT
            self._pool = ThreadPoolExecutor(size, "rechannel-unit")
        return self._pool

    def _ended(self, future: Future[CameBack]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        self._came_back(future.result() if error is None else error)

    def _run(self, unit: Unit) -> CameBack:
        try:
            return Done(unit, self._reports(unit))
        except Exception as error:
            return Failed(unit, error)

    def _reports(self, unit: Unit) -> list[TaskReport]:
        name, number = unit
        flight = self._flights[number]
        stage = self._plan.stage(name)
        step = stage_step(
            self._plan,
            stage,
            flight.decided.configuration,
            timestep=number,
            now_ms=flight.decided.now_ms,
            manifest=self.manifests.get(name, Manifest()),
            policy=self._policy,
            rewrite=flight.rewrite.get(name),
        )
        step = timed(step, stage, self.times.get(name, Times()), flight.seen)
        return self._runner.run(number, name, replace(step, memory=self._memory))

    def came(self, unit: Unit) -> None:
        """A unit has come back, and what it brings does not count."""
        self._schedule = self._schedule.finish(unit)

    def take(self, done: Done) -> tuple[str, ...]:
        """Fold a unit's reports: state moves on, kept files become readable. Operators that have reported."""
        self.came(done.unit)
        (name, number), reports = done.unit, done.reports
        flight = self._flights[number]
        flight.reports.extend(reports)
        for report in reports:
            for input_, latest in report.emitted.event_times.items():
                flight.seen[input_] = max(latest, flight.seen.get(input_, latest))
        if self._plan.stage(name).logic is not None:
            edit = edit_of(reports, name)
            expected = flight.decided.configuration.operators[name].tasks
            arrived = sum(report.operator == name for report in reports)
            if arrived != expected:
                msg = (
                    f"operator {name!r}, timestep {number}: {arrived} of {expected} tasks reported"
                )
                raise TimestepError(msg)
            flight.edits[name] = edit
            self.manifests[name] = self.manifests.get(name, Manifest()).apply(edit)
            self._nexts[name] = nexts_of(reports, name)
            times = times_of(reports, name)
            if times is not None:
                self.times[name] = flight.times[name] = times
        # All of the timestep's: a function behind a union runs, and keeps rows, in several stages.
        for node, keys in kept_of(flight.reports).items():
            self._runner.kept(number, node, keys)
        # A front that runs with its first reader has not run yet; its reports come with the reader's.
        return tuple(dict.fromkeys(report.operator for report in reports))

    def committable(self) -> InFlight | None:
        """The oldest timestep, if all its units are done."""
        number = None if self._halted else self._schedule.committable()
        return None if number is None else self._flights[number]

    def close(self, number: int) -> None:
        """The oldest timestep is committed."""
        self._schedule = self._schedule.close(number)
        del self._flights[number]

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Rows and bytes in the runs of every operator."""
        return {
            name: (sum(run.rows for run in m.state), sum(run.size for run in m.runs))
            for name, m in self.manifests.items()
        }

    def shut_down(self) -> None:
        """End the pool."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


def nexts_of(reports: list[TaskReport], operator: str) -> dict[str, int]:
    """Of runs that tasks looked at, the first time behind this timestep that a row waits for."""
    out: dict[str, int] = {}
    for state in states_of(reports, operator):
        for segment, at in state.first_timers.items():
            out[segment] = min(at, out.get(segment, at))
    return out


def kept_of(reports: list[TaskReport]) -> dict[str, list[str]]:
    """Outbox files by node, in the order of their tasks."""
    out: dict[str, list[tuple[int, str]]] = {}
    for report in reports:
        for node, file in report.emitted.buffered.items():
            out.setdefault(node, []).append((report.task, file.key))
    return {node: [key for _, key in sorted(files)] for node, files in out.items()}
