"""Which key to spread and when to gather it: the decision, on a model of an operator."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.control.library.hotkeys import Heat
from rechannel.control.library.spreading import (
    Known,
    SpreadKey,
    Wish,
    is_worth_a_look,
    tasks_for,
    wish_of,
)
from rechannel.kernels.protocol.two_sides import LEFT
from rechannel.model.routing import Routing

LOOKS = 3


def heat(number: int, share: float) -> Heat:
    return Heat(hash=number, key=str(number), side=LEFT, share=share)


def wish(shares: dict[int, float], tasks: int, known: Known, over: dict[int, int]) -> Wish | None:
    found = sorted((heat(n, s) for n, s in shares.items()), key=lambda h: -h.share)
    return wish_of(found, tasks, over, known, enter=1.0, leave=0.5)


@dataclass
class Model:
    """An operator whose controller is granted every wish."""

    tasks: int
    known: Known = field(default_factory=Known)
    over: dict[int, int] = field(default_factory=dict)
    changes: list[tuple[str, int, int]] = field(default_factory=list)

    def look(self, shares: dict[int, float]) -> None:
        self.known = self.known.wishing(wish(shares, self.tasks, self.known, self.over))
        wanted = self.known.wish
        if wanted is None or self.known.looks < LOOKS:
            return
        self.changes.append((wanted.kind, wanted.hash, wanted.over))
        self.known = self.known.requested(wanted, 0)
        if wanted.kind == "spread":
            self.over[wanted.hash] = wanted.over
        else:
            del self.over[wanted.hash]


@pytest.mark.parametrize(
    ("heat_", "tasks", "over"), [(1.01, 8, 3), (2.0, 4, 4), (2.0, 8, 4), (3.2, 4, 4), (0.6, 2, 2)]
)
def test_a_hotter_key_gets_more_tasks(heat_, tasks, over):
    assert tasks_for(heat_, tasks) == over


def test_a_key_is_spread_after_several_looks_and_gathered_when_it_is_cool():
    model = Model(tasks=4)
    for _ in range(LOOKS - 1):
        model.look({7: 0.5, 3: 0.1})
    assert model.changes == []
    for _ in range(20):
        model.look({7: 0.5, 3: 0.1})
    assert model.changes == [("spread", 7, 4)]
    for _ in range(20):
        model.look({3: 0.1})
    assert model.changes == [("spread", 7, 4), ("gather", 7, 1)]


def test_a_key_that_is_hot_in_single_looks_is_left_alone():
    model = Model(tasks=4)
    for number in range(40):
        model.look({7: 0.5} if number % 3 else {})
    assert model.changes == []


def test_several_keys_are_spread_one_after_the_other_the_hottest_first():
    model = Model(tasks=4)
    for _ in range(10):
        model.look({7: 0.3, 3: 0.4})
    assert model.changes == [("spread", 3, 4), ("spread", 7, 3)]


def test_a_key_that_gets_much_hotter_is_spread_wider_and_never_narrower():
    model = Model(tasks=16)
    for share in (0.07, 0.2, 0.07):
        for _ in range(10):
            model.look({7: share})
    assert model.changes == [("spread", 7, 3), ("spread", 7, 7)]


def test_what_was_refused_is_not_wished_again():
    known = Known(refused=(7,))
    assert wish({7: 0.9}, 4, known, {}) is None
    found = wish({7: 0.5, 3: 0.4}, 4, known, {})
    assert found is not None
    assert found.hash == 3
    assert Known().wishing(found).refusing(found).refused == (3,)


def test_what_is_refused_may_be_wished_again_once_it_has_cooled():
    known = Known(refused=(7,)).wishing(None)
    assert known.refused == (7,)
    assert known.cooled([heat(7, 0.2)], 4, leave=0.5).refused == (7,)
    assert known.cooled([heat(7, 0.1), heat(3, 0.9)], 4, leave=0.5).refused == ()


def test_what_others_have_spread_is_left_alone():
    assert wish({7: 0.9}, 4, Known(), {7: 2}) is None
    assert wish({}, 4, Known(), {7: 2}) is None


def test_what_others_have_gathered_is_spread_again():
    known = Known(spread=(SpreadKey(hash=7, key="7", side=LEFT),))
    found = wish({7: 0.9}, 4, known, {})
    assert found is not None
    assert found.kind == "spread"
    assert (Known().waits(found, 8), known.waits(found, 8)) == (8, 16)
    known = known.requested(found, 5)
    assert known.spread == (SpreadKey(hash=7, key="7", side=LEFT, again=1),)
    assert known.waits(found, 8) == 32
    assert wish({}, 4, known, {}) is None


@given(
    tasks=st.integers(2, 64),
    shares=st.lists(st.floats(0, 0.5), min_size=1, max_size=6),
)
def test_constant_shares_never_oscillate(tasks: int, shares: list[float]) -> None:
    model, total = Model(tasks=tasks), max(1.0, sum(shares))
    run(model, lambda _: {n: s / total for n, s in enumerate(shares)})
    assert all(kind == "spread" for kind, _, _ in model.changes)
    keys = [number for _, number, _ in model.changes]
    assert len(keys) == len(set(keys))
    assert set(keys) == {n for n, s in enumerate(shares) if s / total * tasks > 1.0}


@given(
    tasks=st.integers(2, 64),
    share=st.floats(0.001, 0.8),
    noise=st.lists(st.floats(0.8, 1.2), min_size=200, max_size=200),
)
def test_shares_that_vary_by_a_fifth_never_oscillate(
    tasks: int, share: float, noise: list[float]
) -> None:
    model = Model(tasks=tasks)
    run(model, lambda number: {7: share * noise[number]})
    assert all(kind == "spread" for kind, _, _ in model.changes)
    assert len(model.changes) <= 1


def run(model: Model, shares: Callable[[int], dict[int, float]]) -> None:
    for number in range(200):
        model.look(shares(number))


ROUTING = Routing.even(bins=4, tasks=2)


@pytest.mark.parametrize(
    ("rows", "worth"), [([9, 1, 1, 1], True), ([3, 3, 3, 3], False), ([0, 0, 0, 0], False)]
)
def test_only_a_bin_with_more_than_a_task_has_may_hold_a_hot_key(rows, worth):
    assert is_worth_a_look(ROUTING, rows, 1.0) is worth
    assert not is_worth_a_look(Routing.even(bins=4, tasks=1), rows, 1.0)
