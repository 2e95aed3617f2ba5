"""Random changes of random configurations, by any strategy, against what can be counted by hand."""

from __future__ import annotations

import json
from collections import Counter
from copy import deepcopy
from dataclasses import replace
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rechannel import changes
from rechannel.errors import RechannelError
from rechannel.model.codec import decode, encode
from rechannel.model.configuration import Combine, Configuration, OperatorConfiguration
from rechannel.model.hashspace import SPACE
from rechannel.model.routing import Routing, even_starts
from rechannel.model.spread import SpreadBin
from rechannel.reconfigure import strategies
from rechannel.reconfigure.balance import load_of_tasks, rebalanced, rescaled
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.changes.registry import KINDS
from rechannel.reconfigure.changes.together import one_change
from rechannel.reconfigure.coordination import Coordination
from rechannel.reconfigure.coordinator import decide
from rechannel.reconfigure.events import event_from_json
from rechannel.reconfigure.grouping import matched
from rechannel.reconfigure.plan import Plan, plan
from rechannel.reconfigure.record import Phase
from rechannel.reconfigure.steps import BinMove, Sizes, Step, apply_step, route
from rechannel.reconfigure.strategies import Strategy, steps_of
from rechannel.reconfigure.stream_facts import StreamFacts
from tests.support.changing import Paper, budget_of, program

NAMES = ("counts", "sums")
EXECUTORS = st.sampled_from(["1", "2", "3"])


@st.composite
def routings(draw, tasks: int | None = None) -> Routing:
    tasks = tasks or draw(st.integers(1, 5))
    bins = draw(st.integers(1, 10))
    inner = draw(st.sets(st.integers(1, SPACE - 1), min_size=bins - 1, max_size=bins - 1))
    starts = even_starts(bins) if draw(st.booleans()) else (0, *sorted(inner))
    owners = draw(st.lists(st.integers(0, tasks - 1), min_size=bins, max_size=bins))
    return Routing(starts=starts, owners=tuple(owners), tasks=tasks)


@st.composite
def shared_routings(draw) -> Routing:
    """Routings of which a bin or two may be spread."""
    routing = draw(routings())
    if routing.tasks < 2:
        return routing
    spreads = []
    for number in draw(st.sets(st.integers(0, routing.bins - 1), max_size=2)):
        owner, (lo, hi) = routing.owners[number], routing.span(number)
        others = st.sampled_from([task for task in range(routing.tasks) if task != owner])
        tasks = (owner, *draw(st.lists(others, min_size=1, max_size=3, unique=True)))
        cut = draw(st.sampled_from([(), (str(lo), str(hi)), (str(hi),)]))
        spreads.append(SpreadBin(lo=lo, hi=hi, tasks=tasks, side=draw(st.integers(0, 1)), cut=cut))
    return routing.with_spreads(spreads)


@st.composite
def operators(draw) -> OperatorConfiguration:
    routing = draw(shared_routings())
    placed = st.dictionaries(st.integers(0, routing.tasks - 1), EXECUTORS, max_size=2)
    return OperatorConfiguration(
        tasks=routing.tasks,
        routing=routing,
        combine=draw(st.sampled_from(Combine)),
        combining=draw(st.booleans()),
        logic=draw(st.integers(1, 3)),
        placement=draw(placed),
    )


@st.composite
def configurations(draw) -> Configuration:
    return Configuration(
        operators={
            "in": OperatorConfiguration(tasks=draw(st.integers(1, 3))),
            **{name: draw(operators()) for name in NAMES},
        },
        interval_ms=draw(st.integers(0, 9)),
        in_flight=draw(st.integers(1, 3)),
        bounds=draw(st.dictionaries(st.just("in"), st.integers(1, 9))),
        executors=draw(st.none() | st.integers(1, 4)),
    )


def kinds_of_change() -> dict[str, st.SearchStrategy[Change]]:
    """Every kind; what it is asked of may refuse it."""
    name, few = st.sampled_from(NAMES), st.integers(0, 9)
    return {
        "assign_workload": st.builds(changes.assign_workload, name, routings()),
        "assign_resources": st.builds(changes.assign_resources, name, cpus=st.integers(1, 3)),
        "rescale": st.builds(changes.rescale, st.sampled_from(("in", *NAMES)), st.integers(1, 6)),
        "rebalance": st.builds(changes.rebalance, name, tolerance=st.floats(0, 1)),
        "move": st.builds(changes.move, name, st.lists(few, min_size=1, max_size=6), st.integers(0, 4)),
        "split": st.builds(changes.split, name, few, into=st.integers(2, 4)),
        "merge": st.builds(lambda n, first, more: changes.merge(n, range(first, first + more)),
                           name, few, st.integers(2, 4)),
        "rewrite": st.builds(changes.rewrite, name),
        "spread": st.builds(
            changes.spread, name, bin=few, over=st.none() | st.integers(2, 4),
            side=st.sampled_from([None, "left", "right"]),
        ) | st.builds(changes.spread, name, hash=st.integers(0, SPACE - 1)),
        "gather": st.builds(changes.gather, name, bin=st.none() | few),
        "place": st.builds(changes.place, name, st.integers(0, 4), st.none() | EXECUTORS),
        "combine": st.builds(changes.combine, name, st.sampled_from(Combine)),
        "set_interval": st.builds(changes.set_interval, few),
        "set_in_flight": st.builds(changes.set_in_flight, st.integers(1, 4)),
        "set_bound": st.builds(changes.set_bound, st.just("in"), st.none() | st.integers(1, 9)),
        "executors": st.builds(changes.executors, st.integers(1, 4)),
        "change_program": st.builds(
            lambda version, new, gone, logic: program(
                version, operators={"new": encode(new)}, removed=gone, logic=logic
            ),
            st.integers(2, 9), operators(), st.sampled_from([(), ("sums",)]),
            st.dictionaries(name, st.integers(1, 9)),
        ),
    }  # fmt: skip


ONE_CHANGE = st.one_of(*kinds_of_change().values())
LIVE_CHANGE = st.one_of(*(s for kind, s in kinds_of_change().items() if kind != "change_program"))
CHANGES = st.lists(ONE_CHANGE, min_size=1, max_size=3).map(one_change)


@st.composite
def gentleness(draw) -> Strategy:
    """Any strategy."""
    prepare = draw(st.booleans())
    kind = draw(
        st.sampled_from(
            [strategies.all_at_once, strategies.batched, strategies.fluid, strategies.optimized]
        )
    )
    if kind is strategies.all_at_once:
        return strategies.all_at_once(prepare=prepare)
    return kind(
        draw(st.integers(1, 4)),
        gap=draw(st.integers(0, 2)),
        budget_bytes=draw(st.none() | st.integers(1, 60)),
        budget_ms=draw(st.none() | st.floats(0.01, 1)),
        prepare=prepare,
    )


class Joining:
    """An operator whose keys tasks can share."""

    def undivided(self, side: int) -> str | None:
        """Both sides can be dealt out."""
        del side
        return None

    def hash_of(self, key: object) -> int:
        """All keys have one hash."""
        del key
        return 5


def facts_of(configuration: Configuration, data) -> StreamFacts:
    """Loads of all bins as they are now."""
    heat = st.floats(0, 1e6)
    loads = {}
    for name, operator in configuration.operators.items():
        if operator.routing is not None:
            bins = operator.routing.bins
            loads[name] = tuple(data.draw(st.lists(heat, min_size=bins, max_size=bins)))
    return StreamFacts(
        loads=loads,
        combinable=frozenset(NAMES),
        divisible=dict.fromkeys(NAMES, Joining()),
        sources=frozenset({"in"}),
    )


def sizes_of(configuration: Configuration, data) -> Sizes:
    bins = {}
    for name, operator in configuration.operators.items():
        if operator.routing is not None:
            count = operator.routing.bins
            drawn = data.draw(st.lists(st.integers(0, 50), min_size=count, max_size=count))
            bins[name] = (operator.routing.starts, tuple(map(float, drawn)))
    return Sizes(bins=bins)


def resolved(configuration: Configuration, change: Change, facts: StreamFacts) -> Configuration:
    """The target of a change that can be."""
    try:
        return change.resolved(configuration, facts)
    except RechannelError:
        assume(False)
        raise


def unversioned(configuration: Configuration) -> Configuration:
    return replace(configuration, version=0)


# Steps ---------------------------------------------------------------------------------------------


@given(configurations(), CHANGES, gentleness(), st.data())
def test_all_steps_lead_exactly_to_the_target_through_valid_configurations(
    here, change, strategy, data
):
    target = resolved(here, change, facts_of(here, data))
    steps = steps_of(route(here, target, sizes_of(here, data)), strategy, budget_of(strategy))
    made = here
    for number, step in enumerate(steps, 1):
        made = apply_step(made, step)  # a Configuration that exists is valid
        assert made.version == here.version + number
        for operator in made.operators.values():
            assert operator.routing is None or operator.routing.tasks == operator.tasks
    assert unversioned(made) == unversioned(target)


@given(configurations(), configurations(), gentleness())
def test_there_is_a_way_between_any_two_configurations(here, there, strategy):
    steps = steps_of(route(here, there, Sizes()), strategy)
    assert unversioned(reduce(apply_step, steps, here)) == unversioned(there)


@given(configurations(), configurations())
def test_only_hashes_that_get_another_task_move(here, there):
    found = route(here, there, Sizes())
    for name in NAMES:
        old, new = here.operators[name].routing, there.operators[name].routing
        assert old is not None
        assert new is not None
        moved = sum(move.hi - move.lo for move in found.moves if move.operator == name)
        kept = sum(
            old.intervals_of(task).intersect(new.intervals_of(task)).width
            for task in range(max(old.tasks, new.tasks))
        )
        assert moved == SPACE - kept


@given(configurations(), configurations(), gentleness())
def test_every_move_is_in_one_group_and_optimized_uses_a_task_once(here, there, strategy):
    moves = route(here, there, Sizes()).moves
    groups = list(strategy.groups(moves))
    assert Counter(move for group in groups for move in group) == Counter(moves)
    optimized = list(matched(moves, 2))
    assert Counter(move for group in optimized for move in group) == Counter(moves)
    for group in optimized:
        transfers = {(move.operator, move.source, move.target) for move in group}
        busy = Counter((name, task) for name, *pair in transfers for task in pair)
        assert set(busy.values()) <= {1}
        pairs = Counter((move.operator, move.source, move.target) for move in group)
        assert set(pairs.values()) <= {1, 2}


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=9))
def test_no_step_of_optimized_could_have_more_transfers(transfers):
    waiting = [
        BinMove(operator="counts", lo=at, hi=at + 1, source=source, target=target)
        for at, (source, target) in enumerate(transfers)
    ]
    for group in matched(tuple(waiting), 1):
        assert len(group) == most_transfers({(move.source, move.target) for move in waiting})
        waiting = [move for move in waiting if move not in group]
    assert not waiting


def most_transfers(left: set[tuple[int, int]]) -> int:
    """How many transfers can go side by side, by trying all."""
    if not left:
        return 0
    first, *others = left
    apart = {pair for pair in others if not set(pair) & set(first)}
    return max(1 + most_transfers(apart), most_transfers(set(others)))


@given(configurations(), configurations(), gentleness(), st.integers(1, 100), st.data())
def test_a_step_keeps_the_budget_unless_it_is_a_single_bin(here, there, strategy, budget, data):
    found = route(here, there, sizes_of(here, data))
    for step in steps_of(found, strategy, budget):
        assert step.size <= budget or len(step.moves) == 1


# Balance -------------------------------------------------------------------------------------------


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 12), st.data())
def test_rescaling_even_bins_is_balanced_and_moves_no_bin_more_than_it_must(
    bins, before, tasks, data
):
    owners = data.draw(st.lists(st.integers(0, before - 1), min_size=bins, max_size=bins))
    routing = Routing(starts=even_starts(bins), owners=tuple(owners), tasks=before)
    after = rescaled(routing, tasks)
    held = [after.owners.count(task) for task in range(tasks)]
    assert max(held) - min(held) <= 1
    # A task can keep its base share, and as many tasks as there are odd bins one more.
    base, odd = divmod(bins, tasks)
    had = [owners.count(task) for task in range(tasks)]
    kept = sum(min(count, base) for count in had)
    kept += min(odd, sum(count > base for count in had))
    stayed = sum(a == b for a, b in zip(owners, after.owners, strict=True))
    assert stayed == kept


@given(routings(), st.integers(1, 8))
def test_rescaling_keeps_the_bins_and_needs_no_more_tasks_than_asked_for(routing, tasks):
    after = rescaled(routing, tasks)
    assert (after.starts, after.tasks) == (routing.starts, tasks)


@given(routings(), st.floats(0, 1), st.data())
def test_rebalancing_never_makes_the_busiest_busier_and_stops_only_when_nothing_helps(
    routing, tolerance, data
):
    whole = st.integers(0, 1000)
    heat = data.draw(st.lists(whole, min_size=routing.bins, max_size=routing.bins))
    after = rebalanced(routing, heat, tolerance)
    assert (after.starts, after.tasks) == (routing.starts, routing.tasks)
    weights = np.array(heat, dtype=float)
    old, new = load_of_tasks(routing, weights), load_of_tasks(after, weights)
    assert new.max() <= old.max()
    assert new.sum() == old.sum()
    if new.max() > (1 + tolerance) * sum(heat) / routing.tasks:
        busiest = int(np.argmax(new))
        for number in after.bins_of(busiest):
            for task in range(after.tasks):
                pair = max(new[busiest] - heat[number], new[task] + heat[number])
                assert task == busiest or heat[number] == 0 or pair >= new[busiest]


# The coordinator -----------------------------------------------------------------------------------


def finish(paper: Paper, most: int = 500) -> None:
    """Timesteps until everything is over."""
    for _ in range(most):
        if not paper.state.open:
            return
        paper.step()
    pytest.fail(f"still open: {paper.phases()}")


def steps_before_the_last(paper: Paper, most: int) -> int:
    """How many timesteps the first change can go on without being made as a whole."""
    ahead, count = deepcopy(paper), 0
    while count < most:
        ahead.step()
        record = ahead.state.find("r1")
        if not record.open or (record.taken and not record.left):
            break
        count += 1
    return count


def paper_of(here: Configuration, data) -> Paper:
    return Paper(configuration=here, facts=facts_of(here, data))


@given(configurations(), st.lists(st.tuples(CHANGES, gentleness()), max_size=5), st.data())
def test_changes_made_side_by_side_lead_where_they_lead_one_behind_the_other(here, wanted, data):
    paper = paper_of(here, data)
    target = here
    for change, strategy in wanted:
        for _ in range(data.draw(st.integers(0, 3))):
            paper.step()
        try:
            paper.ask(change, strategy)
        except RechannelError:
            continue
        target = change.resolved(target, paper.facts)
    finish(paper)
    assert set(paper.phases().values()) <= {"done"}
    assert unversioned(paper.configuration) == unversioned(target)


@given(configurations(), LIVE_CHANGE, gentleness(), st.data())
def test_one_that_is_led_back_leaves_nothing_behind(here, change, strategy, data):
    paper = paper_of(here, data)
    resolved(here, change, paper.facts)
    paper.ask(change, strategy)
    for _ in range(data.draw(st.integers(0, steps_before_the_last(paper, 6)))):
        paper.step()
    record = paper.state.find("r1")
    assume(record.open and (record.left or not record.taken))
    paper.abort("r1")
    finish(paper)
    assert unversioned(paper.configuration) == unversioned(here)
    assert paper.phase("r1") == ("undone" if record.taken else "aborted")


@given(configurations(), st.lists(st.tuples(LIVE_CHANGE, gentleness()), max_size=6), st.data())
def test_whatever_is_asked_aborted_superseded_or_resumed_everything_ends(here, wanted, data):
    paper = paper_of(here, data)
    for change, strategy in wanted:
        for _ in range(data.draw(st.integers(0, 2))):
            paper.idle = data.draw(st.integers(0, 5)) == 0
            paper.step()
        at = data.draw(st.none() | st.integers(paper.timestep, paper.timestep + 3))
        try:
            paper.ask(change, strategy, at=at, supersede=data.draw(st.booleans()))
            if data.draw(st.booleans()):
                paper.abort(data.draw(st.sampled_from([r.id for r in paper.state.records])))
        except RechannelError:
            pass
        if data.draw(st.integers(0, 3)) == 0:
            paper.resume()
            paper.prepare(*paper.phases())
    paper.idle = False
    for record in paper.state.open:
        paper.prepare(record.id)
    finish(paper)
    failed = [r.reason for r in paper.state.records if r.phase is Phase.FAILED]
    assert not [reason for reason in failed if "no longer fits" in reason]


FEW = st.one_of(
    st.builds(
        changes.move, st.just("counts"), st.sets(st.integers(0, 5), min_size=2), st.integers(0, 1)
    ),
    st.builds(changes.merge, st.just("counts"), st.sampled_from([(0, 1), (2, 3)])),
    st.builds(changes.split, st.just("counts"), st.integers(0, 3)),
    st.builds(changes.rescale, st.just("counts"), st.integers(2, 4)),
)
GENTLE = st.builds(strategies.fluid, gap=st.integers(0, 1))


@given(
    st.lists(st.tuples(FEW, GENTLE, st.none() | st.integers(0, 2), st.integers(0, 2)), max_size=7)
)
def test_no_change_of_an_operator_gets_into_the_way_of_another(wanted):
    """Some are for a timestep, some as soon as possible: each is made whole, or was impossible when it began."""
    paper = Paper()
    for change, strategy, later, pause in wanted:
        try:
            paper.ask(change, strategy, at=None if later is None else paper.timestep + later)
        except RechannelError:
            continue
        paper.step(pause)
    finish(paper)
    for record in paper.state.records:
        assert record.phase is Phase.DONE or not record.taken, record.reason


@given(configurations(), LIVE_CHANGE, gentleness(), st.data())
def test_a_border_keeps_the_gap_and_the_budget(here, change, strategy, data):
    paper = paper_of(here, data)
    paper.size = data.draw(st.integers(0, 30))
    resolved(here, change, paper.facts)
    paper.ask(change, strategy)
    finish(paper)
    taken, budget = paper.state.find("r1").taken, budget_of(strategy)
    for step in taken:
        assert budget is None or step.bins <= 1 or step.size <= budget
    for one, other in pairwise(taken):
        assert other.timestep == one.timestep + 1 + strategy.gap


@given(configurations(), st.lists(st.tuples(LIVE_CHANGE, gentleness()), max_size=4), st.data())
def test_a_change_for_a_timestep_holds_from_there_whatever_else_goes_on(here, others, data):
    paper = paper_of(here, data)
    for change, strategy in others:
        try:
            paper.ask(change, strategy)
        except RechannelError:
            continue
        paper.step()
    at = paper.timestep + data.draw(st.integers(0, 3))
    paper.ask([changes.assign_resources("counts", cpus=9), changes.set_interval(77)], at=at)
    while paper.timestep < at:
        paper.step()
        assert paper.configuration.interval_ms != 77
    paper.step()
    assert paper.configuration.interval_ms == 77
    assert paper.configuration.operators["counts"].resources.cpus == 9


# Values --------------------------------------------------------------------------------------------


@given(CHANGES, gentleness())
def test_changes_and_strategies_are_read_as_they_were_written(change, strategy):
    assert KINDS.read(json.loads(json.dumps(change.to_json()))) == change
    assert strategies.from_json(json.loads(json.dumps(strategy.to_json()))) == strategy


@given(configurations(), CHANGES, gentleness(), st.data())
def test_steps_plans_events_and_the_whole_state_are_read_as_they_were_written(
    here, change, strategy, data
):
    paper = paper_of(here, data)
    target = resolved(here, change, paper.facts)
    for step in steps_of(route(here, target, Sizes()), strategy):
        assert decode(Step, json.loads(json.dumps(encode(step)))) == step
    made = plan(paper.state, change, strategy, replace(paper.now, sizes=Sizes()), 0.0)
    assert Plan.from_json(json.loads(json.dumps(made.to_json()))) == made
    paper.ask(change, strategy)
    for _ in range(3):
        decision = decide(paper.state, paper.now)
        for event in (*decision.events, *decision.steps):
            assert event_from_json(json.loads(json.dumps(event.to_json()))) == event
        paper.step()
        text = json.dumps(encode(paper.state), allow_nan=False)
        assert decode(Coordination, json.loads(text)) == paper.state


def test_every_kind_of_change_is_among_the_random_ones():
    known = {kind.kind for kind in KINDS}
    assert set(kinds_of_change()) == known - {"assign_logic", "together"}
