"""What a stream needs, as it is shown: every figure follows from what its tasks took."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import replace

import pytest

from rechannel.advising.stream import controllers_in, stream_advice
from rechannel.control.board import Board, Seat
from rechannel.control.events import Installed
from rechannel.engine.control.decisions import decision_made
from rechannel.errors import RefusedError
from rechannel.scaling.decided import Decided
from rechannel.scaling.measured import Machines
from rechannel.scaling.needs import making
from rechannel.scaling.needs.asked import Asked
from rechannel.scaling.needs.curves import MOST_POINTS, counts
from rechannel.scaling.needs.values import StreamAdvice
from rechannel.scaling.policies.policy import Advice
from rechannel.scaling.policies.registry import POLICIES
from rechannel.telemetry.saved import SavedRun
from tests.unit.scaling.needs.made import (
    DRIVER_MS,
    FIXED_MS,
    INTERVAL_MS,
    LAUNCH_MS,
    READ_MS,
    ROW_MS,
    ROWS,
    configuration,
    measured,
)

TWO = Machines(executors=1, cores_per_executor=2)


def run(*asked, **how):
    progress, tasks = measured(*asked, **how)
    return SavedRun(job="shop", progress=tuple(progress), tasks=tasks)


def advised(asked=None, *, timesteps=12, board=None, machines=TWO, configured=True, **how):
    return stream_advice(
        run(timesteps, **how), board or Board(), asked or Asked(window_s=4),
        configurations=[configuration()] if configured else [], machines=machines,
    )  # fmt: skip


def test_what_was_measured_is_told():
    made = advised()
    needs = made.needs
    assert (needs.policy, needs.interval_ms, needs.utilisation) == ("ds2-timesteps", 1_000, 0.8)
    assert [(each.first, each.last) for each in needs.windows] == [(2, 5), (6, 9)]
    assert needs.timestep == 9
    mean = statistics.mean(ROWS)
    assert needs.rate == pytest.approx(mean)
    took = [READ_MS + LAUNCH_MS + FIXED_MS + rows * ROW_MS / 2 + DRIVER_MS for rows in ROWS]
    assert needs.timestep_ms == pytest.approx(statistics.median(took))
    busy = READ_MS + 2 * FIXED_MS + ROW_MS * mean
    assert needs.windows[0].busy == pytest.approx(busy / (2 * INTERVAL_MS))
    assert list(made.operators) == ["in", "counts"]
    of = made.operators["counts"]
    assert of.target == pytest.approx(mean)
    assert of.exact == pytest.approx(of.target / of.rate)
    slowest, fastest = (1e3 / (FIXED_MS * 2 / n + ROW_MS) for n in (min(ROWS), max(ROWS)))
    assert slowest < of.rate < fastest
    assert of.cost.fixed_ms == pytest.approx(FIXED_MS, rel=0.02)
    assert of.cost.row_ms == pytest.approx(ROW_MS, rel=0.02)
    assert set(of.points) == {(rows / 2, FIXED_MS + ROW_MS * rows / 2) for rows in ROWS}


def test_the_curve_is_that_of_the_formulas():
    needs = advised().needs
    costs = {name: of.cost for name, of in advised().operators.items()}
    rows = statistics.mean(ROWS)
    for point in needs.curve:
        turns = [
            min(
                needs.offset * (costs[name].fixed_ms + costs[name].row_ms * rows / tasks)
                + LAUNCH_MS * tasks
                for tasks in range(1, point.cores + 1)
            )
            for name in costs
        ]
        assert point.timestep_ms == pytest.approx(DRIVER_MS + sum(turns), rel=0.02)
        assert point.low_ms <= point.timestep_ms <= point.high_ms
    assert [each.cores for each in needs.curve] == [1, 2, 3, 4]
    times = [each.timestep_ms for each in needs.curve]
    assert times == sorted(times, reverse=True)
    assert needs.cores.low <= needs.cores.advised <= needs.cores.high


def test_the_load_and_the_interval_can_be_other_ones():
    plain, double = advised(), advised(Asked(window_s=4, rate=2 * statistics.mean(ROWS)))
    assert double.needs.rate == pytest.approx(2 * plain.needs.rate)
    for name in plain.operators:
        assert double.operators[name].target == pytest.approx(2 * plain.operators[name].target)
    short = advised(Asked(window_s=4, interval_ms=200))
    assert short.needs.interval_ms == 200
    assert short.needs.used > plain.needs.used
    waiting = advised(backlog=6_000)
    assert waiting.needs.backlog == 6_000
    assert waiting.operators["counts"].target == pytest.approx(statistics.mean(ROWS) + 100)
    assert advised(Asked(window_s=4, rate=50), backlog=6_000).needs.backlog == 0


def test_more_load_needs_more_cores():
    many = advised(Asked(window_s=4, rate=3_000))
    assert many.needs.changes
    assert many.needs.cores.advised > 2
    assert many.needs.executors.advised == math.ceil(many.needs.cores.advised / 2)
    assert many.operators["counts"].advised > 2
    assert "instead of 2" in many.operators["counts"].sentence
    fours = advised(Asked(window_s=4, rate=3_000, cores_per_executor=4))
    assert fours.needs.executors.advised == math.ceil(fours.needs.cores.advised / 4)


def test_a_policy_that_waits_for_more_windows_does_not_say_that_all_is_well():
    waits = advised(Asked(window_s=4, policy="streaming-dynamic-allocation"))
    assert waits.needs.why == "streaming-dynamic-allocation has decided nothing in these windows"
    assert not waits.needs.changes


def test_an_operator_may_be_called_as_a_figure_is():
    of = Advice(parallelism={"cores": 2}, evidence={"cores": {"target_per_s": 7.0}, "note": 3})
    assert making._by_operator(Asked(policy="ds2"), of) == {"cores": {"target_per_s": 7.0}}
    timesteps = Advice(evidence={"cores": 4, "operators": {"cores": {"row_ms": 1.0}}})
    assert making._by_operator(Asked(), timesteps) == {"cores": {"row_ms": 1.0}}


def test_a_policy_that_goes_by_back_pressure_cannot_be_asked():
    with pytest.raises(RefusedError, match="which timesteps do not have"):
        Asked(policy="dhalion")


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "dhalion"])
def test_every_policy_can_be_asked_and_the_answer_is_json(policy):
    made = advised(Asked(window_s=4, policy=policy))
    assert made.needs.policy == policy
    again = StreamAdvice.from_dict(json.loads(json.dumps(made.to_dict(), allow_nan=False)))
    assert again == made


def test_ds2_has_instances_with_a_core_each():
    made = advised(Asked(window_s=4, policy="ds2", rate=3_000))
    of = made.operators["counts"]
    assert of.advised == math.ceil(3_000 / of.rate / 0.8)
    assert (of.cost, made.needs.cores, made.needs.curve) == (None, None, ())


def test_what_is_missing_is_a_note():
    nothing = advised(timesteps=0, machines=None)
    assert (nothing.needs, nothing.operators) == (None, {})
    assert nothing.notes == ("no task was measured yet",)
    assert advised(timesteps=1).notes == (
        "no window is complete: at least two timesteps are needed, one after the other",
    )
    [short] = advised(Asked(window_s=60)).notes
    assert short == "no window of 60 s is complete: it has 5.5 s"
    [free] = stream_advice(
        run(), Board(), Asked(window_s=4),
        configurations=[replace(configuration(), interval_ms=0)], machines=TWO,
    ).notes  # fmt: skip
    assert free == (
        "timesteps have no interval: the advice is for that at which they began, 1,000 ms"
    )


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"policy": "magic"}, "policy 'magic': there is none; give one of ds2, "),
        ({"utilisation": 0}, "utilisation=0: give a share above 0"),
        ({"window_s": 0}, "window_s=0: give a number above 0"),
        ({"rate": math.inf}, "rate=inf: give a number above 0"),
        ({"interval_ms": -3.0}, "interval_ms=-3.0"),
        ({"cores_per_executor": 0}, "cores_per_executor=0"),
    ],
)
def test_what_cannot_be_asked_is_refused(asked, words):
    with pytest.raises(RefusedError, match=words):
        Asked(**asked)


def test_controllers_show_their_decisions():
    made = Decided(timestep=3, at_ms=9, outcome="enough", why="all is well")

    def seat(name, serial, state, **how):
        installed = Installed(controller=name, time_ms=0, path="a:B", **how)
        return Seat(name=name, serial=serial, installed=installed, state=state)

    seats = [
        seat("quiet", 1, {"looked": 3}),
        seat("scale", 2, {"decisions": [made.to_dict()]}, dry_run=True),
        seat("new", 3, {"decisions": []}),
        seat("plain", 4, 7),
    ]
    found = controllers_in(Board(seats={each.name: each for each in seats}))
    assert [(each.name, each.dry_run, each.decisions) for each in found] == [
        ("scale", True, (made,)),
        ("new", False, ()),
    ]


def test_telemetry_has_decisions_that_controllers_no_longer_remember():
    old, new = (
        Decided(timestep=n, at_ms=n, outcome="changed", why="more", parallelism={"a": n}, evidence={"b": 0.5})
        for n in (1, 2)
    )  # fmt: skip
    installed = Installed(controller="scale", time_ms=0, path="a:B", dry_run=True)
    state = {"decisions": [replace(new, became="r1: done").to_dict()]}
    board = Board(seats={"scale": Seat(name="scale", serial=1, installed=installed, state=state)})
    told = [decision_made("scale", old), decision_made("gone", old), decision_made("scale", new)]
    strange = replace(told[0], controller="strange", data={"parallelism": 3})
    scale, gone = controllers_in(board, [*told, strange])
    assert (scale.name, scale.dry_run) == ("scale", True)
    assert scale.decisions == (old, replace(new, became="r1: done"))
    assert (gone.name, gone.dry_run, gone.decisions) == ("gone", False, (old,))


def test_many_numbers_of_cores_are_shown_at_equal_ratios():
    assert counts(1) == [1, 2]
    assert counts(7) == [1, 2, 3, 4, 5, 6, 7]
    many = counts(5_000)
    assert len(many) <= MOST_POINTS
    assert (many[0], many[-1], many) == (1, 5_000, sorted(set(many)))
