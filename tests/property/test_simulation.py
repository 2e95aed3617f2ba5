"""Random dataflows under random schedules of faults, against an undisturbed run and a naive twin.

A schedule is a number. From it follow the dataflow, its input, how input is cut into timesteps, how
many tasks and bins there are and how they are placed, what is asked to be changed while it runs, how
gently, what of that is aborted or superseded, how state is merged, in which order whatever may happen
happens, which attempts of tasks die or run twice, at which write to the store the driver
dies and what that write leaves, who starts next with which settings, and which driver only sleeps
and comes back. At the end:

- every sink was shown every timestep once, with the rows of the undisturbed run, bit for bit, and
  with those of the twin;
- state after every kept timestep is that of the undisturbed run, byte for byte, and the twin's;
- the journal can be read at every moment, and what nothing names is gone after a sweep.

Every eighth schedule has controllers too (`controlling.py`): their operations change nothing of all that, and what they
find, and what becomes of their requests, is that of a twin that never crashed. When all input is processed, operations
have timesteps of their own, which come after those of the undisturbed run: they show no rows, and leave its last state.

`RECHANNEL_SEED=n` replays schedule n alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rechannel.engine.journal.entries import ConfigurationChanged, Opened
from rechannel.engine.journal.log import Journal
from rechannel.engine.stages.inprocess import ATTEMPTS, TaskDied
from rechannel.errors import (
    DamagedStateError,
    FencedError,
    RefusedError,
    StorageError,
    UnknownOperatorError,
)
from rechannel.kernels.columnar import sorting
from rechannel.kernels.lsm import collect, lookup
from rechannel.kernels.protocol.two_sides import ROW
from rechannel.kernels.shuffle import receive, send
from rechannel.kernels.tasks import parts, report_table
from rechannel.model.configuration import Combine, Configuration, OperatorConfiguration
from rechannel.model.hashing import hash_columns
from rechannel.model.hashspace import SPACE, HashArray
from rechannel.model.patience import Patience
from rechannel.model.routing import Routing, even_starts
from rechannel.reconfigure.changes.together import parts_of
from rechannel.reconfigure.moment import EventMoment
from rechannel.reconfigure.record import Phase
from rechannel.settings import Settings
from rechannel.state import manifest
from rechannel.state.keys import SEGMENTS, SINK_BUFFERS
from rechannel.state.merging import MergePolicy
from rechannel.telemetry.events import TimestepStarted
from rechannel.testing import Crash, Fault, FaultKind, Harness, Process, Recorder
from tests.property import reconfigurations, twins
from tests.property.control_programs import Stage
from tests.property.controlling import HAPPENED, SELDOM, Controllers, JournalledStore
from tests.property.growth import check_growth
from tests.property.programs import Program, Writer
from tests.property.reconfigurations import (
    EXTRA,
    KINDS,
    RandomBundles,
    random_change,
    random_cluster,
    random_edit,
    random_strategy,
)
from tests.property.schedules import check_schedules
from tests.property.twin_lookups import Given
from tests.property.twin_values import alike
from tests.property.twins import Aggregate, Reduce, Source

FAN = 8
CONTROLLED = 8
"""One schedule of so many has controllers."""

LIVES = 6
TIMESTEPS_SEEN = 1_000
"""Drivers that may be disturbed; the next one is left alone, so that every schedule ends."""


# A schedule --------------------------------------------------------------------------------------


KINDS_OF_FAULTS = ("before", "after", "twice", "late")


def random_settings(rng: Random) -> Settings:
    return Settings(
        tasks=rng.randint(1, 4),
        bins=rng.choice((4, 7, 16)),
        in_flight=rng.randint(1, 3),
        inline_rows=rng.choice((0, 4, 12, 1_000)),
        keep_versions=rng.choice((1, 2, 4)),
        snapshot_every=rng.choice((1, 2, 5, 64)),
        publish_backlog=rng.choice((1, 2, 8)),
        task_bytes=rng.choice((None, None, None, None, 2_000, 20_000)),
        merging=MergePolicy(fan=rng.randint(2, FAN), slice_rows=rng.choice((1, 2, 8, 1 << 16))),
        # Time stands still, or jumps: what is tried again is tried at once, or never.
        patience=rng.choice((Patience(seconds=0), Patience(first_seconds=0))),
    )


def random_routing(rng: Random, tasks: int) -> Routing:
    """Bins of any width, each at any task: what moving, splitting and merging bins leads to."""
    bins = rng.randint(1, 9)
    inner = sorted({rng.randrange(1, SPACE) for _ in range(bins - 1)})
    starts = (0, *inner) if rng.random() < 0.5 else even_starts(bins)
    owners = tuple(rng.randrange(tasks) for _ in starts)
    return Routing(starts=starts, owners=owners, tasks=tasks)


def random_configuration(rng: Random, configuration: Configuration) -> Configuration:
    """Other numbers of tasks, other placements, other choices of the plan."""
    operators = {}
    for name, operator in configuration.operators.items():
        tasks = rng.choice((operator.tasks, rng.randint(1, 4)))
        routing = None if operator.routing is None else random_routing(rng, tasks)
        operators[name] = OperatorConfiguration(
            tasks=tasks, routing=routing, combine=rng.choice(list(Combine))
        )
    return replace(
        configuration,
        version=configuration.version + 1,
        operators=operators,
        in_flight=rng.randint(1, 3),
    )


def random_fault(rng: Random) -> list[Fault | None]:
    """Nothing, or a fault at one of the next writes."""
    if rng.random() < 0.15:
        return []
    kind = rng.choice((*FaultKind, FaultKind.BEFORE, FaultKind.AFTER))
    return [None] * rng.choice((0, 1, 2, rng.randint(0, 60))) + [
        Fault(kind=kind, kept=rng.choice((0.0, 0.5, 0.999)))
    ]


@dataclass
class Disturbed:
    """One schedule under way. happened: how often each thing did."""

    rng: Random
    program: Program
    harness: Harness
    happened: Counter[str] = field(default_factory=Counter)
    asleep: list[Process] = field(default_factory=list)
    lives: int = 0
    seen: dict[str, str] = field(default_factory=dict)
    grown: int | None = None
    doomed: bool = False
    controllers: Controllers | None = None

    def task_fault(self, operator: str, timestep: int, task: int, attempt: int) -> str | None:
        if attempt % ATTEMPTS == 0:
            self.doomed = self.lives <= LIVES and self.rng.random() < 0.01
        if self.lives > LIVES or not (self.doomed or self.rng.random() <= 0.1):
            return None
        fault = self.rng.choice(("before", "after") if self.doomed else KINDS_OF_FAULTS)
        self.happened[f"planned {fault}"] += 1
        return fault

    def run(self) -> None:
        """Start drivers until one is left without anything to do."""
        while not self.live():
            pass

    def live(self) -> bool:
        """The life of one driver; whether it finished."""
        self.lives += 1
        calm = self.lives > LIVES
        faults = [] if calm else random_fault(self.rng)
        settings = random_settings(self.rng)  # tasks and bins of the first driver hold
        keep = replace(settings, keep_versions=self.harness.settings.keep_versions)
        try:
            if self.lives > 1 and not calm and self.rng.random() < 0.3:
                self.reconfigure()
            # The text is that of before all changes of the program, and that is meant.
            replan = not calm and self.rng.random() < 0.3
            before = self.harness.journal_state()
            process = self.harness.start(
                faults=faults,
                task_faults=self.task_fault,
                settings=keep,
                revert=True,
                replan=replan,
                controllers=self.controllers.program(calm=calm) if self.controllers else (),
            )
            if replan and before.open_intents:
                self.happened["withdrawn"] += 1
                rode = any(intent.steps for intent in before.open_intents)
                self.happened["withdrawn with steps"] += rode
            try:
                return self.drive(process, calm=calm)
            finally:
                self.happened["ran again"] += process.position.tries
                events = process.parts.hub.recent_events(TIMESTEPS_SEEN)
                begun = [each.inline for each in events if isinstance(each, TimestepStarted)]
                self.happened["inline timesteps"] += begun.count(True)
                self.happened["timesteps in tasks"] += begun.count(False)
        except Crash:
            self.happened[f"store {faults[-1].kind}"] += 1
        except StorageError:
            self.happened["store full"] += 1
        except TaskDied:
            self.happened["timestep failed"] += 1
        self.harness.journal_state()
        return False

    def reconfigure(self) -> None:
        """What a driver that is asked for another configuration would write."""
        store = self.harness.store
        journal, state = Journal.open(store, keep_versions=4, snapshot_every=64)
        if state.last_intended is None or not state.configurations:
            return
        journal.append(Opened(host="", pid=0, time_ms=0, fingerprint="", version=""))
        changed = ConfigurationChanged(
            from_timestep=state.last_intended + 1,
            configuration=random_configuration(self.rng, state.configurations[-1][1]),
            cause="simulation",
        )
        journal.append(changed)
        self.happened["reconfigured"] += 1

    def drive(self, process: Process, *, calm: bool) -> bool:
        while process.step():
            self.wake()
            if not calm:
                self.change(process)
                if self.controllers:
                    self.controllers.disturb(process)
            self.look(process)
            self.sometimes(0.1, "swept", process.sweep)
            self.sometimes(0.2, "straggled", process.straggle)
            if not calm and self.rng.random() < 0.01:
                self.happened["fell asleep"] += 1
                self.asleep.append(process)
                return False
            if not calm and self.rng.random() < 0.01:
                self.happened["killed"] += 1
                return False
        while self.asleep:
            self.wake()
        while process.straggle():
            pass
        if self.controllers:
            self.controllers.finish(process, process.step)
        process.stop()
        self.look(process)
        process.sweep()
        return True

    def change(self, process: Process) -> None:
        """Ask for something, or take something back, now and then."""
        open_ = process.changes.coordination.open
        try:
            if self.rng.random() < 0.04:
                dataflow = process.switch.current.program.dataflow
                process.reconfigure(random_edit(self.rng, dataflow), random_strategy(self.rng))
                self.happened["program asked"] += 1
            elif self.rng.random() < 0.15:
                configuration = process.position.configuration
                place = process.position
                last = place.timestep
                process.reconfigure(
                    random_change(self.rng, configuration, self.program.sources),
                    random_strategy(self.rng),
                    at=self.rng.choice(
                        (
                            *(None, None, None, None, last, last + self.rng.randint(-1, 4)),
                            *self.event_moments(place.event_times),
                        )
                    ),
                    supersede=self.rng.random() < 0.2,
                )
                self.happened["asked"] += 1
            elif open_ and self.rng.random() < 0.1:
                process.abort(self.rng.choice(open_).id)
                self.happened["aborting"] += 1
        except (RefusedError, UnknownOperatorError):
            self.happened["refused"] += 1

    def event_moments(self, event_times: Mapping[str, int]) -> list[EventMoment]:
        """A time that is near in event time, of all operators or of one."""
        if not event_times:
            return []
        of = self.rng.choice([(), (self.rng.choice(sorted(event_times)),)])
        now = max(min(event_times.values()), 0)
        return [EventMoment(us=now + self.rng.randint(-1, 30) * 1_000, operators=of)] * 2

    def look(self, process: Process) -> None:
        """Count what becomes of reconfigurations, and see that nothing grows. A dead driver's are for the next one."""
        state = process.journal.state
        if state.last_committed != self.grown:
            self.grown = state.last_committed
            check_growth(state, FAN)
            if self.controllers:
                self.controllers.look(process)
        for record in state.coordination.records:
            before = self.seen.get(record.id)
            if before != record.phase:
                self.seen[record.id] = str(record.phase)
                self.happened[f"reconfiguration {record.phase}"] += 1
                if record.phase == "done":
                    self.happened["at an event time"] += record.at_event is not None
                    self.happened.update(f"changed {part.kind}" for part in parts_of(record.change))
                    self.happened["steps"] += len(record.taken)
                    self.happened["taken up again"] += record.drivers > 0

    def sometimes(self, share: float, name: str, happens: Callable[[], object]) -> None:
        if self.rng.random() < share and happens():
            self.happened[name] += 1

    def wake(self) -> None:
        """A driver that slept while another took over does something, until it learns of it."""
        if not self.asleep or self.rng.random() < 0.5:
            return
        process = self.rng.choice(self.asleep)
        try:
            self.sometimes(0.2, "swept by a sleeper", process.sweep)
            self.sometimes(0.2, "straggled", process.straggle)
            if not process.step():
                self.asleep.remove(process)
        except FencedError:
            self.happened["fenced"] += 1
            self.asleep.remove(process)
        except DamagedStateError:
            self.happened["woke up without its files"] += 1
            self.asleep.remove(process)
        except (Crash, TaskDied, StorageError):
            self.asleep.remove(process)


# Two runs and a twin -----------------------------------------------------------------------------


def clock_of(program: Program, harness: Callable[[], Harness]) -> Callable[[], float]:
    """The time of a timestep is part of its input, whoever decides it and whenever."""

    def now() -> float:
        bench = harness()
        decided = bench.process.journal.state.last_intended if bench.started else None
        return program.times[min(decided or 0, program.timesteps - 1)]

    return now


def bench(program: Program, **options: object) -> Harness:
    held: list[Harness] = []
    clock = clock_of(program, lambda: held[0])
    held.append(Harness(program.flows(), clock=clock, **options))  # type: ignore[arg-type]
    for step in program.steps:
        if isinstance(step, Given):
            step.clock = clock
    return held[0]


def undisturbed(program: Program, rng: Random) -> Harness:
    """One task per operator and no merging, or the settings of any other run."""
    plain = Settings(tasks=1, bins=1, keep_versions=64)
    settings = plain if rng.random() < 0.5 else replace(random_settings(rng), keep_versions=64)
    harness = bench(program, settings=settings)
    harness.start().run()
    return harness


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    columns = [column.to_pylist() for column in table.columns]
    return list(zip(*columns, strict=True))


def sorted_text(table: pa.Table) -> list[str]:
    return sorted(map(repr, rows_of(table)))


def check_outputs(program: Program, harness: Harness, calm: Harness, twin: dict) -> None:
    for sink, by_timestep in twin.items():
        if not harness.recorders[sink].durable:
            continue
        got, expected = harness.outputs(sink), calm.outputs(sink)
        everything = list(range(1, program.timesteps + 1))
        assert list(expected) == everything
        assert list(got)[: program.timesteps] == everything, f"{sink}: timesteps {list(got)}"
        for timestep in list(got)[program.timesteps :]:
            assert not got[timestep].num_rows, f"{sink}, timestep {timestep}: rows of no input"
        for timestep, rows in by_timestep.items():
            where = f"{sink}, timestep {timestep}"
            mine, theirs = rows_of(got[timestep]), rows_of(expected[timestep])
            assert alike(rows, theirs), f"{where}: twin {rows}, undisturbed {theirs}"
            assert sorted_text(got[timestep]) == sorted_text(expected[timestep]), (
                f"{where}: undisturbed {theirs}, disturbed {mine}"
            )


def check_extra(harness: Harness, calm: Harness) -> int:
    """Sinks that came later show what the one beside them shows; how many timesteps they did."""
    shown = 0
    for name, recorder in harness.recorders.items():
        if name.startswith(EXTRA):
            beside = name.removeprefix(EXTRA).rpartition("-")[0]
            expected = calm.outputs(beside)
            for timestep, table in recorder.published.items():
                rows = sorted_text(expected[timestep]) if timestep in expected else []
                assert sorted_text(table) == rows, f"{name}: {timestep}"
                shown += 1
    return shown


def check_volatile(harness: Harness, calm: Harness) -> None:
    """A sink that is not durable may miss what its driver took along, and shows nothing else."""
    for sink, recorder in harness.recorders.items():
        if not recorder.durable:
            expected = calm.outputs(sink)
            for timestep, table in recorder.published.items():
                rows = sorted_text(expected[timestep]) if timestep in expected else []
                assert sorted_text(table) == rows


def spread_operators(entries: Mapping[int, bytes]) -> set[str]:
    """Operators of which a bin was spread at some time. entries: of the journal."""
    steps = [step for entry in entries.values() for step in _steps_in(_json(entry))]
    return {
        operator
        for step in steps
        for operator, name, value in (*step["first"], *step["last"])
        if name == "spreads" and value
    }


def _json(entry: bytes) -> Any:
    """An entry, unless the driver died while it was written."""
    try:
        return json.loads(entry)
    except ValueError:
        return None


def _steps_in(data: Any) -> Iterator[dict[str, Any]]:
    """All steps of reconfigurations, wherever they are."""
    if isinstance(data, dict):
        if data.keys() == {"first", "moves", "last"}:
            yield data
        data = list(data.values())
    for one in data if isinstance(data, list) else ():
        yield from _steps_in(one)


def unnumbered(table: pa.Table) -> pa.Table:
    """Rows of a join without their numbers: rows of one key have others if several tasks receive them."""
    plain = table.drop_columns([ROW.name])
    order = sorted(range(plain.num_rows), key=list(map(repr, rows_of(plain))).__getitem__)
    return plain.take(pa.array(order, pa.int64()))


def check_states(
    program: Program, harness: Harness, calm: Harness, twin: dict, spread: set[str]
) -> None:
    """spread: operators of which tasks shared keys."""
    here, there = harness.journal_state(), calm.journal_state()
    for step in program.keyed:
        for timestep in here.versions:
            where = f"state of {step.name} after timestep {timestep}"
            got = harness.state_table(step.name, timestep=timestep, journal=here)
            timestep = min(timestep, program.timesteps)  # noqa: PLW2901 - later ones have no rows
            expected = calm.state_table(step.name, timestep=timestep, journal=there)
            assert got.schema == expected.schema
            if ROW.name in got.schema.names and step.name in spread:
                got, expected = (unnumbered(table) for table in (got, expected))
            assert repr(rows_of(got)) == repr(rows_of(expected)), f"{where}: {got} {expected}"
            shown = rows_of(calm.state(step.name, timestep=timestep, journal=there))
            rows = twin[step.name][timestep - 1]
            assert alike(rows, shown), f"{where}: twin {rows}, got {shown}"


def check_files(harness: Harness) -> None:
    state = harness.journal_state()
    assert state.closed
    assert not state.open_intents
    assert not state.unpublished
    named = set().union(*(version.files() for version in state.versions.values()))
    there = {*harness.store.list(SEGMENTS), *harness.store.list(SINK_BUFFERS)}
    assert there == named


@contextmanager
def weak_hash(bits: int) -> Iterator[None]:
    """Hashes of so few bits that most keys share one with others."""
    mask = np.uint64(SPACE - (SPACE >> bits))

    def weak(columns: Sequence[pa.Array]) -> HashArray:
        return hash_columns(columns) & mask

    with pytest.MonkeyPatch.context() as patch:
        for module in (send, receive, parts, twins):
            patch.setattr(module, "hash_columns", weak)
        for module in (sorting, lookup, collect):
            patch.setattr(module, "hash_is_key", lambda _: False)
        yield


@dataclass(frozen=True, kw_only=True)
class Processed:
    """What the stream has processed, by the naive twin. states: rows after each timestep. lasting: operators whose rows
    time does not end."""

    sources: Mapping[str, Source]
    states: Mapping[str, list[list[Any]]]
    lasting: frozenset[str]

    def rows(self, source: str, timestep: int) -> int | None:
        """See `Truth.rows`."""
        batches = self.sources[source].batches
        return len(batches[timestep - 1]) if timestep <= len(batches) else 0

    def state(self, operator: str, timestep: int) -> int | None:
        """See `Truth.state`."""
        states = self.states.get(operator)
        if states is None or timestep == 1:
            return None if states is None else 0
        return len(states[min(timestep - 1, len(states)) - 1])

    def expires(self, operator: str) -> bool:
        """See `Truth.expires`."""
        return operator not in self.lasting


def simulate(seed: int) -> Counter[str]:
    """One schedule; what happened in it."""
    return scheduled(seed, controlled=seed % CONTROLLED == 0)


def controlled(seed: int) -> Counter[str]:
    """One schedule with controllers; what happened in it."""
    return scheduled(seed, controlled=True)


def scheduled(seed: int, *, controlled: bool) -> Counter[str]:
    """One schedule; what happened in it."""
    rng, own = Random(seed), Random(f"controllers {seed}") if controlled else None
    with ExitStack() as stack:
        happened = Counter[str]()
        if seed % 2:
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            # Runs are kept, and tasks reported, as those of many tasks are.
            patch.setattr(manifest, "WIDE", 0)
            patch.setattr(report_table, "MANY", 1)
            happened["as of many tasks"] += 1
        if rng.random() >= 0.8:
            stack.enter_context(weak_hash(rng.choice((0, 1, 3))))
            happened["weak hash"] += 1
        return run_schedule(rng, own) + happened


def controllers_of(rng: Random, program: Program) -> Controllers:
    """The controllers of a schedule."""
    sources = program.sources
    stage = Stage(
        seed=rng.randrange(1 << 30),
        sources=tuple(sources),
        keyed=tuple(step.name for step in program.keyed),
        change=lambda rng, configuration: reconfigurations.one(rng, configuration, sources),
    )
    return Controllers(rng=rng, stage=stage)


def run_schedule(rng: Random, own: Random | None, program: Program | None = None) -> Counter[str]:
    """A dataflow, undisturbed, disturbed and naively.

    own: decides on controllers; None = there are none. program: the dataflow; None = a random one.
    """
    program = program or Writer(rng).program()
    outputs, states = program.run()
    calm = undisturbed(program, rng)
    volatile = {name: Recorder(durable=False) for name in program.ends if rng.random() < 0.1}
    store = JournalledStore()
    harness = bench(
        program,
        store=store,
        settings=random_settings(rng),
        recorders=volatile,
        configure=lambda first: random_configuration(rng, first),
        choose=rng.randrange,
        arrival=lambda blobs: rng.sample(blobs, len(blobs)),
        bundles=(bundles := RandomBundles(rng)),
        cluster=random_cluster(rng),
    )
    controllers = None if own is None else controllers_of(own, program)
    disturbed = Disturbed(rng, program, harness, controllers=controllers)
    disturbed.run()
    check_files(harness)
    check_outputs(program, harness, calm, outputs)
    check_volatile(harness, calm)
    extra = check_extra(harness, calm)
    check_states(program, harness, calm, states, spread_operators(store.entries))
    happened = disturbed.happened
    if controllers is not None:
        sources = {step.name: step for step in program.steps if isinstance(step, Source)}
        lasting = frozenset(s.name for s in program.keyed if isinstance(s, Aggregate | Reduce))
        truth = Processed(sources=sources, states=states, lasting=lasting)
        controllers.check(store.entries, truth, harness.process)
        happened.update({f"control: {what}": n for what, n in controllers.happened.items()})
        happened["control: schedules"] += 1
        last = harness.journal_state().last_committed or 0
        happened["control: timesteps without rows"] += last - program.timesteps
    happened["shown by added sinks"] += extra
    happened.update({f"injected {kind}": n for kind, n in harness.injected.items()})
    happened.update({f"{what} entries": n for what, n in harness.entries.items()})
    happened["published again"] += sum(r.again for r in harness.recorders.values())
    happened["timesteps"] += program.timesteps
    happened["bundled"] += bundles.made
    happened["schedules"] += 1
    for name, step in program.ends.items():
        kind = type(step).__name__
        rows = sum(map(len, outputs[name].values()))
        happened[f"rows of {kind}"] += rows
        happened["rows of reduced windows"] += rows * (getattr(step, "folds", None) is not None)
    return happened


# Tests -------------------------------------------------------------------------------------------

NEEDED = (
    *(f"store {kind}" for kind in FaultKind),
    "ran again",
    "inline timesteps",
    "timesteps in tasks",
    "bundled",
    "late entries",
    "unwritten entries",
    "timestep failed",
    "fenced",
    "fell asleep",
    "killed",
    "published again",
    "reconfigured",
    "asked",
    "refused",
    "taken up again",
    "withdrawn",
    "withdrawn with steps",
    *(f"reconfiguration {phase}" for phase in Phase if phase != Phase.FAILED),
    *(f"changed {kind}" for kind in KINDS),
    "changed change_program",
    "shown by added sinks",
    "straggled",
    "swept",
    "as of many tasks",
    "weak hash",
    "at an event time",
    "rows of Apply",
    "rows of Asof",
    "rows of Cogroup",
    "rows of Copied",
    "rows of Counted",
    "rows of DeadRows",
    "rows of Deduplicate",
    "rows of Join",
    "rows of Lookup",
    "rows of Part",
    "rows of PlacedRows",
    "rows of Sessions",
    "rows of Processing",
    "rows of Running",
    "rows of Sliding",
    "rows of Timed",
    "rows of TimedBatches",
    "rows of Top",
    "rows of Window",
    "rows of reduced windows",
    "rows of LateRows",
    *(f"control: {what}" for what in HAPPENED if what not in SELDOM),
)


def test_no_schedule_makes_a_difference(thorough: bool, workers: ProcessPoolExecutor) -> None:
    # In all of the first 250 together, everything happens that has to.
    check_schedules(
        simulate, range(10_000 if thorough else 80), NEEDED, workers, brief=not thorough
    )


@pytest.mark.slow
def test_no_schedule_with_controllers_makes_a_difference(workers: ProcessPoolExecutor) -> None:
    seldom = [f"control: {what}" for what in SELDOM]
    check_schedules(controlled, range(5_000), (*NEEDED, *seldom), workers)
