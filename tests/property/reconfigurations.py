"""Random reconfigurations, legal and illegal, of every kind."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from rechannel import changes
from rechannel.changes import add, change_logic, remove
from rechannel.dataflow.evolution.evolution import stream_of
from rechannel.dataflow.graph.nodes import Dataflow, Sink
from rechannel.dataflow.identity.logic import function_of
from rechannel.engine.reconfigure.cluster import Executor, FixedCluster
from rechannel.engine.stages.bundles import Bundles
from rechannel.model.configuration import Combine, Configuration
from rechannel.model.hashspace import SPACE
from rechannel.model.routing import Routing
from rechannel.reconfigure import strategies
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.strategies import Strategy

EXECUTORS = 4
"""Most that the cluster has room for."""


def random_strategy(rng: Random) -> Strategy:
    """Any strategy, with and without gap, budget and preparation."""
    gentle = rng.choice((strategies.batched, strategies.fluid, strategies.optimized))
    if rng.random() < 0.25:
        return strategies.all_at_once(prepare=rng.random() < 0.5)
    return gentle(
        rng.randint(1, 3),
        gap=rng.choice((0, 0, 1, 2)),
        budget_bytes=rng.choice((None, 1, 200, 10_000)),
        budget_ms=rng.choice((None, None, 0.001, 5.0)),
        prepare=rng.random() < 0.7,
    )


def random_placement(rng: Random, tasks: int) -> Routing:
    """Bins of any width, each at any task."""
    inner = sorted({rng.randrange(1, SPACE) for _ in range(rng.randint(0, 6))})
    owners = tuple(rng.randrange(tasks) for _ in range(len(inner) + 1))
    return Routing(starts=(0, *inner), owners=owners, tasks=tasks)


def random_cluster(rng: Random) -> FixedCluster:
    """Some executors; others come at once, or after some looks, or not before somebody goes."""
    alive = [
        Executor(id=str(n), host=f"h{n % 2}", cores=2) for n in range(rng.randint(1, EXECUTORS))
    ]
    return FixedCluster(alive=alive, room=EXECUTORS, delay=rng.choice((0, 1, 3)), cores=2)


class RandomBundles:
    """Has some tasks of an operator run as one, in half of all cases."""

    def __init__(self, rng: Random) -> None:
        """Begin where another generator is, which goes on as if nothing had been asked of it."""
        self._rng = Random()
        self._rng.setstate(rng.getstate())
        self.made = 0
        """How often some ran as one."""

    def __call__(self, tasks: int) -> Bundles:
        """Deal tasks out."""
        if tasks < 2 or self._rng.random() < 0.5:
            return ()
        self.made += 1
        number = self._rng.randint(1, tasks - 1)
        at = [*range(number), *(self._rng.randrange(number) for _ in range(tasks - number))]
        self._rng.shuffle(at)
        return tuple(
            tuple(task for task in range(tasks) if at[task] == bundle) for bundle in range(number)
        )


def random_executor(rng: Random) -> str | None:
    """One that may be there."""
    return rng.choice((None, *map(str, range(EXECUTORS))))


def random_change(rng: Random, configuration: Configuration, sources: list[str]) -> list[Change]:
    """One to three changes that are asked for together."""
    return [one(rng, configuration, sources) for _ in range(rng.choice((1, 1, 1, 2, 3)))]


def one(rng: Random, configuration: Configuration, sources: list[str]) -> Change:
    """A change; about one in five cannot be."""
    keyed = [name for name, operator in configuration.operators.items() if operator.routing]
    names = [*configuration.operators, "nobody"] if rng.random() < 0.1 else keyed
    name = rng.choice(names or list(configuration.operators))
    operator = configuration.operators.get(name)
    routing = None if operator is None else operator.routing
    bins = 4 if routing is None else routing.bins
    tasks = 2 if operator is None else operator.tasks
    number = rng.randrange(bins + (rng.random() < 0.05))
    kinds = {
        "rescale": lambda: changes.rescale(name, rng.randint(1, 5)),
        "move": lambda: changes.move(
            name,
            [number, rng.randrange(bins)],
            min(rng.randrange(tasks + 1), tasks - (rng.random() < 0.95)),
        ),
        "split": lambda: changes.split(name, number, into=rng.randint(2, 4)),
        "merge": lambda: changes.merge(
            name, [number, number + 1, number + 2][: rng.choice((2, 2, 3))]
        ),
        "rewrite": lambda: changes.rewrite(name),
        "rebalance": lambda: changes.rebalance(name, tolerance=rng.choice((0.0, 0.1, 0.5))),
        "assign_workload": lambda: changes.assign_workload(
            name, random_placement(rng, rng.randint(1, 4))
        ),
        "combine": lambda: changes.combine(name, rng.choice(list(Combine))),
        "set_in_flight": lambda: changes.set_in_flight(rng.randint(1, 3)),
        "set_interval": lambda: changes.set_interval(0),
        "set_bound": lambda: changes.set_bound(rng.choice(sources), 1),
        "place": lambda: changes.place(name, rng.randrange(tasks), random_executor(rng)),
        "executors": lambda: changes.executors(rng.randint(1, EXECUTORS + 1)),
        "spread": lambda: changes.spread(
            _met(rng, keyed, name),
            **_bin_or_key(rng),
            over=rng.choice((2, 2, 3, None)),
            side=rng.choice((None, "left")),
        ),
        "gather": lambda: changes.gather(_spread(rng, configuration, name)),
        "assign_resources": lambda: changes.assign_resources(name, cpus=rng.choice((1, 1, 2, 3))),
    }
    return kinds[rng.choice([*kinds, "spread", "spread"])]()  # type: ignore[no-any-return]


def _met(rng: Random, names: list[str], name: str) -> str:
    """Mostly an operator with two inputs, where there is one."""
    two = [one for one in names if one.startswith(("join", "asof", "lookup"))]
    return rng.choice(two) if two and rng.random() < 0.9 else name


def _bin_or_key(rng: Random) -> dict[str, Any]:
    """The first bins are there in most operators, and so are small keys."""
    if rng.random() < 0.6:
        return {"bin": rng.randrange(4)}
    return {"key": rng.choice((0, 1, 2, (1, 1)))}


def _spread(rng: Random, configuration: Configuration, name: str) -> str:
    """Mostly an operator of which bins are spread, where there is one."""
    operators = configuration.operators.items()
    there = [one for one, o in operators if o.routing is not None and o.routing.spreads]
    return rng.choice(there) if there and rng.random() < 0.9 else name


KINDS = (
    "assign_resources",
    "assign_workload",
    "combine",
    "executors",
    "gather",
    "merge",
    "move",
    "place",
    "rebalance",
    "rescale",
    "rewrite",
    "set_bound",
    "set_in_flight",
    "split",
    "spread",
)


# Changes of the program ----------------------------------------------------------------------------

EXTRA = "extra-"
"""Begins the names of sinks that a schedule adds."""


def otherwise(function: Callable[..., Any], number: int) -> Callable[..., Any]:
    """A function that does the same and is another one."""

    def wrapped(*given: Any, _number: int = number) -> Any:
        return function(*given)

    return wrapped


def random_edit(rng: Random, dataflow: Dataflow) -> list[Any]:
    """Other logic that does the same, one sink more, or one that was added before less."""
    functions = [(n, f) for n in dataflow.nodes if callable(f := function_of(n))]
    sinks = [n for n in dataflow.nodes if isinstance(n, Sink) and not n.name.startswith(EXTRA)]
    added = [n for n in dataflow.nodes if n.name.startswith(EXTRA)]
    edits: list[Any] = []
    if functions and rng.random() < 0.6:
        node, function = rng.choice(functions)
        edits.append(change_logic(node.name, otherwise(function, rng.randrange(1 << 30))))
    if added and rng.random() < 0.5:
        edits.append(remove(rng.choice(added).name))
    if not edits or rng.random() < 0.3:
        sink = rng.choice(sinks)
        name = f"{EXTRA}{sink.name}-{rng.randrange(1 << 30)}"
        edits.append(add(stream_of(dataflow, sink.upstream.name).write.memory(name, name=name)))
    return edits
