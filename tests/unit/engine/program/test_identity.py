from __future__ import annotations

import pytest

from rechannel.engine.program.identity import Identity, read_identity
from rechannel.errors import (
    DamagedStateError,
    MissingFileError,
    NewerFormatError,
    OtherDataflowError,
)
from rechannel.state.keys import IDENTITY
from rechannel.state.sealed import seal
from rechannel.state.stores.memory import MemoryStore

FLIGHTS = Identity(name="flights", operators={"delays": "aa", "counts": "bb"})


@pytest.fixture
def store():
    return MemoryStore()


def test_a_new_directory_is_claimed_once(store):
    with pytest.raises(MissingFileError):
        read_identity(store)
    FLIGHTS.claim(store)
    assert read_identity(store) == FLIGHTS
    written = bytes(store.read(IDENTITY))
    FLIGHTS.claim(store)
    assert bytes(store.read(IDENTITY)) == written


def test_another_dataflow_is_refused_by_name(store):
    FLIGHTS.claim(store)
    with pytest.raises(OtherDataflowError, match="belongs to dataflow 'flights', not to 'taxis'"):
        Identity(name="taxis", operators=FLIGHTS.operators).claim(store)


@pytest.mark.parametrize(
    ("operators", "named"),
    [
        ({"delays": "aa", "counts": "cc"}, r"\['counts'\]"),
        ({"delays": "aa"}, r"\['counts'\]"),
        ({"delays": "x", "counts": "bb", "more": "y"}, r"\['delays', 'more'\]"),
    ],
)
def test_other_operators_are_named(store, operators, named):
    FLIGHTS.claim(store)
    with pytest.raises(OtherDataflowError, match=named):
        Identity(name="flights", operators=operators).claim(store)


def test_later_formats_and_damage_are_table_key(store):
    store.put(IDENTITY, seal({"format": 2}))
    with pytest.raises(NewerFormatError, match=r"dataflow\.json has format 2"):
        FLIGHTS.claim(store)
    store.put(IDENTITY, b"{}")
    with pytest.raises(DamagedStateError, match=r"dataflow\.json does not hold"):
        FLIGHTS.claim(store)
