"""A loop on paper: its decisions, carried out on nothing but a few numbers, and every command as a line of text."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.failures.retries import Retries
from rechannel.engine.loop.core import commands, events
from rechannel.engine.loop.core.state import InFlight, LoopState, Rules, schedule_of
from rechannel.engine.loop.core.step import step
from rechannel.engine.program.physical import PhysicalPlan
from rechannel.engine.program.steps import first_configuration
from rechannel.engine.stages.runner import SourceSlice, Timestep
from rechannel.errors import ClusterError, RechannelError, StorageError, UserFunctionError
from rechannel.kernels.tasks.report import StateReport
from rechannel.kernels.tasks.unit_report import by_operator
from rechannel.model.configuration import Configuration
from rechannel.model.patience import Patience
from rechannel.reconfigure.coordinator import Decision
from rechannel.state.manifest import Edit
from rechannel.state.merging import MergePolicy
from rechannel.testing import Harness, script
from tests.support.reports import reported

ERRORS: dict[str, type[RechannelError]] = {
    "cluster": ClusterError,
    "store": StorageError,
    "user": UserFunctionError,
}


def chain() -> PhysicalPlan:
    """Two operators with state, one after the other: in -> first -> second."""
    rows = rc.read().memory(script("k long, v long", []), name="in")
    first = rows.key_by("k").aggregate(v=agg.sum("v"), name="first")
    second = first.key_by("v").aggregate(n=agg.count(), name="second")
    return Harness(second.write.memory("out", name="out")).plan


@dataclass(kw_only=True)
class PaperLoop:
    """A loop whose outside is a few numbers.

    offers: batches that the source has and no timestep has read. change: what the coordinator decides next. lines: what
    was done since the last look.
    """

    state: LoopState
    wall_ms: float = 1_000.0
    read: int = 0
    offers: int = 0
    room: bool = True
    stopping: bool = False
    change: dict[str, Any] = field(default_factory=dict)
    hold: bool = False
    failing: dict[str, str] = field(default_factory=dict)
    against: str = ""
    moving: bool = False
    asked: int = 0
    lines: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls, *, in_flight: int = 1, interval: int = 0, replay: int = 0, patience: float = 300
    ) -> PaperLoop:
        """A loop that begins, or that has timesteps to run again."""
        plan = chain()
        configuration = first_configuration(
            plan, tasks=1, bins=1, interval_ms=interval, in_flight=in_flight
        )
        tries = Retries(patience=Patience(seconds=patience, first_seconds=1))
        again = [_timestep(number, configuration, number - 1) for number in range(1, replay + 1)]
        state = LoopState(
            rules=Rules(merging=MergePolicy(), task_bytes=1 << 20, poll_ms=10),
            plan=plan,
            configuration=configuration,
            last=replay,
            schedule=schedule_of(plan),
            replay=tuple(again),
            timesteps=tries,
            looks=tries,
        )
        return cls(state=state, read=replay)

    # What happens --------------------------------------------------------------------------------

    def turn(self) -> None:
        """A turn of the driver."""
        self.react(events.Begin(stopping=self.stopping))
        self.react(events.Open(at_ms=self.wall_ms))
        self.react(events.Start())
        self.react(events.Commit())

    def done(self, operator: str, timestep: int) -> None:
        """A unit came back."""
        state = None if operator == "in" else StateReport(edit=Edit())
        report = reported(operator, state=state)
        self.react(events.UnitDone(unit=(operator, timestep), reports=by_operator([report])))

    def failed(self, operator: str, timestep: int, kind: str) -> None:
        """A unit failed."""
        error = ERRORS[kind](f"{operator} is broken")
        self.react(events.UnitFailed(unit=(operator, timestep), error=error, at_ms=self.wall_ms))

    def rest(self, *, published: bool = True, fetching: bool = False) -> None:
        """A turn is over in which nothing happened."""
        self.react(
            events.Rest(
                asked=self.asked,
                fetching=fetching,
                published=published,
                wall_ms=self.wall_ms,
                polled_ms=0,
            )
        )

    def react(self, event: events.Event) -> None:
        """As `Driver._react`, on paper."""
        self.state, todo = step(self.state, event)
        agenda: deque[commands.Command] = deque(todo)
        while agenda:
            answer = self.carried_out(agenda.popleft())
            if answer is not None:
                self.state, todo = step(self.state, answer)
                agenda.extendleft(reversed(todo))

    # What is done --------------------------------------------------------------------------------

    def carried_out(self, command: commands.Command) -> events.Event | None:
        """Note a command, and answer it."""
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(command).__name__).lower()
        made: tuple[str, events.Event | None] = getattr(self, f"on_{name}")(command)
        text, answer = made
        self.lines.append(text)
        return answer

    def on_read_state(self, command: commands.ReadState) -> Any:
        return "read committed state", events.StateRead(manifests={}, times={})

    def on_answer_changes(self, command: commands.AnswerChanges) -> Any:
        return "answer changes", events.ChangesAnswered(happened=False)

    def on_look_around(self, command: commands.LookAround) -> Any:
        around = events.Around(wall_ms=self.wall_ms, stream_ms=int(self.wall_ms), room=self.room)
        return f"look around: {'room' if self.room else 'no room'}", around

    def on_ask_coordinator(self, command: commands.AskCoordinator) -> Any:
        configuration = self.state.configuration
        if self.change:
            version = configuration.version + 1
            configuration = replace(configuration, version=version, **self.change)
        decision = Decision(configuration=configuration, hold=self.hold)
        decided = events.Decided(
            decision=decision, wall_ms=command.wall_ms, stream_ms=command.stream_ms
        )
        told = f"configuration {configuration.version}" + (", hold" if self.hold else "")
        return f"ask the coordinator: {told}", decided

    def on_look_at_version(self, command: commands.LookAtVersion) -> Any:
        if "program" in self.failing:
            return "look at the program: fails", self._failure("program")
        reasons = {"r1": self.against} if self.against else {}
        looked = events.VersionLooked(
            decision=command.decision, stream_ms=command.stream_ms, reasons=reasons, record={}
        )
        return f"look at the program: {self.against or 'it can begin'}", looked

    def on_fail_changes(self, command: commands.FailChanges) -> Any:
        self.change = {}
        return f"end changes: {dict(command.reasons)}", None

    def on_switch_program(self, command: commands.SwitchProgram) -> Any:
        self.change = {}
        configuration = command.decision.configuration
        switched = events.Switched(
            configuration=configuration,
            plan=self.state.plan,
            manifests={},
            times={},
            bad_rows=self.state.bad_rows,
        )
        return f"journal and begin program {configuration.dataflow}", switched

    def on_poll_sources(self, command: commands.PollSources) -> Any:
        if "sources" in self.failing:
            return "poll the sources: fail", self._failure("sources")
        slices = {"in": _slice(self.read)} if self.offers else None
        offered = events.Offered(
            decision=command.decision,
            wall_ms=command.wall_ms,
            stream_ms=command.stream_ms,
            slices=slices,
            nothing={},
        )
        return f"poll the sources: {'a batch' if slices else 'nothing'}", offered

    def _failure(self, what: str) -> events.LookFailed:
        error = ERRORS[self.failing[what]](f"the {what} cannot be looked at")
        return events.LookFailed(what=f"looking at the {what}", error=error, at_ms=self.wall_ms)

    def on_settle_idle(self, command: commands.SettleIdle) -> Any:
        configuration = self.state.configuration
        if self.change and "dataflow" not in self.change:
            version = configuration.version + 1
            configuration = replace(configuration, version=version, **self.change)
            self.change = {}
        settled = events.IdleSettled(
            configuration=configuration, moving=self.moving, kept_back=command.kept_back
        )
        return f"change without a timestep: configuration {configuration.version}", settled

    def on_journal_intent(self, command: commands.JournalIntent) -> Any:
        timestep, self.change = command.timestep, {}
        self.read, self.offers = self.read + 1, self.offers - 1
        told = f"journal the intent of {timestep.number}, version {timestep.configuration.version}"
        return told, self._in_flight(timestep, command.began_ms, fresh=True)

    def on_open_again(self, command: commands.OpenAgain) -> Any:
        opened = self._in_flight(command.timestep, command.began_ms, fresh=False)
        return f"open {command.timestep.number} again", opened

    def _in_flight(
        self, timestep: Timestep, began_ms: float, *, fresh: bool
    ) -> events.TimestepOpened:
        flight = InFlight(timestep=timestep, began_ms=began_ms, decided_ms=self.wall_ms)
        return events.TimestepOpened(flight=flight, fresh=fresh)

    def on_start_units(self, command: commands.StartUnits) -> Any:
        units = " ".join(f"{operator}@{number}" for operator, number in command.units)
        return f"start {units}{' alone' if command.alone else ''}", None

    def on_keep(self, command: commands.Keep) -> Any:
        return f"keep files of {command.number}: {command.files}", None

    def on_report_operators(self, command: commands.ReportOperators) -> Any:
        return f"report {', '.join(command.operators)} of {command.number}", None

    def on_stage_sinks(self, command: commands.StageSinks) -> Any:
        number = command.number
        if "sinks" in self.failing:
            error = ERRORS[self.failing["sinks"]]("a sink is broken")
            failed = events.StageFailed(number=number, error=error, at_ms=self.wall_ms)
            return f"stage sinks for {number}: fails", failed
        return (
            f"stage sinks for {number}",
            events.Staged(number=number, staged={}, ran_ms=self.wall_ms),
        )

    def on_journal_commit(self, command: commands.JournalCommit) -> Any:
        committed = events.TimestepCommitted(
            number=command.number,
            staged=command.staged,
            ran_ms=command.ran_ms,
            committed_ms=self.wall_ms,
        )
        return f"journal the commit of {command.number}", committed

    def on_publish(self, command: commands.Publish) -> Any:
        return f"publish {command.flight.timestep.number}", None

    def on_release(self, command: commands.Release) -> Any:
        return f"release {command.number}", None

    def on_forget_input(self, command: commands.ForgetInput) -> Any:
        return f"forget the input of {command.timestep.number}", None

    def on_account(self, command: commands.Account) -> Any:
        return f"account for {command.flight.timestep.number}", None

    def on_report_commit(self, command: commands.ReportCommit) -> Any:
        return f"report the commit of {command.flight.timestep.number}", None

    def on_sweep(self, command: commands.Sweep) -> Any:
        return "sweep", None

    def on_report_failure(self, command: commands.ReportFailure) -> Any:
        wait = f"failure {command.failures}, again in {command.wait_ms:g} ms"
        return f"report: {command.what} failed ({command.error}): {wait}", None

    def on_report_well(self, command: commands.ReportWell) -> Any:
        return "report: it works again", None

    def on_cancel_units(self, command: commands.CancelUnits) -> Any:
        return "cancel what runs", None

    def on_answer_drains(self, command: commands.AnswerDrains) -> Any:
        return f"all is processed that the first {command.asked} asked for", None

    def on_await_event(self, command: commands.AwaitEvent) -> Any:
        limit = "" if command.at_most_ms is None else f" for {command.at_most_ms:g} ms"
        return f"wait{limit}", None

    def on_end(self, command: commands.End) -> Any:
        return f"end the job: {type(command.error).__name__}: {command.error}", None

    # How it stands -------------------------------------------------------------------------------

    def standing(self) -> str:
        """The state in a line."""
        state = self.state
        units = sorted(f"{name}@{number}" for name, number in state.schedule.running)
        parts = [f"in flight {_numbers(state.in_flight)}"]
        parts += [f"running {' '.join(units)}"] if units else []
        parts += [f"again {_numbers(t.number for t in state.replay)}"] if state.replay else []
        flags = ("halted", "stopping", "seen_all", "moving")
        parts += [flag.replace("_", " ") for flag in flags if getattr(state, flag)]
        return "= " + "; ".join(parts)


def _numbers(numbers: Any) -> str:
    return " ".join(map(str, numbers)) or "nothing"


def _slice(batch: int) -> SourceSlice:
    return SourceSlice(start={"batches": batch}, end={"batches": batch + 1}, layout=())


def _timestep(number: int, configuration: Configuration, batch: int) -> Timestep:
    return Timestep(
        number=number, stream_ms=0, configuration=configuration, slices={"in": _slice(batch)}
    )
