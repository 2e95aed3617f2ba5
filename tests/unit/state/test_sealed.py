from __future__ import annotations

import json

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from rechannel.errors import DamagedStateError, NewerFormatError
from rechannel.state.sealed import seal, unseal

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)  # fmt: skip


@given(st.dictionaries(st.text(), JSON))
def test_what_was_sealed_is_read_again(record):
    record = {**record, "format": 3}
    assert unseal(seal(record), name="x", newest=3) == record


def test_the_form_is_the_documented_one():
    body = '{"a":"\\u00e9","b":[1,2.5],"format":1}'
    digest = xxhash.xxh3_64_hexdigest(body.encode())
    assert seal({"format": 1, "b": [1, 2.5], "a": "é"}) == (
        f'{body[:-1]},"xxh3":"{digest}"}}'.encode()
    )
    assert json.loads(seal({"format": 1}))["format"] == 1


@given(st.data())
def test_any_changed_byte_is_noticed(data):
    good = seal({"format": 1, "name": "flights", "offsets": [1, 2, 3]})
    place = data.draw(st.integers(0, len(good) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda b: b != good[place]))
    bad = good[:place] + bytes([other]) + good[place + 1 :]
    with pytest.raises(DamagedStateError, match="lease does not hold what was written"):
        unseal(bad, name="lease", newest=1)


@pytest.mark.parametrize("length", [0, 1, 20, 30])
def test_a_prefix_is_noticed(length):
    with pytest.raises(DamagedStateError, match="restore this file"):
        unseal(seal({"format": 1, "name": "flights"})[:length], name="x", newest=1)


def test_a_later_format_is_told_from_damage():
    with pytest.raises(NewerFormatError, match=r"x has format 2.*reads up to 1"):
        unseal(seal({"format": 2}), name="x", newest=1)


@pytest.mark.parametrize("value", [{1}, float("nan"), object()])
def test_what_json_cannot_hold_is_refused(value):
    with pytest.raises((TypeError, ValueError)):
        seal({"format": 1, "value": value})
