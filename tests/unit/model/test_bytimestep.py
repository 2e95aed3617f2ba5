"""A mapping from timesteps of which every change is a copy, against a dict."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rechannel.model.bytimestep import PIECE, ByTimestep

NUMBERS = st.integers(0, 4 * PIECE)


@given(
    st.dictionaries(NUMBERS, st.integers()),
    st.lists(st.tuples(NUMBERS, st.none() | st.integers())),
)
def test_it_is_a_dict_of_which_every_change_is_a_copy(begin, changes):
    made, expected = ByTimestep(begin), dict(begin)
    for timestep, value in changes:
        before, was = made, dict(made)
        if value is None:
            made = made.without(timestep)
            expected.pop(timestep, None)
        else:
            made = made.put(timestep, value)
            expected[timestep] = value
        assert dict(before) == was
    assert made == expected
    assert expected == made
    assert list(made) == sorted(expected)
    assert len(made) == len(expected)
    assert all(made[timestep] == value for timestep, value in expected.items())
    assert ByTimestep.of(made) is made
    assert repr(made) == f"ByTimestep({dict(sorted(expected.items()))})"


def test_a_change_copies_one_piece_however_much_there_is():
    many = ByTimestep(dict.fromkeys(range(100 * PIECE), "x"))
    for after in (many.put(5 * PIECE, "y"), many.without(5 * PIECE), many.put(10**9, "z")):
        others = [number for number in range(100) if number != 5]
        assert all(after._pieces[number] is many._pieces[number] for number in others)
    assert many.without(10**9) is many
    assert ByTimestep({1: "x"}).without(1)._pieces == {}
