"""What a topology calls unaffected is not touched: such a task reads what it would have read without the change.

Each trial makes the same random changes twice, the last one only once, and compares what every task of every timestep
received (runs, merges) and which segments it opened in the store.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel import changes
from rechannel.engine.reconfigure.cluster import Executor, FixedCluster
from rechannel.engine.reconfigure.proposal import upstreams_of
from rechannel.engine.stages.inprocess import InProcessRunner
from rechannel.errors import RechannelError
from rechannel.model.configuration import Configuration
from rechannel.reconfigure import strategies
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.changes.together import one_change
from rechannel.reconfigure.plan import Plan, plan
from rechannel.reconfigure.strategies import Strategy
from rechannel.reconfigure.topology import pruning
from rechannel.reconfigure.topology.values import Channels
from rechannel.settings import Settings
from rechannel.testing import Harness, MemoryStore, script
from rechannel.testing.process import Process
from tests.property.reconfigurations import one

TRIALS = 20
KINDS = frozenset(
    {"rescale", "move", "split", "merge", "rebalance", "rewrite", "assign_workload", "place"}
)
"""Changes that do not change which rows a timestep reads."""
TIMESTEPS = 10
KEYS = 100

STRATEGIES = (
    strategies.all_at_once(),
    strategies.batched(4),
    strategies.fluid(3),
    strategies.optimized(2, prepare=False),
)

Task = tuple[str, int]
"""Operator, number."""

Seen = dict[Task, dict[int, Any]]
"""What a task read, by timestep."""


@dataclass
class Watch:
    """Who runs just now, what it received, and which segments it opened."""

    task: tuple[str, int, int] | None = None
    received: dict[tuple[str, int, int], Any] = field(default_factory=dict)
    opened: dict[tuple[str, int, int], set[str]] = field(default_factory=lambda: defaultdict(set))

    def attempt(self, operator: str, timestep: int, task: int, attempt: int) -> None:
        """An attempt begins (a fault that never happens)."""
        del attempt
        self.task = (operator, timestep, task)

    def names(self) -> Iterator[str]:
        """Attempts are named after their tasks, so that files of two runs can be compared."""
        while True:
            yield "-".join(map(str, self.task or ()))

    def seen(self) -> Seen:
        out: Seen = defaultdict(dict)
        for (operator, timestep, task), received in self.received.items():
            opened = self.opened[operator, timestep, task]
            out[operator, task][timestep] = (received, frozenset(opened))
        return out


class WatchedStore(MemoryStore):
    """Says which task reads what."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        if self.watch.task is not None and "/segments/" in f"/{key}":
            self.watch.opened[self.watch.task].add(key)
        return super().read(key, start, length)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[Watch]:
    """The watch of the run under way, last in the list; what every unit receives is written to it."""
    watches: list[Watch] = []
    run = InProcessRunner.run

    def watching(self: InProcessRunner, timestep: int, stage: str, step: Any) -> Any:
        for task, state in enumerate(step.tasks):
            runs = [(r.segment, r.clip, r.seq, r.level) for r in (*state.runs, *state.totals)]
            watches[-1].received[stage, timestep, task] = (tuple(runs), state.merges)
        reports = run(self, timestep, stage, step)
        watches[-1].task = None
        return reports

    monkeypatch.setattr(InProcessRunner, "run", watching)
    return watches


def dataflow(seed: int) -> Any:
    """Two operators in a row and one beside them."""
    rng = Random(seed)
    rows = [
        [{"k": rng.randrange(KEYS), "v": rng.randrange(9)} for _ in range(KEYS)]
        for _ in range(TIMESTEPS)
    ]
    stream = rc.read().memory(script("k long, v long", rows), name="in")
    counts = stream.key_by("k").aggregate(total=agg.sum("v"), name="counts")
    tops = counts.key_by("total").aggregate(n=agg.count(), name="tops")
    beside = stream.key_by("v").aggregate(n=agg.count(), name="beside")
    return [tops.write.memory("a", name="a"), beside.write.memory("b", name="b")]


@dataclass
class Made:
    """A run: what tasks read, the changes that were made, the last one's plan, and its first and last timestep."""

    seen: Seen = field(default_factory=dict)
    asked: list[tuple[int, Change, Strategy]] = field(default_factory=list)
    plan: Plan | None = None
    kinds: list[str] = field(default_factory=list)
    steps: tuple[int, int] | None = None


def started(watches: list[Watch], seed: int) -> Process:
    """A run of its own watch."""
    watch = Watch()
    watches.append(watch)
    alive = [Executor(id=str(n), host=f"h{n % 2}", cores=2) for n in range(4)]
    harness = Harness(
        dataflow(seed),
        store=WatchedStore(watch),
        settings=Settings(bins=8, tasks=3),
        names=watch.names(),
        cluster=FixedCluster(alive=alive, room=4, cores=2),
    )
    return harness.start(task_faults=watch.attempt)


def until(process: Process, timestep: int) -> None:
    while process.position.timestep < timestep and process.step():
        pass


def drawn_change(rng: Random, configuration: Configuration) -> Change:
    """A change of one of the KINDS, often a rescale. Sometimes two tasks swap their bins: transfers in a cycle."""
    name = rng.choice(("counts", "tops", "beside"))
    if rng.random() < 0.2:
        return changes.rescale(name, rng.choice((1, 2, 4)))
    if rng.random() < 0.2:
        routing = configuration.operators[name].routing
        a, b = rng.sample(range(routing.tasks), 2) if routing.tasks > 1 else (0, 0)
        owners = tuple({a: b, b: a}.get(owner, owner) for owner in routing.owners)
        return changes.assign_workload(name, replace(routing, owners=owners))
    while True:
        change = one(rng, configuration, ["in"])
        if change.kind in KINDS:
            return change


def changed_run(watches: list[Watch], seed: int, count: int) -> Made:
    """A run with random changes, each planned when it is requested."""
    rng, made = Random(seed), Made()
    process = started(watches, seed)
    for number in range(count):
        at = 3 + 2 * number
        until(process, at)
        while True:
            configuration = process.position.configuration
            drawn = [drawn_change(rng, configuration) for _ in range(rng.choice((1, 1, 2)))]
            strategy = rng.choice(STRATEGIES)
            try:
                made.plan = shown_plan(process, drawn, strategy)
                id_ = process.reconfigure(made.plan.change, strategy)
            except RechannelError:
                continue
            break
        made.kinds = [change.kind for change in drawn]
        made.asked.append((at, made.plan.change, strategy))
    process.run()
    record = process.changes.coordination.find(id_)
    if str(record.phase) == "done" and record.taken:
        made.steps = record.taken[0].timestep, record.taken[-1].timestep
    made.seen = watches[-1].seen()
    return made


def same_run(watches: list[Watch], seed: int, asked: list[tuple[int, Change, Strategy]]) -> Made:
    """A run with the same changes at the same timesteps."""
    process = started(watches, seed)
    for at, change, strategy in asked:
        until(process, at)
        process.reconfigure(change, strategy)
    process.run()
    return Made(seen=watches[-1].seen())


def shown_plan(process: Process, drawn: list[Change], strategy: Strategy) -> Plan:
    """As `RunningJob.plan` makes it."""
    now = process.changes.view(process.position)
    channels = Channels.both(upstreams_of(process.switch.current.plan))
    return plan(process.changes.coordination, one_change(drawn), strategy, now, 0.0, channels)


def check(watches: list[Watch], seed: int, tally: Counter[str]) -> None:
    """Compare a run with one in which the last change was not made."""
    with_it = changed_run(watches, seed, 1 + seed % 2)
    if with_it.steps is None or with_it.steps[1] > TIMESTEPS - 1:
        tally["not finished"] += 1
        return
    without = same_run(watches, seed, with_it.asked[:-1])
    first, last = with_it.steps
    for topology in with_it.plan.topology.operators:
        name = topology.operator
        if not any(operator == name for operator, _ in with_it.seen):
            continue  # a source reads no state
        for task in topology.unaffected:
            assert with_it.seen[name, task] == without.seen[name, task], (seed, name, task)
        for task in (*topology.kept, *topology.replaced):
            assert with_it.seen[name, task] != without.seen[name, task], (seed, name, task)
        for task in topology.new:
            assert first in with_it.seen[name, task], (seed, name, task)
            assert max(without.seen.get((name, task), {0: None})) < first, (seed, name, task)
        for task in topology.gone:
            assert max(with_it.seen[name, task]) < last, (seed, name, task)
            assert last in without.seen[name, task], (seed, name, task)
        for kind in ("unaffected", "kept", "replaced", "new", "gone"):
            tally[kind] += len(getattr(topology, kind))
    tally.update(with_it.kinds)
    for found, timesteps in with_it.seen.items():
        for timestep, read in timesteps.items():
            tally["reads"] += len(read[1])
            assert timestep >= first or read == without.seen[found][timestep]


def check_all(watches: list[Watch], trials: int) -> Counter[str]:
    tally: Counter[str] = Counter()
    for seed in range(trials):
        check(watches, seed, tally)
    return tally


def test_tasks_that_are_unaffected_read_what_they_would_have_read(watched, thorough):
    tally = check_all(watched, TRIALS * (10 if thorough else 1))
    assert min(tally[kind] for kind in ("unaffected", "kept", "replaced", "new", "gone")) >= 3, (
        tally
    )
    assert sum(bool(tally[kind]) for kind in KINDS) >= 6, tally
    assert tally["reads"] > 500


@pytest.mark.parametrize(
    "fault",
    [
        lambda state: frozenset(edge.source for edge in state),
        lambda state: frozenset(edge.target for edge in state),
        pytest.param(
            lambda state: frozenset(
                task for e in state if e.source != e.target for task in (e.source, e.target)
            ),
            marks=pytest.mark.slow,  # only the last of the runs notices it
        ),
        lambda state: frozenset(range(99)),
    ],
    ids=["takers", "givers", "rewritten", "too little"],
)
def test_pruning_too_much_or_too_little_is_noticed_in_a_run(watched, monkeypatch, fault):
    monkeypatch.setattr(pruning, "_touched", fault)
    with pytest.raises((AssertionError, KeyError)):
        check_all(watched, TRIALS)
