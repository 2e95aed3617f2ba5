"""The pruned meta topology of random changes, against the rules applied to the full graph by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random

import networkx as nx
import pytest

from rechannel.errors import RechannelError
from rechannel.model.configuration import Configuration, OperatorConfiguration
from rechannel.reconfigure.changes.together import one_change
from rechannel.reconfigure.requests import route_to
from rechannel.reconfigure.steps import BinMove, Sizes, route
from rechannel.reconfigure.stream_facts import StreamFacts
from rechannel.reconfigure.topology import pruning
from rechannel.reconfigure.topology.meta import MetaTopology
from rechannel.reconfigure.topology.pruning import comparable, meta_topology
from rechannel.reconfigure.topology.values import Channels, Upstreams
from tests.property.reconfigurations import random_change, random_placement
from tests.support.changing import Paper
from tests.support.topology_graphs import Vertex, full_graph, pruned_graph

TRIALS = 1000
NAMES = ("in", "side", "counts", "sums", "tops")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A change and where it begins."""

    channels: Channels
    old: Configuration
    new: Configuration
    moves: tuple[BinMove, ...]
    kinds: tuple[str, ...]

    def topology(self) -> MetaTopology:
        return meta_topology(self.channels, self.old, self.new, self.moves)

    def full(self) -> nx.DiGraph[Vertex]:
        return full_graph(self.channels, self.old, self.new, self.moves)


def random_operator(rng: Random, name: str) -> OperatorConfiguration:
    tasks = rng.randint(1, 4)
    if name in {"in", "side"}:
        return OperatorConfiguration(tasks=tasks)
    return OperatorConfiguration(tasks=tasks, routing=random_placement(rng, tasks))


def random_dataflow(rng: Random, names: tuple[str, ...]) -> Upstreams:
    """Each operator reads one or two of those before it."""
    order = [n for n in names if n not in {"in", "side"}]
    rng.shuffle(order)
    out: dict[str, tuple[str, ...]] = {}
    before = ["in", "side"]
    for name in order:
        out[name] = tuple(rng.sample(before, rng.randint(1, 2)))
        before.append(name)
    return out


def changed_live(rng: Random) -> Trial | None:
    """One to three changes that a user may request; None if they are refused."""
    names = NAMES[: rng.randint(3, 5)]
    old = Configuration(operators={name: random_operator(rng, name) for name in names})
    routings = {name: one.routing for name, one in old.operators.items() if one.routing}
    loads = {n: tuple(rng.random() for _ in range(r.bins)) for n, r in routings.items()}
    paper = Paper(configuration=old, facts=StreamFacts(loads=loads))
    asked = random_change(rng, old, ["in"])
    try:
        change = one_change(asked)
        new = change.resolved(old, paper.now.facts)
    except RechannelError:
        return None
    return Trial(
        channels=Channels.both(random_dataflow(rng, names)),
        old=old,
        new=new,
        moves=route_to(new, old, change, paper.now).moves,
        kinds=tuple(one.kind for one in asked),
    )


def changed_program(rng: Random) -> Trial:
    """Another dataflow, perhaps the other way round, with all placements changed as well."""
    was, is_ = (NAMES[: rng.randint(3, 5)] for _ in range(2))
    old = Configuration(operators={name: random_operator(rng, name) for name in was})
    new = Configuration(operators={name: random_operator(rng, name) for name in is_})
    return Trial(
        channels=Channels(before=random_dataflow(rng, was), after=random_dataflow(rng, is_)),
        old=old,
        new=new,
        moves=route(old, new, Sizes()).moves,
        kinds=("program",),
    )


def random_trials(count: int, seed: int = 0) -> list[Trial]:
    rng = Random(seed)
    made: list[Trial] = []
    while len(made) < count:
        trial = changed_live(rng) if rng.random() < 0.8 else changed_program(rng)
        if trial is not None:
            made.append(trial)
    return made


# The rules by hand ---------------------------------------------------------------------------------


def pairs_of(trial: Trial) -> list[tuple[Vertex, Vertex]]:
    """The old and the new vertex of each task that goes on, in the order in which they merge."""
    return [
        (Vertex(name, task, "old"), Vertex(name, task, "new"))
        for name, before in trial.old.operators.items()
        for after in [trial.new.operators.get(name)]
        if after is not None and comparable(before, after)
        for task in range(min(before.tasks, after.tasks))
    ]


def hashes_of(trial: Trial, operator: str, side: Configuration, task: int) -> list[int]:
    """Which of all pieces of the hash space a task owns, by looking at the first hash of each."""
    routings = [c.operators[operator].routing for c in (trial.old, trial.new)]
    cuts = sorted({start for routing in routings if routing for start in routing.starts})
    mine = side.operators[operator].routing
    return [] if mine is None else [c for c in cuts if mine.owners[mine.bin_of(c)] == task]


def state_is_the_same(trial: Trial, operator: str, task: int) -> bool:
    """Whether a task owns the same hashes before and after, and none of them is rewritten."""
    same = hashes_of(trial, operator, trial.old, task) == hashes_of(
        trial, operator, trial.new, task
    )
    rewritten = any(m.stays for m in trial.moves if m.operator == operator and m.source == task)
    return same and not rewritten


def merged_by_hand(trial: Trial) -> set[tuple[str, int]]:
    """Merge pairs one by one in the full graph, as long as it has no cycle."""
    graph, merged = trial.full(), set()
    for one, other in pairs_of(trial):
        closer = nx.contracted_nodes(graph, one, other, self_loops=False)
        if nx.is_directed_acyclic_graph(closer):
            graph = closer
            merged.add((one.operator, one.task))
    return merged


def one_vertex(topology: MetaTopology) -> set[tuple[str, int]]:
    return {
        (one.operator, task) for one in topology.operators for task in (*one.unaffected, *one.kept)
    }


def is_forward(trial: Trial) -> bool:
    """Whether both dataflows go the same way."""
    return nx.is_directed_acyclic_graph(
        nx.DiGraph(
            (up, name)
            for side in (trial.channels.before, trial.channels.after)
            for name, ups in side.items()
            for up in ups
        )
    )


# What holds ----------------------------------------------------------------------------------------


def check_partition(trial: Trial, topology: MetaTopology) -> None:
    """Every task is in exactly one set."""
    for one in topology.operators:
        before = trial.old.operators.get(one.operator)
        after = trial.new.operators.get(one.operator)
        both = Counter([*one.unaffected, *one.kept, *one.replaced])
        was, is_ = both + Counter(one.gone), both + Counter(one.new)
        assert was == Counter(range(before.tasks if before else 0))
        assert is_ == Counter(range(after.tasks if after else 0))


def check_state_invariance(trial: Trial, topology: MetaTopology) -> None:
    """Unaffected are those, and only those, whose state is the same."""
    for one, _ in pairs_of(trial):
        found = topology.of(one.operator)
        same = state_is_the_same(trial, one.operator, one.task)
        assert (one.task in found.unaffected) == same, (one, trial)


def check_graph(trial: Trial, topology: MetaTopology) -> None:
    """Order constraints stay, no cycle appears, and no further pair can merge."""
    full = trial.full()
    assert nx.is_directed_acyclic_graph(full)
    pruned = pruned_graph(full, topology)
    assert nx.is_directed_acyclic_graph(pruned), trial
    merged = one_vertex(topology)

    def image(vertex: Vertex) -> Vertex:
        same = (vertex.operator, vertex.task) in merged
        return vertex._replace(side="both") if same else vertex

    assert set(pruned) == {image(vertex) for vertex in full}
    constraints = {(image(a), image(b)) for a, b in full.edges if image(a) != image(b)}
    assert set(pruned.edges) == constraints
    for one, other in pairs_of(trial):
        if (one.operator, one.task) not in merged:
            closer = nx.contracted_nodes(pruned, one, other, self_loops=False)
            assert not nx.is_directed_acyclic_graph(closer), (one, trial)


def check(trial: Trial) -> MetaTopology:
    topology = trial.topology()
    check_partition(trial, topology)
    if is_forward(trial):
        check_state_invariance(trial, topology)
    check_graph(trial, topology)
    return topology


def check_all(trials: list[Trial]) -> None:
    for trial in trials:
        check(trial)


def test_random_changes_are_pruned_as_by_hand(thorough):
    """Thousands of changes; every kind of change and of vertex is among them."""
    kinds: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    for trial in random_trials(TRIALS * (15 if thorough else 1)):
        topology = check(trial)
        assert one_vertex(topology) == merged_by_hand(trial), trial
        kinds.update(trial.kinds)
        kinds["several"] += len(trial.kinds) > 1
        seen["turned around"] += not is_forward(trial)
        for one in topology.operators:
            for name in ("unaffected", "kept", "replaced", "new", "gone", "state"):
                seen[name] += bool(getattr(one, name))
    wanted = "rescale move split merge rebalance place rewrite assign_workload program several"
    assert min(kinds[kind] for kind in wanted.split()) >= 20, kinds
    assert min(seen.values()) >= 20, seen


def test_bins_and_bytes_of_the_edges_are_those_of_the_moves():
    for trial in random_trials(300, seed=1):
        for one in trial.topology().operators:
            moves = [move for move in trial.moves if move.operator == one.operator]
            assert sum(edge.bins for edge in one.state) == len(moves)
            assert sum(edge.size for edge in one.state) == pytest.approx(sum(m.size for m in moves))


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("_touched", lambda state: frozenset(edge.source for edge in state)),
        ("_touched", lambda state: frozenset(edge.target for edge in state)),
        ("_acyclic", lambda tasks, transfers: frozenset(tasks)),
        ("_acyclic", lambda tasks, transfers: frozenset()),
        ("_mergeable", lambda channels, old, new: frozenset({**old.operators, **new.operators})),
    ],
    ids=["takers forgotten", "givers forgotten", "cycles", "nothing kept", "turned around"],
)
def test_pruning_too_much_or_too_little_is_noticed(monkeypatch, name, fault):
    trials = random_trials(400, seed=2)
    check_all(trials)
    monkeypatch.setattr(pruning, name, fault)
    with pytest.raises(AssertionError):
        check_all(trials)
