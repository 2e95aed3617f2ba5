"""What timesteps tell of load, size and cost."""

from __future__ import annotations

import base64
import zlib
from dataclasses import replace
from fractions import Fraction
from itertools import count, pairwise
from random import Random
from statistics import fmean

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rechannel as rc
from rechannel import aggregates as agg
from rechannel import changes
from rechannel.engine.reconfigure.latencies import Latencies
from rechannel.engine.reconfigure.measured import (
    FADING,
    FIRST_GUESS_MS_PER_BYTE,
    GUESSED_BYTES,
    LEAST_MS_PER_BYTE,
    LOOKED_AT,
    Measured,
)
from rechannel.kernels.tasks.binned import bytes_per_bin
from rechannel.kernels.tasks.report import HotKey, Sent, TaskReport
from rechannel.kernels.tasks.unit_report import by_operator
from rechannel.model.configuration import Combine, Configuration
from rechannel.model.hashing import hash_columns
from rechannel.model.hashspace import SPACE, Intervals
from rechannel.model.routing import Routing
from rechannel.settings import Settings
from rechannel.state.manifest import Manifest
from rechannel.state.run import Run
from rechannel.testing import Harness, script
from tests.support.changing import configuration, keyed
from tests.support.reports import edited, reported

FOUR = configuration(counts=keyed(2, 4))


def packed(*rows: int) -> str:
    return base64.b64encode(zlib.compress(np.array(rows, dtype="<u4").tobytes())).decode()


TASKS = count()
"""Every report is of a task of its own."""


def report(operator: str, *rows: int, hot: tuple[tuple[int, int], ...] = ()) -> TaskReport:
    keys = tuple(HotKey(hash=key, rows=many) for key, many in hot)
    state = edited(bins=packed(*rows) if rows else None, hot_keys=keys)
    return reported(operator, next(TASKS), state)


def run(lo: int, hi: int, size: int, span: int | None = None, seq: int = 1) -> Run:
    return Run(
        segment=f"s{seq}", clip=Intervals(((lo, hi),)), seq=seq, level=0, rows=9, size=size,
        span=hi - lo if span is None else span,
    )  # fmt: skip


def offered(rows: int, place: int) -> TaskReport:
    sent = Sent(operator="pairs", input=place, offered=rows, rows=1, keys=1, bytes=9)
    return reported("in", next(TASKS), sent=(sent,))


# Rows by input -------------------------------------------------------------------------------------


def test_rows_of_inputs_are_summed_over_timesteps_of_one_program():
    measured = Measured(dict)
    assert measured.sent() == {}
    other = replace(FOUR, dataflow=2)
    measured.committed(1, by_operator([offered(9, 0)]), other, 5, 0)
    # A timestep may be cut between the rows of the two inputs.
    measured.committed(2, by_operator([offered(12, 0), offered(1, 0)]), FOUR, 5, 0)
    measured.committed(3, by_operator([offered(1, 1)]), FOUR, 5, 0)
    measured.committed(4, by_operator([]), FOUR, 5, 0)
    assert measured.sent() == {("pairs", 0): 13, ("pairs", 1): 1}
    for number in range(LOOKED_AT):
        measured.committed(5 + number, by_operator([offered(2, 1)]), FOUR, 5, 0)
    assert measured.sent() == {("pairs", 1): 2 * LOOKED_AT}


# Loads ---------------------------------------------------------------------------------------------


def test_rows_of_all_tasks_and_timesteps_are_summed_by_bin():
    measured = Measured(dict)
    measured.committed(
        1, by_operator([report("counts", 1, 2, 0, 0), report("counts", 0, 0, 3, 4)]), FOUR, 5, 0
    )
    measured.committed(
        2, by_operator([report("counts", 10, 0, 0, 0), report("counts"), report("in")]), FOUR, 5, 0
    )
    assert measured.loads(FOUR) == {"counts": (11.0, 2.0, 3.0, 4.0)}


def test_only_timesteps_under_the_same_bins_count():
    measured = Measured(dict)
    eight = configuration(counts=keyed(2, 8))
    measured.committed(1, by_operator([report("counts", *range(8))]), eight, 5, 0)
    measured.committed(2, by_operator([report("counts", 1, 1, 1, 1)]), FOUR, 5, 0)
    assert measured.loads(FOUR) == {"counts": (1.0,) * 4}
    assert measured.loads(eight) == {"counts": tuple(map(float, range(8)))}


def test_bins_at_other_tasks_are_the_same_bins():
    measured = Measured(dict)
    measured.committed(1, by_operator([report("counts", 1, 2, 3, 4)]), FOUR, 5, 0)
    moved = configuration(
        counts=replace(keyed(2, 4), routing=Routing.even(bins=4, tasks=2).with_owners({0: 1}))
    )
    assert measured.loads(moved) == {"counts": (1.0, 2.0, 3.0, 4.0)}


def test_operators_that_came_or_went_have_no_load():
    measured = Measured(dict)
    measured.committed(
        1, by_operator([report("counts", 1, 2, 3, 4), report("gone", 1)]), FOUR, 5, 0
    )
    assert measured.loads(configuration(new=keyed(2, 4))) == {}
    stateless = configuration(counts=replace(FOUR.operators["in"]))
    assert measured.loads(stateless) == {}


def test_load_follows_a_change_of_the_input():
    measured = Measured(dict)
    measured.committed(1, by_operator([report("counts", 1000, 0, 0, 0)]), FOUR, 5, 0)
    for timestep in range(LOOKED_AT):
        measured.committed(2 + timestep, by_operator([report("counts", 0, 1, 0, 0)]), FOUR, 5, 0)
    assert measured.loads(FOUR) == {"counts": (0.0, float(LOOKED_AT), 0.0, 0.0)}


def test_timesteps_before_a_change_of_the_distribution_do_not_count():
    measured = Measured(dict)
    for timestep in range(15):
        rows = (100, 100, 100, 100) if timestep < 9 else (400, 30, 30, 30)
        measured.committed(1 + timestep, by_operator([report("counts", *rows)]), FOUR, 5, 0)
    assert measured.loads(FOUR) == {"counts": (2_400.0, 180.0, 180.0, 180.0)}
    for timestep in range(3):  # it changes again: of the latest four, all count
        measured.committed(16 + timestep, by_operator([report("counts", 0, 0, 0, 100)]), FOUR, 5, 0)
    assert measured.loads(FOUR) == {"counts": (400.0, 30.0, 30.0, 330.0)}


def test_hot_keys_are_those_of_the_timesteps_that_count():
    measured = Measured(dict)
    for timestep in range(12):
        rows, key = ((400, 30, 30, 30), 7) if timestep < 6 else ((30, 400, 30, 30), 9)
        made = [report("counts", *rows, hot=((key, 350),))]
        measured.committed(1 + timestep, by_operator(made), FOUR, 5, 0)
    assert measured.hot(FOUR) == {"counts": {9: 6 * 350.0}}


def test_rows_that_differ_by_chance_count():
    random = np.random.default_rng(3)
    for rows in (20, 100, 1_000):
        measured = Measured(dict)
        for timestep in range(LOOKED_AT):
            drawn = random.multinomial(rows, [0.5, 0.2, 0.2, 0.1]).tolist()
            measured.committed(1 + timestep, by_operator([report("counts", *drawn)]), FOUR, 5, 0)
        assert sum(measured.loads(FOUR)["counts"]) == LOOKED_AT * rows


def apart(here: Configuration) -> Configuration:
    """Every row reaches its task: nothing is combined before."""
    counts = replace(here.operators["counts"], combine=Combine.OFF)
    return replace(here, operators={**here.operators, "counts": counts})


def test_a_running_stream_knows_the_rows_of_its_bins_and_forgets_them_when_bins_are_cut():
    keys = [*(k % 7 for k in range(70)), *[1] * 30]
    rows = [[{"k": k} for k in keys[:70]], [{"k": k} for k in keys[70:]]]
    connector = script("k long", rows)
    counts = rc.read().memory(connector).key_by("k").aggregate(n=agg.count(), name="counts")
    harness = Harness(counts.write.memory("out"), settings=Settings(bins=8), configure=apart)
    process = harness.start()
    process.run()
    measured, routing = process.parts.measured, Routing.even(bins=8, tasks=1)
    hashes = np.sort(hash_columns([pa.array(keys, pa.int64())]))
    expected = tuple(map(float, routing.rows_per_bin(hashes)))
    assert measured.loads(process.position.configuration) == {"counts": expected}
    process.reconfigure(changes.split("counts", 0))
    process.run()
    assert measured.loads(process.position.configuration) == {}
    connector.push([{"k": 1}] * 5)
    process.run()
    assert sum(measured.loads(process.position.configuration)["counts"]) == 5.0


@pytest.mark.parametrize("which", ["the hot one", "another one"])
def test_a_running_stream_tells_whoever_cuts_the_bin_of_a_hot_key(which):
    connector = script("k long", [[{"k": k % 50} for k in range(100)] + [{"k": 1}] * 300])
    counts = rc.read().memory(connector).key_by("k").aggregate(n=agg.count(), name="counts")
    harness = Harness(counts.write.memory("out"), settings=Settings(bins=4), configure=apart)
    process = harness.start()
    process.run()
    (hot,) = hash_columns([pa.array([1], pa.int64())]).tolist()
    assert process.parts.measured.hot(process.position.configuration) == {"counts": {hot: 302.0}}
    routing = process.position.configuration.operators["counts"].routing
    spans = [routing.span(number) for number in range(4)]
    (at,) = [number for number, (lo, hi) in enumerate(spans) if lo <= hot < hi]
    process.reconfigure(changes.split("counts", at if which == "the hot one" else (at + 1) % 4))
    connector.push([{"k": 2}])
    process.run()
    (record,) = process.journal.state.coordination.records
    assert record.phase == "done"
    told = f"of the rows of bin {at}, and splitting does not separate the rows of a key: pre-aggregate it with combine"
    assert (told in record.reason) == (which == "the hot one")
    assert bool(record.reason) == (which == "the hot one")


def test_keys_are_hot_for_as_long_as_they_are():
    measured = Measured(dict)
    measured.committed(1, by_operator([report("counts", 9, 0, 0, 0, hot=((7, 5),))]), FOUR, 5, 0)
    measured.committed(
        2, by_operator([report("counts", 9, 0, 0, 0, hot=((7, 5), (8, 4)))]), FOUR, 5, 0
    )
    assert measured.hot(FOUR) == {"counts": {7: 10.0, 8: 4.0}}
    for timestep in range(LOOKED_AT - 1):
        measured.committed(3 + timestep, by_operator([report("counts", 9, 0, 0, 0)]), FOUR, 5, 0)
    assert measured.hot(FOUR) == {"counts": {7: 5.0, 8: 4.0}}
    assert measured.hot(configuration(counts=keyed(2, 8))) == {}


# Sizes ---------------------------------------------------------------------------------------------


def test_bytes_of_a_run_are_spread_evenly_over_what_it_was_written_for():
    half = SPACE // 2
    manifest = Manifest((run(0, SPACE, 400), run(half, SPACE, 100, span=SPACE, seq=2)))
    # Of the second run the half that is left counts, with half its bytes.
    assert bytes_per_bin(manifest.runs, Routing.even(bins=4, tasks=1)) == (
        100.0,
        100.0,
        125.0,
        125.0,
    )


def test_a_run_of_nothing_has_no_bytes():
    empty = replace(run(0, 1, 100), clip=Intervals.nothing(), span=0)
    assert bytes_per_bin((empty,), Routing.even(bins=2, tasks=1)) == (0.0, 0.0)


@st.composite
def routings(draw) -> Routing:
    inner = draw(st.sets(st.integers(1, SPACE - 1), max_size=8))
    starts = (0, *sorted(inner))
    return Routing(starts=starts, owners=(0,) * len(starts), tasks=1)


@st.composite
def manifests(draw) -> Manifest:
    runs = []
    for seq in range(draw(st.integers(0, 4))):
        edges = sorted(draw(st.sets(st.integers(0, SPACE), min_size=2, max_size=8)))
        clip = Intervals.of(list(pairwise(edges))[::2])
        size = draw(st.integers(0, 10**9))
        runs.append(replace(run(0, 1, size, seq=seq), clip=clip, span=edges[-1] - edges[0]))
    return Manifest(tuple(runs))


@given(manifests(), routings())
def test_bytes_per_bin_are_what_counting_by_hand_gives(manifest, routing):
    expected = []
    for number in range(routing.bins):
        lo, hi = routing.span(number)
        own = Intervals(((lo, hi),))
        expected.append(
            float(
                sum(Fraction(r.clip.intersect(own).width * r.size, r.span) for r in manifest.runs)
            )
        )
    # Widths are rounded to 53 bits: what lies at a border of bins may be a neighbour's.
    assert bytes_per_bin(manifest.runs, routing) == pytest.approx(expected, rel=1e-6, abs=1e-2)


def test_sizes_are_of_operators_that_there_are_and_that_have_bins():
    manifest = Manifest((run(0, SPACE, 400),))
    measured = Measured(lambda: {"counts": manifest, "in": manifest, "gone": manifest})
    sizes = measured.sizes(FOUR)
    assert set(sizes.bins) == {"counts"}
    assert sizes.of("counts", 0, SPACE) == 400.0


# Cost and budget -----------------------------------------------------------------------------------


def test_what_a_byte_costs_is_guessed_until_one_has_moved():
    measured = Measured(dict)
    measured.committed(1, by_operator([]), FOUR, 10, 0)
    assert measured.ms_per_byte == FIRST_GUESS_MS_PER_BYTE
    measured.committed(2, by_operator([]), FOUR, 10, 0)
    measured.committed(3, by_operator([]), FOUR, 30, 100)  # 20 ms more than usual for 100 bytes
    guessed = FADING * GUESSED_BYTES
    expected = (guessed * FIRST_GUESS_MS_PER_BYTE + 20) / (guessed + 100)
    assert measured.ms_per_byte == pytest.approx(expected)


def test_what_bytes_cost_is_soon_what_they_have_cost():
    measured = Measured(dict)
    for timestep in range(60):
        measured.committed(2 * timestep, [], FOUR, 100, 0)
        measured.committed(2 * timestep + 1, [], FOUR, 120, 1e6)
    assert measured.ms_per_byte == pytest.approx(20 / 1e6, rel=0.01)


def test_uneven_timesteps_are_no_cost():
    """A bin's move costs 2 ms; timesteps take 100 ms, or 160, or 40. No step gets smaller for that."""
    measured, rng = Measured(dict), Random(1)
    costs = []
    for timestep in range(400):
        moved = timestep % 2 * 1e6
        took = rng.choice((40, 100, 160)) + (2 if moved else 0)
        measured.committed(timestep, by_operator([]), FOUR, took, moved)
        costs.append(measured.ms_per_byte * 1e6)
    # A clipped difference would have an expectation of 20 ms.
    assert abs(fmean(costs[100:]) - 2) < 5


def test_the_first_timestep_has_nothing_to_compare_with():
    measured = Measured(dict)
    measured.committed(1, by_operator([]), FOUR, 30, 100)
    assert measured.ms_per_byte == FIRST_GUESS_MS_PER_BYTE


def test_bytes_never_cost_nothing():
    measured = Measured(dict)
    measured.committed(0, by_operator([]), FOUR, 1_000, 0)
    measured.committed(1, by_operator([]), FOUR, 10, 1e9)
    assert measured.ms_per_byte == LEAST_MS_PER_BYTE


def test_latencies_are_those_from_decision_to_commit():
    measured = Measured(dict)
    for timestep in range(5):
        measured.committed(timestep, by_operator([]), FOUR, timestep / 2, 0)
    assert measured.latencies.between(1, 3).tolist() == [0.5, 1, 1.5]


def test_the_oldest_latencies_are_forgotten_and_the_newest_are_there():
    latencies = Latencies(kept=4)
    for timestep in range(10, 100):
        latencies.add(timestep, timestep / 2)
        least = max(10, timestep - 3)
        assert latencies.between(least, 1_000).tolist() == [
            t / 2 for t in range(least, timestep + 1)
        ]
        assert len(latencies.between(0, 1_000)) < 8
    assert latencies.between(0, 50).tolist() == []
    assert Latencies().between(0, 50).tolist() == []


@pytest.mark.parametrize(
    ("strategy", "most"),
    [
        (rc.strategies.all_at_once(), None),
        (rc.strategies.fluid(budget_bytes=500), 500),
        (rc.strategies.fluid(budget_ms=2), 2_000_000),
        (rc.strategies.fluid(budget_ms=2, budget_bytes=500), 500),
        (rc.strategies.fluid(budget_ms=0.0001, budget_bytes=500), 100),
        (rc.strategies.fluid(budget_ms=1e-12), 1),
        (rc.strategies.fluid(budget_ms=1e300), int(1e300 / FIRST_GUESS_MS_PER_BYTE)),
    ],
    ids=str,
)
def test_a_budget_is_the_least_of_what_was_given(strategy, most):
    assert Measured(dict).budget(strategy) == pytest.approx(most)
