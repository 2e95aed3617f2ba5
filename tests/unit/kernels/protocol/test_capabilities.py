"""The protocol of operators: a small core, capabilities with names of their own, and one place that looks for them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import rechannel.operators
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.protocol import capabilities
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.kernels.protocol.resolved import FOUND, Capabilities, telling_late
from rechannel.model.eventtime import Clock
from rechannel.operators.process.deduplicate import DeduplicateLogic
from rechannel.operators.window.session_rows import KeptRows

KEYS = pa.schema([("k", pa.int64())])
CLOCK = Clock(stream_ms=0)
NAMED = {
    kind.__name__: kind
    for kind in vars(capabilities).values()
    if inspect.isclass(kind)
    and kind.__module__ == capabilities.__name__
    and inspect.isabstract(kind)
} | {"WithoutLookup": capabilities.WithoutLookup, "WrittenOnce": capabilities.WrittenOnce}


class Bare:
    """An operator with the core alone."""

    key_schema = value_schema = output_schema = KEYS
    state_schema = pa.schema([])
    ordered = False

    def apply(self, arrivals):
        raise NotImplementedError

    def finish(self, keys, state):
        raise NotImplementedError


def members(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def logics() -> Iterator[type]:
    """Every class of the operators that has a part of the protocol."""
    for found in pkgutil.walk_packages(rechannel.operators.__path__, "rechannel.operators."):
        module = importlib.import_module(found.name)
        for kind in vars(module).values():
            if (
                inspect.isclass(kind)
                and kind.__module__ == module.__name__
                and hasattr(kind, "apply")
            ):
                yield kind


def test_the_core_has_seven_members():
    assert len(members(StatefulLogic)) == 7


@pytest.mark.parametrize("kind", NAMED.values(), ids=list(NAMED))
def test_a_capability_is_small(kind):
    assert len(members(kind)) <= 7


def test_all_capabilities_are_looked_for():
    assert {kind.__name__ for kind in FOUND.values()} == NAMED.keys() - {"LateTelling"}


@pytest.mark.parametrize("logic", list(logics()), ids=lambda kind: kind.__name__)
def test_an_operator_writes_out_no_member_of_a_capability_that_it_does_not_have(logic):
    has = {name for kind in NAMED.values() if issubclass(logic, kind) for name in members(kind)}
    known = {name for kind in NAMED.values() for name in members(kind)}
    assert not (members(logic) & known) - has


def test_an_operator_without_capabilities_takes_and_shows_rows_at_once():
    can, none = Capabilities(Bare()), np.empty(0, np.int64)
    assert (can.hashed, can.sent, can.reads) == (1, 1, ("k",))
    assert (can.combinable, can.needs_lookup, can.totals) == (False, True, None)
    assert (can.early_ms, can.lasts_us, can.lag_us) == (None, None, 0)
    assert can.wire_schema(combined=False) == can.view_schema == KEYS
    assert can.prune([], Groups(none, 0)) is can.lookup_range([], Groups(none, 0)) is None
    assert can.live([], [], CLOCK) is can.timer_of([], []) is can.due_range(CLOCK) is None
    assert not can.gone(0, CLOCK)
    with pytest.raises(ValueError, match="does not combine"):
        can.combine([], Groups(none, 0))
    with pytest.raises(ValueError, match="waits for event time"):
        can.fire([], [], np.empty(0, np.uint64), CLOCK)


def test_late_rows_are_told_of_by_operators_that_can():
    bare, first = Bare(), DeduplicateLogic(key_schema=KEYS, row_schema=KEYS)
    assert telling_late(bare) is bare
    assert telling_late(first).keep_late
    assert not first.keep_late


def test_what_sessions_keep_is_no_operator():
    assert not issubclass(KeptRows, tuple(NAMED.values()))
