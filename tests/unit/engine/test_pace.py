"""How fast state is fetched ahead, and when that is enough."""

import pytest

from rechannel.engine.pace import FIRST_PIECE, PASSES, Pace, worth_another


def done(*, fetched, ms, present=0):
    return {"bytes_fetched": fetched, "bytes_present": present, "ms": ms}


def test_pieces_grow_until_one_takes_as_long_as_it_may():
    pace = Pace(limit=25.0)
    assert pace.took([done(fetched=1_000_000, ms=5.0)]) == 5.0
    assert pace.piece == 2 * FIRST_PIECE
    pace.took([done(fetched=2_000_000, ms=40.0), done(fetched=500_000, ms=10.0)])
    assert pace.piece == 2_000_000 / 40 * 25
    assert pace.to_json() == {"bytes_fetched": 3_500_000, "bytes_present": 0, "pieces": 2}


def test_what_is_there_already_counts_as_covered():
    pace = Pace(limit=25.0, piece=1e6)
    pace.took([done(fetched=10_000, present=990_000, ms=25.0)])
    assert pace.piece == 1e6


def test_pieces_do_not_shrink_to_nothing_and_nothing_changes_them_where_nothing_is_done():
    pace = Pace(limit=25.0, piece=1e6)
    assert pace.took([]) == 0.0
    assert pace.piece == 1e6
    pace.took([done(fetched=1, ms=1_000.0)])
    assert pace.piece == 4096


@pytest.mark.parametrize(
    ("passes", "another"),
    [
        ([], True),
        ([100], True),
        ([0], False),
        ([100, 10], False),
        ([100, 60], True),
        ([100, 80], False),
        ([100, 60, 40], True),
        ([100, 60, 50], False),
        ([100, 60, 40, 25, 15][:PASSES], False),
    ],
)
def test_it_is_fetched_again_while_that_is_much_less_every_time(passes, another):
    assert worth_another(passes) is another
