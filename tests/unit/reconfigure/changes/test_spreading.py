"""`spread` and `gather`: what they mean for a Configuration, the way there and back, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from rechannel import changes
from rechannel.errors import RefusedError
from rechannel.model.configuration import Configuration
from rechannel.model.hashspace import SPACE
from rechannel.model.routing import Routing
from rechannel.model.spread import SpreadBin
from rechannel.reconfigure.changes.together import Together
from rechannel.reconfigure.planfile import checked_way
from rechannel.reconfigure.requests import check_fixed
from rechannel.reconfigure.steps import Sizes, apply_steps, route
from rechannel.reconfigure.strategies import all_at_once, steps_of
from rechannel.reconfigure.stream_facts import StreamFacts
from rechannel.reconfigure.topology.pruning import meta_topology
from rechannel.reconfigure.topology.values import Channels
from tests.support.changing import configuration, keyed

HASH = 12345


@dataclass
class Joining:
    """An operator with two inputs; refused: by side."""

    refused: tuple[str | None, str | None] = (None, None)

    def undivided(self, side: int) -> str | None:
        return self.refused[side]

    def hash_of(self, key: Sequence[Any]) -> int:
        if list(key) != ["hot"]:
            msg = "no such key"
            raise RefusedError(msg)
        return HASH


FACTS = StreamFacts(
    divisible={
        "pairs": Joining(),
        "left": Joining((None, "a left join")),
        "full": Joining(("a full join", "a full join")),
    },
    loads={"pairs": (5.0, 1.0, 4.0, 0.0)},
    rows_of_sides={"pairs": (10.0, 90.0)},
    combinable=frozenset({"sums"}),
)
HERE = configuration(
    pairs=keyed(4, 4), left=keyed(4, 4), full=keyed(4, 4), sums=keyed(2, 4), single=keyed(1, 4)
)


def after(change: Any, here: Configuration = HERE, facts: StreamFacts = FACTS) -> Routing:
    """The bins of the operator after a change."""
    routing = change.resolved(here, facts).operators[change.operator].routing
    assert routing is not None
    return routing


def test_a_key_gets_a_bin_of_its_own_which_the_least_loaded_tasks_share():
    routing = after(changes.spread("pairs", "hot", over=2))
    assert routing.starts[:3] == (0, HASH, HASH + 1)
    (spread,) = routing.spreads
    # Loads are those of other bins now, so the next task is taken; the right side has more rows.
    assert spread == SpreadBin(
        lo=HASH, hi=HASH + 1, tasks=(0, 1), side=1, cut=(str(HASH), str(HASH + 1))
    )


def test_a_bin_is_shared_by_its_owner_and_the_tasks_with_the_least_load():
    (spread,) = after(changes.spread("pairs", bin=0, over=3)).spreads
    assert (spread.tasks, spread.cut) == ((0, 3, 1), ())
    (spread,) = after(changes.spread("pairs", bin=2, over=[3, 2])).spreads
    assert spread.tasks == (2, 3)
    (spread,) = after(changes.spread("pairs", bin=2)).spreads
    assert sorted(spread.tasks) == [0, 1, 2, 3]


def test_the_last_hash_of_the_space_can_be_spread():
    routing = after(changes.spread("pairs", hash=SPACE - 1, over=2))
    assert routing.starts[-1] == SPACE - 1
    assert routing.spreads[0].hi == SPACE


def test_the_side_follows_from_the_kind_of_join_then_from_the_rows():
    assert after(changes.spread("pairs", bin=0)).spreads[0].side == 1
    assert after(changes.spread("pairs", bin=0, side="left")).spreads[0].side == 0
    assert after(changes.spread("left", bin=0)).spreads[0].side == 0
    assert (
        after(changes.spread("pairs", bin=0), facts=replace(FACTS, rows_of_sides={}))
        .spreads[0]
        .side
        == 0
    )


def then(*parts: Any) -> Configuration:
    """The Configuration after some changes."""
    here = HERE
    for part in parts:
        here = part.resolved(here, FACTS)
    return here


def test_gathered_bins_are_those_before():
    hot = changes.spread("pairs", "hot", over=3)
    for back in (
        changes.gather("pairs"),
        changes.gather("pairs", "hot"),
        changes.gather("pairs", hash=HASH),
        changes.gather("pairs", bin=1),
    ):
        assert then(hot, back) == HERE


def test_hot_keys_in_one_bin_are_spread_and_gathered_one_by_one():
    keys = [HASH, HASH + 1, HASH + 700]
    here = then(*(changes.spread("pairs", hash=hash_, over=2) for hash_ in keys))
    routing = here.operators["pairs"].routing
    assert routing is not None
    assert [spread.lo for spread in routing.spreads] == keys
    assert (
        then(
            *(changes.spread("pairs", hash=hash_, over=2) for hash_ in keys),
            changes.gather("pairs"),
        )
        == HERE
    )
    one = changes.gather("pairs", hash=HASH + 1).resolved(here, FACTS).operators["pairs"].routing
    assert one is not None
    assert [spread.lo for spread in one.spreads] == [HASH, HASH + 700]


def test_spread_again_a_key_is_shared_by_other_tasks():
    routing = after(
        changes.spread("pairs", "hot", over=4, side="left"),
        then(changes.spread("pairs", "hot", over=2)),
    )
    (spread,) = routing.spreads
    assert (len(spread.tasks), spread.side, spread.cuts) == (4, 0, {HASH, HASH + 1})


def test_other_changes_leave_it_where_it_is():
    hot = then(changes.spread("pairs", "hot", over=[0, 2]))
    before = hot.operators["pairs"].routing
    assert before is not None
    for change in (
        changes.rescale("pairs", 3),
        changes.rescale("pairs", 5),
        changes.rescale("pairs", 4),
        changes.move("pairs", 3, 0),
        changes.split("pairs", 4),
        changes.merge("pairs", [3, 4]),
        changes.assign_workload("pairs", replace(before, owners=(1, 0, 1, 1, 2, 3))),
    ):
        assert after(change, hot).spreads == before.spreads
    loads = replace(FACTS, loads={"pairs": (9.0, 90.0, 9.0, 1.0, 1.0, 1.0)})
    even = after(changes.rebalance("pairs"), hot, loads)
    assert even.spreads == before.spreads
    assert even.owners != before.owners


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            changes.spread("full", "hot"),
            "'full' cannot share the rows of a key among tasks: a full join",
        ),
        (changes.spread("left", "hot", side="right"), "rows of its right side: a left join"),
        (changes.spread("sums", bin=0), "have to meet in one task. Pre-aggregate it with combine"),
        (changes.spread("in", bin=0), "keeps no state"),
        (changes.spread("pairs"), "give key=, bin= or hash="),
        (changes.spread("pairs", "hot", bin=0), "give one of key=, bin="),
        (changes.spread("pairs", "cold"), "no such key"),
        (changes.spread("pairs", bin=4), "has bins 0 to 3"),
        (changes.spread("pairs", hash=SPACE), "less than 2\\^64"),
        (changes.spread("pairs", bin=0, over=5), "has 4 tasks, not 5"),
        (changes.spread("pairs", bin=0, over=[1, 2]), "among them task 0"),
        (changes.spread("pairs", bin=0, over=[0, 4]), "two or more of its tasks 0 to 3"),
        (changes.gather("pairs"), "no bin is spread"),
        (changes.gather("pairs", bin=1), "bin 1 is not spread"),
        (changes.gather("sums", "hot"), "key columns of operator 'sums' are not known"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(change, reason):
    with pytest.raises(RefusedError, match=reason):
        change.resolved(HERE, FACTS)


def test_one_task_cannot_share():
    facts = replace(FACTS, divisible={"single": Joining()})
    with pytest.raises(RefusedError, match="has one task: rescale it first"):
        changes.spread("single", bin=0).resolved(HERE, facts)


@pytest.mark.parametrize(
    "fields",
    [
        {"over": 1},
        {"over": [-1, 0]},
        {"side": "middle"},
        {"hash": -1},
        {"key": ()},
        {"key": ("x" * 10_001,)},
        {"key": (1,) * 65},
    ],
)
def test_fields_are_checked(fields):
    with pytest.raises(RefusedError, match="spread: "):
        changes.spread("pairs", **fields)


@pytest.mark.parametrize(
    "change",
    [
        changes.rescale("pairs", 2),
        changes.move("pairs", 1, 3),
        changes.split("pairs", 1),
        changes.merge("pairs", [1, 2]),
        changes.assign_workload("pairs", Routing.even(bins=4, tasks=4)),
    ],
)
def test_what_would_disturb_a_spread_bin_names_gather(change):
    hot = then(changes.split("pairs", 0), changes.spread("pairs", bin=1, over=[0, 2]))
    with pytest.raises(RefusedError, match=r"gather\('pairs'"):
        change.resolved(hot, FACTS)


WAYS = [
    (HERE, then(changes.spread("pairs", "hot", over=3))),
    (then(changes.spread("pairs", "hot", over=3)), HERE),
    (then(changes.spread("pairs", "hot", over=3)), then(changes.spread("pairs", "hot", over=2))),
    (
        then(changes.spread("pairs", "hot", over=2)),
        then(
            changes.split("pairs", 3, into=4),
            changes.rescale("pairs", 6),
            changes.spread("pairs", bin=2, over=[5, 2]),
        ),
    ),
    (
        then(changes.spread("pairs", bin=1, over=[1, 3])),
        then(
            changes.spread("pairs", bin=1, over=[1, 3]),
            changes.spread("pairs", bin=2),
            changes.move("pairs", 0, 3),
        ),
    ),
]


@pytest.mark.parametrize(("here", "there"), WAYS)
def test_a_way_leads_there_and_back(here, there):
    for before, target in ((here, there), (there, here)):
        steps = steps_of(route(before, target, Sizes()), all_at_once())
        assert replace(apply_steps(before, steps), version=1) == target
        check_fixed(steps, before, target)


def test_steps_are_checked_as_those_of_a_plan_file():
    from rechannel.model.codec import encode

    for here, there in WAYS:
        steps = steps_of(route(here, there, Sizes()), all_at_once())
        checked_way(
            {"format": 2, "steps": list(map(encode, steps)), "timesteps": 1, "cost_ms": 0.0}
        )


@pytest.mark.parametrize(("meant", "tasks"), [({"bin": 0}, [0, 3, 1]), ({"key": "hot"}, [0, 1, 2])])
def test_a_request_is_pinned_to_the_tasks_that_it_leads_to(meant, tasks):
    change = changes.spread("pairs", **meant, over=3)
    there = change.resolved(HERE, FACTS)
    pinned = change.pinned(there, FACTS)
    assert pinned == changes.spread("pairs", **meant, over=tasks, side="right")
    other = replace(
        FACTS, loads={"pairs": (1.0, 9.0, 1.0, 0.0)}, rows_of_sides={"pairs": (9.0, 1.0)}
    )
    assert change.resolved(HERE, other) != there
    assert pinned.resolved(HERE, other) == there


def test_several_at_once():
    both = Together((changes.spread("pairs", "hot", over=2), changes.spread("left", bin=3, over=2)))
    made = both.resolved(HERE, FACTS)
    assert [len(made.operators[name].routing.spreads) for name in ("pairs", "left")] == [1, 1]  # type: ignore[union-attr]


def test_state_is_shared_with_the_tasks_that_read_it():
    there = then(changes.spread("pairs", "hot", over=[0, 2]))
    for before, target in ((HERE, there), (there, HERE)):
        moves = route(before, target, Sizes()).moves
        assert not moves
        topology = meta_topology(Channels(), before, target, moves).of("pairs")
        edges = {(edge.source, edge.target) for edge in topology.state}
        assert edges == ({(0, 2)} if target is there else {(2, 0)})
        assert set(topology.unaffected) == {1, 3}
