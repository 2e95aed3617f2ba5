"""Whether a change has made a stream worse, and how it is taken back."""

from dataclasses import replace

import pytest

from rechannel.control.library.judging import Figures, figures_of, worse
from rechannel.control.library.way_back import way_back
from rechannel.model.configuration import (
    Combine,
    Configuration,
    OperatorConfiguration,
    Resources,
)
from rechannel.model.hashspace import SPACE
from rechannel.model.routing import Routing
from rechannel.reconfigure.changes.bins import Split
from rechannel.reconfigure.changes.change import JOB, PROGRAM
from rechannel.reconfigure.changes.spreading import Spread
from rechannel.reconfigure.stream_facts import StreamFacts

BEFORE = Figures(timesteps=10, latency_ms=100, rows=1_000, rows_per_second=10_000, failures=0)


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ({}, ""),
        ({"latency_ms": 120}, ""),
        ({"latency_ms": 130}, "latency 100 ms -> 130 ms"),
        ({"latency_ms": 130, "rows": 2_000}, ""),  # more rows take longer
        ({"rows_per_second": 7_000}, "10,000 -> 7,000 rows/s"),
        ({"rows_per_second": 7_000, "rows": 500}, ""),  # fewer rows are less efficient
        ({"failures": 0.5}, "0 -> 0.5 failures per timestep"),
    ],
)
def test_a_change_of_the_load_is_no_effect_of_a_change(after, found):
    assert worse(BEFORE, replace(BEFORE, **after), 0.25) == found


def test_there_are_no_figures_without_timesteps():
    assert figures_of([]) is None


OPERATOR = OperatorConfiguration(tasks=2, routing=Routing.even(bins=4, tasks=2))
NOW = Configuration(
    operators={"a": OPERATOR, "plain": OperatorConfiguration(tasks=3)}, interval_ms=100
)


class Joining:
    """An operator whose keys tasks can share."""

    def undivided(self, side: int) -> str | None:
        return None

    def hash_of(self, key: object) -> int:
        return 5


FACTS = StreamFacts(
    combinable=frozenset({"a"}), sources=frozenset({"s"}), divisible={"a": Joining()}
)
FEWER = {
    "tasks": 1,
    "routing": Routing.even(bins=2, tasks=1),
}


@pytest.mark.parametrize(
    "fields",
    [
        FEWER,
        {**FEWER, "placement": {0: "7"}},
        {"combine": Combine.OFF},
        {"resources": Resources(cpus=2, amounts={"gpu": 1})},
        {"placement": {1: "3"}},
    ],
)
def test_the_way_back_leads_an_operator_to_what_it_was(fields):
    changed = replace(NOW, operators={**NOW.operators, "a": replace(OPERATOR, **fields)})
    for before, now in ((NOW, changed), (changed, NOW)):
        back = way_back(before, now, ["a"])
        assert back is not None
        assert back.resolved(now, FACTS) == before


def spread(*parts: Spread | Split) -> Configuration:
    """The Configuration with keys or bins of an operator spread."""
    made = NOW
    for part in parts:
        made = part.resolved(made, FACTS)
    return made


KEY = Spread(operator="a", key=("k",), side="left")  # type: ignore[arg-type]
LATE = Spread(operator="a", hash=SPACE - 7, side="right")  # type: ignore[arg-type]
BIN = Spread(operator="a", bin=3, side="right")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (NOW, spread(KEY)),
        (NOW, spread(BIN)),
        (NOW, spread(KEY, LATE)),
        (spread(KEY), spread(LATE)),
        (spread(BIN), spread(KEY, LATE)),
        (spread(KEY), spread(replace(KEY, side="right"))),  # type: ignore[arg-type]
        (spread(KEY), spread(Split("a", 1), KEY)),
        (spread(BIN, KEY), spread(Split("a", 1))),
    ],
)
def test_the_way_back_gathers_what_was_spread_and_spreads_what_was_gathered(one, other):
    for before, now in ((one, other), (other, one)):
        back = way_back(before, now, ["a"])
        assert back is not None
        assert back.resolved(now, FACTS) == before


@pytest.mark.parametrize(
    "fields",
    [{"interval_ms": 5}, {"in_flight": 3}, {"bounds": {"s": 9}}, {"byte_bounds": {"s": 99}}],
)
def test_the_way_back_leads_the_job_to_what_it_was(fields):
    changed = replace(NOW, **fields)
    for before, now in ((NOW, changed), (changed, NOW)):
        back = way_back(before, now, [JOB])
        assert back is not None
        assert back.resolved(now, FACTS) == before


def test_the_way_back_leaves_alone_what_the_change_did_not_touch():
    changed = replace(NOW, interval_ms=5).with_operator("plain", OperatorConfiguration(tasks=9))
    back = way_back(NOW, changed, ["plain"])
    assert str(back) == "rescale(operator='plain', tasks=3)"


@pytest.mark.parametrize(
    ("before", "touched"),
    [
        (replace(NOW, dataflow=2), [PROGRAM]),
        (NOW, ["a"]),  # nothing is different
        (replace(NOW, operators={}), ["a"]),
    ],
)
def test_some_changes_have_no_way_back(before, touched):
    assert way_back(before, NOW, touched) is None


def test_executors_that_the_session_decided_on_do_not_come_back():
    assert way_back(NOW, replace(NOW, executors=4), [JOB]) is None
    assert str(way_back(replace(NOW, executors=2), replace(NOW, executors=4), [JOB])) == (
        "executors(executors=2)"
    )
