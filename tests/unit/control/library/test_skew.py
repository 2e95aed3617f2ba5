"""How uneven an operator is, and what helps."""

import numpy as np
import pytest

from rechannel.control.library.heaviest import Heaviest
from rechannel.control.library.skew import cut_of, is_uneven, remedy, said_of_one_key, skew_of
from rechannel.model.routing import Routing
from rechannel.model.spread import SpreadBin
from rechannel.reconfigure.balance import load_of_tasks

ROUTING = Routing.even(bins=4, tasks=2)


@pytest.mark.parametrize(
    ("rows", "skew"),
    [([1, 1, 1, 1], 0.0), ([3, 0, 1, 0], 0.5), ([4, 4, 0, 0], 1.0), ([0, 0, 0, 0], 0.0)],
)
def test_skew_is_the_busiest_task_over_the_mean(rows, skew):
    assert skew_of(ROUTING, rows) == pytest.approx(skew)


@pytest.mark.parametrize(
    ("skew", "before", "uneven"),
    [(0.31, False, True), (0.3, False, False), (0.2, True, True), (0.1, True, False)],
)
def test_an_operator_stays_uneven_until_it_is_well_below(skew, before, uneven):
    assert is_uneven(skew, before=before, enter=0.3, leave=0.1) is uneven


@pytest.mark.parametrize(
    ("rows", "step"),
    [
        ([5, 5, 5, 5], "none"),
        ([9, 9, 1, 1], "move"),
        ([20, 0, 1, 1], "look"),  # one bin has it all
        ([10, 0, 10, 1], "none"),  # within the tolerance
    ],
)
def test_bins_are_moved_where_that_helps(rows, step):
    assert remedy(ROUTING, rows, 0.1) == step


def test_one_task_is_never_uneven():
    assert remedy(Routing.even(bins=4, tasks=1), [9, 0, 0, 0], 0.1) == "none"


def key(rows: int, *, bin_: int = 0) -> Heaviest:
    return Heaviest(rows=100, key="7", hash=ROUTING.span(bin_)[0] + 5, key_rows=rows)


def test_a_bin_of_many_keys_is_cut():
    cut = cut_of(ROUTING, [80, 0, 10, 10], key(3), 0.1)
    assert (cut.bin, cut.into, cut.one_key) == (0, 4, False)


def test_a_bin_of_one_key_is_not_cut():
    cut = cut_of(ROUTING, [80, 0, 10, 10], key(78), 0.1)
    assert (cut.into, cut.one_key) == (1, True)


def test_what_shares_a_bin_with_a_hot_key_can_move_elsewhere():
    cut = cut_of(ROUTING, [80, 0, 10, 10], key(60), 0.1)
    assert (cut.into, cut.one_key) == (4, True)


def test_a_key_of_another_bin_is_not_the_reason():
    assert not cut_of(ROUTING, [80, 0, 10, 10], key(60, bin_=3), 0.1).one_key


def test_a_bin_of_few_hashes_is_not_cut():
    routing = Routing(starts=(0, 3), owners=(0, 1), tasks=2)
    assert cut_of(routing, [80, 0], Heaviest(rows=100), 0.1).into == 1


def test_a_bin_that_is_spread_is_not_cut():
    lo, hi = ROUTING.span(0)
    shared = ROUTING.with_spreads([SpreadBin(lo=lo, hi=hi, tasks=(0, 1), side=0)])
    rows = [80, 40, 10, 10]
    cut = cut_of(shared, rows, key(3, bin_=1), 0.1)
    assert (cut.bin, cut.into > 1) == (1, True)
    assert cut_of(ROUTING, rows, key(3, bin_=1), 0.1).bin == 0


def test_a_task_that_only_shares_bins_has_none_to_cut():
    """Task 1 shares two bins, and each of their owners one of them."""
    owned = Routing(starts=ROUTING.starts[:4], owners=(0, 2, 0, 0), tasks=3)
    spreads = [
        SpreadBin(lo=owned.span(bin_)[0], hi=owned.span(bin_)[1], tasks=(owner, 1), side=0)
        for bin_, owner in ((0, 0), (1, 2))
    ]
    shared = owned.with_spreads(spreads)
    rows = [80, 80, 0, 0]
    assert load_of_tasks(shared, np.array(rows, dtype=float)).tolist() == [40, 80, 40]
    cut = cut_of(shared, rows, key(80, bin_=1), 0.1)
    assert (cut.bin, cut.into, cut.one_key) == (1, 1, False)


def test_the_log_says_whether_a_hot_key_can_be_spread():
    hot = said_of_one_key("o", key(60), "")
    assert hot == (
        "operator 'o': the key 7 alone has 60% of the rows: rc.control.library.SkewJoin spreads it"
    )
    assert said_of_one_key("o", key(60), "it cannot").endswith("no placement spreads it")
