"""What Autopilot proposes, and what it makes of what it has tried: the rules that no running stream shows by itself."""

from types import SimpleNamespace

import numpy as np
import pytest

from rechannel.control.library.attempt import attempted, verdict
from rechannel.control.library.binding import Bound, Load, bounds_of
from rechannel.control.library.flight import Flying, Tried
from rechannel.control.library.heaviest import Heaviest
from rechannel.control.library.hotkeys import HotKey, HotKeys, Rows
from rechannel.control.library.judging import Figures
from rechannel.control.library.looking import View, alike, chosen, urgent
from rechannel.control.library.mending import Rules, answered, check, mend, relax, view_if_due
from rechannel.control.library.remedies import Straggling, fewer_tasks, longer_interval
from rechannel.control.library.scaled import Scaling, tasks_wanted
from rechannel.control.library.skew import cut_of
from rechannel.control.library.traffic import Traffic
from rechannel.model.configuration import Configuration, OperatorConfiguration
from rechannel.model.routing import Routing
from rechannel.profiling.job.shares import CriticalShares
from rechannel.reconfigure.record import Phase
from rechannel.scaling.policies.damping import EXECUTORS
from rechannel.scaling.policies.policy import Advice
from rechannel.scaling.policies.steering_settings import Steering
from rechannel.scaling.policies.steering_state import Decision, Steered

SCHEDULING = Bound(cause="scheduling", share=0.9, gain=0.9, why="scheduling is 90 % of a timestep")


def shares(mean_ms: float, **kinds: float) -> CriticalShares:
    return CriticalShares(first=1, last=8, timesteps=8, mean_ms=mean_ms, kinds=kinds)


def figures(latency_ms: float, rows: float) -> Figures:
    return Figures(timesteps=4, latency_ms=latency_ms, rows=rows, rows_per_second=0.0, failures=0.0)


def facts(timestep: int, duration_ms: float, rows: int = 100) -> SimpleNamespace:
    return SimpleNamespace(timestep=timestep, duration_ms=duration_ms, rows_in=rows, failures=0)


@pytest.mark.parametrize(
    ("took", "looked_at"),
    [
        ([], None),
        ([500], None),
        ([50, 50, 50, 90], None),
        ([50, 50, 90, 90], 2),
        ([50, 50, 50, 130], 1),
        ([130], None),  # one that nothing can be compared with
        ([110, 110, 110, 130], 2),  # as long as those before
    ],
)
def test_a_stream_that_is_late_is_looked_at_by_few_timesteps(took, looked_at):
    seen = [facts(number, ms) for number, ms in enumerate(took)]
    assert urgent(seen, 80) == looked_at
    assert urgent(seen, None) is None


@pytest.mark.parametrize(
    ("took", "rows", "count"),
    [
        ([], [], 0),
        ([50], [100], 1),
        ([50, 55, 45, 50], [100] * 4, 4),
        ([50, 50, 75, 74, 77], [100] * 5, 3),  # the rows of another key, perhaps
        ([50, 100, 150], [100, 200, 300], 3),  # more rows, each as long as before
        ([400, 420, 410], [1, 200, 90], 3),  # rows hardly matter
        ([50, 50, 200], [100] * 3, 1),
    ],
)
def test_timesteps_are_looked_at_back_to_the_last_that_was_otherwise(took, rows, count):
    seen = [facts(n, float(ms), many) for n, (ms, many) in enumerate(zip(took, rows, strict=True))]
    assert alike(seen) == count


def record(id_: str, *, own: bool = False, open_: bool = False, scheduled: bool = False, last=None):
    return SimpleNamespace(
        id=id_,
        own=own,
        open=open_,
        scheduled=scheduled,
        last_timestep=last,
        phase=Phase.WAITING if open_ else Phase.DONE,
        reason="",
    )


class Controlled(SimpleNamespace):
    """What the rules read of a `Control`, and what they ask for."""

    def __init__(self, state: Flying | None = None, **more) -> None:
        given = {
            "configuration": Configuration(interval_ms=100, operators={}),
            "timestep": 20,
            "time_ms": 1_000_000,
            "changes": [],
            "progress": [],
            "refused": "",
        }
        super().__init__(state=state or Flying(), notes=[], asked=[], **{**given, **more})

    def requested(self, each) -> bool:
        return each.own

    def refusal(self, change) -> str:
        return self.refused

    def note(self, text: str) -> None:
        self.notes.append(text)

    def reconfigure(self, change, *, reason: str) -> None:
        self.asked.append(str(change))


@pytest.mark.parametrize(
    ("interval", "mean", "fixed", "chosen"),
    [
        (1_000, 1_200, 1_000, 1_579),  # 1,000 / (0.8 - 200 / 1,200)
        (
            100,
            600,
            540,
            772,
        ),  # more than four times the interval, which the timesteps left behind long ago
        (100, 1_000, 999, 1_251),
        (2_000, 1_000, 900, None),  # nothing is late
    ],
)
def test_a_longer_interval_goes_by_the_rows_that_a_late_timestep_has(interval, mean, fixed, chosen):
    bound = Bound(cause="scheduling", share=fixed / mean, gain=fixed / mean, why="")
    made = list(longer_interval(bound, shares(mean), interval, 0.8, float("inf")))
    assert [each.change.interval_ms for each in made] == [chosen] * (chosen is not None)
    for each in made:
        assert each.gain == pytest.approx(fixed / mean * (1 - max(mean, interval) / chosen))


def test_what_is_scheduled_for_later_is_no_other_change():
    after = [facts(n, 100.0) for n in range(5, 20)]
    tonight = record("r2", open_=True, scheduled=True)
    own = record("r1", own=True, last=4)
    for others, saved in (([], 0.5), ([tonight], 0.5), ([record("r3", last=6)], None)):
        control = Controlled(changes=[own, *others], progress=after)
        attempt = attempted(Controlled(timestep=3), (), figures(200.0, 100.0))
        found = verdict(control, attempt, 4)
        assert found is not None
        assert found.share == saved
        assert (saved is None) == ("something else has changed" in found.text)


def test_windows_that_cannot_be_compared_are_told_as_such():
    control = Controlled(
        changes=[record("r1", own=True, last=4)], progress=[facts(n, 9.0, 900) for n in range(20)]
    )
    found = verdict(control, attempted(Controlled(timestep=3), (), figures(200.0, 100.0)), 4)
    assert found is not None
    assert found.text == "r1 is not judged: timesteps have far more or far fewer rows than before"


def lengthened(now_ms: int, latency_ms: float, rows: int, *, other: bool = False) -> Controlled:
    """A stream whose interval Autopilot has made longer, from 100 ms."""
    attempt = attempted(Controlled(timestep=3), ("job",), figures(120.0, 100.0))
    tried = Tried(key="longer interval", gain=0.3, fixed=0.9, per_row=True, attempt=attempt)
    others = [record("r2", last=6)] if other else []
    return Controlled(
        Flying(state="trying", tried=tried),
        configuration=Configuration(interval_ms=now_ms, operators={}),
        changes=[record("r1", own=True, last=4), *others],
        progress=[facts(n, latency_ms, rows) for n in range(20)],
    )


@pytest.mark.parametrize(
    "control",
    [lengthened(400, 150.0, 410), lengthened(400, 150.0, 400, other=True)],
    ids=["more than four times the rows", "not judged"],
)
def test_the_interval_before_is_known_whatever_came_of_the_longer_one(control):
    check(control, Rules())
    assert (control.state.interval_ms, control.state.longer_ms) == (100, 400)
    assert control.state.state == "watching"


def roomy(state: Flying, now_ms: int, **more) -> Controlled:
    return Controlled(state, configuration=Configuration(interval_ms=now_ms, operators={}), **more)


def test_the_interval_is_set_back_unless_someone_else_has_set_it():
    view = SimpleNamespace(fixed=0.5, shares=shares(20.0))
    known = Flying(interval_ms=100, longer_ms=400)
    control = roomy(known, 400)
    relax(control, view, Rules())
    assert control.asked == ["set_interval(interval_ms=100)"]
    assert control.state.longer_ms == 400  # until it is so
    for now_ms in (100, 1_000):
        control = roomy(known, now_ms)
        relax(control, view, Rules())
        assert (control.asked, control.state.interval_ms) == ([], None)
    refused = roomy(known, 400, refused="not now")
    relax(refused, view, Rules())
    assert (refused.asked, refused.state) == ([], known)


def test_bars_double_only_in_a_row():
    known = Flying().bar("skew users", 0, 1_000).bar("skew users", 1_500, 1_000)
    assert known.bars["skew users"].until_ms == 3_500
    assert known.bar("skew users", 5_499, 1_000).bars["skew users"].until_ms == 9_499
    assert known.bar("skew users", 5_500, 1_000).bars["skew users"].until_ms == 6_500


def test_what_helped_frees_what_it_was_against():
    known = Flying().bar("split users", 0, 1_000).bar("skew users", 0, 1_000)
    assert known.freed("split users", "skew users").bars == {}


@pytest.mark.parametrize(
    ("gain", "barred", "looked_at"),
    [
        (0.2, {}, True),
        (0.2, {"skew orders": None}, True),
        (0.2, {"skew users": 0.15}, False),
        (0.3, {"skew users": 0.15}, True),  # the rows of another key, perhaps
        (0.9, {"skew users": None}, False),  # a remedy was tried against it
    ],
)
def test_a_cause_that_has_become_much_worse_is_looked_at_again(gain, barred, looked_at):
    skew = Bound(cause="skew", operator="users", share=0.9, gain=gain, why="")
    view = View(
        shares=shares(90, process=1.0),
        bounds=(skew,),
        loads={},
        pressure=1.0,
        figures=figures(90.0, 100.0),
    )
    assert (chosen(view, 0.1, barred, scaled=False) is skew) == looked_at


def test_a_cause_without_a_remedy_is_barred_with_what_it_costs():
    skew = Bound(cause="skew", operator="users", share=0.9, gain=0.2, why="it is skewed")
    control = Controlled(
        configuration=Configuration(operators={"users": OperatorConfiguration(tasks=2)})
    )
    control.rows_per_bin = {}
    view = SimpleNamespace(shares=shares(90), loads={}, figures=figures(90.0, 100.0), fixed=0.0)
    mend(control, view, skew, {}, Rules())
    assert control.state.bars["skew users"].gain == 0.2
    assert control.notes == ["it is skewed, and no remedy saves 10% of a timestep"]


def test_only_replies_to_the_same_question_are_used():
    skew = Bound(cause="skew", operator="users", share=0.5, gain=0.5, why="")
    travel = Bound(cause="communication", share=0.5, gain=0.5, why="")
    assert answered(skew, {"users": HotKeys()})
    assert answered(travel, {"users": Traffic(), "other": Traffic()})
    assert not answered(skew, {"users": Traffic()})
    assert not answered(skew, {"other": HotKeys()})
    assert not answered(travel, {"users": HotKeys()})
    assert not answered(travel, {})
    assert not answered(SCHEDULING, {"users": HotKeys()})


def advised(tasks: int, executors: int | None = None) -> Scaling:
    said = Advice(parallelism={"users": tasks}, executors=executors, reason="")
    present = {"users": 8, EXECUTORS: 4}
    decision = Decision(at_s=0.0, outcome="enough", why="", present=present, advice=said)
    return Scaling(steered=Steered(decision=decision))


def test_fewer_tasks_keep_the_bounds_and_are_for_the_executors_that_there_are():
    assert tasks_wanted(advised(2), Steering(parallelism=(4, 16))) == {"users": 4}
    assert tasks_wanted(advised(2), Steering()) == {"users": 2}
    assert tasks_wanted(advised(2, executors=2), Steering()) == {}
    assert tasks_wanted(Scaling(), Steering()) == {}


def test_fewer_tasks_are_wanted_of_each_operator_alone_as_well():
    tasks = {"users": OperatorConfiguration(tasks=8), "orders": OperatorConfiguration(tasks=4)}
    now = Configuration(interval_ms=100, operators=tasks)
    of = shares(50, scheduling=0.6, process=0.4)
    both, users, orders = fewer_tasks(SCHEDULING, of, now, {"users": 2, "orders": 3, "new": 1})
    assert (both.touched, users.touched, orders.touched) == (
        ("users", "orders"),
        ("users",),
        ("orders",),
    )
    assert (both.gain, users.gain, orders.gain) == pytest.approx((0.35, 0.3, 0.05))
    (alone,) = fewer_tasks(SCHEDULING, of, now, {"users": 2, "orders": 4})
    assert alone.touched == ("users",)


def test_autoscale_may_act_where_there_is_no_profile_for_long():
    known = Flying(held=True, evaluated=10)
    for timestep, held in ((33, True), (34, False)):
        control = Controlled(known, timestep=timestep, profile=lambda **_: None)
        assert view_if_due(control, Rules(window=8)) is None
        assert control.state.held == held


def test_a_straggler_is_the_task_with_most_of_the_critical_path():
    load = Load(
        operator="users",
        rows=np.array([5.0, 10.0]),
        busy_ms=np.array([40.0, 50.0]),
        at=("a", "b"),
    )
    found = CriticalShares(
        first=1,
        last=8,
        timesteps=8,
        mean_ms=50.0,
        kinds={"process": 1.0},
        tasks={"users": {0: 0.7}},
    )
    bounds = bounds_of(found, [load], {"a": 1, "b": 1}, 2)
    straggler = next(each for each in bounds if each.operator == "users")
    assert straggler.why.startswith("task 0 of 'users' is 70% of the critical path")


def test_a_key_that_has_just_become_hot_is_no_reason_to_move_bins():
    """The rows of bins are still even; moving others away from the key's task cannot help against 60 % of the rows."""
    routing = Routing.even(bins=8, tasks=2)
    load = Load(
        operator="users",
        rows=np.array([80.0, 20.0]),
        busy_ms=np.array([80.0, 20.0]),
        at=("a", "b"),
    )
    bound = Bound(cause="skew", operator="users", share=0.8, gain=0.3, why="task 0 has most rows")
    of = Straggling.of(bound, routing, [10.0, 10, 10, 10, 5, 5, 5, 5], load, {"a": 1, "b": 1})
    key = HotKey(hash=routing.starts[0], key="7", left=Rows(sum=60, most=60))
    hot = of.knowing(HotKeys(rows=100, keys=(key,)))
    assert hot.weights[0] == pytest.approx(0.6 * 60)
    moved, knowing = of.moved(), hot.moved()
    assert knowing.gain < 0.8 * (1 - 36 / 66) + 1e-9
    assert moved.gain > 0
    assert of.knowing(HotKeys()).weights.tolist() == of.weights.tolist()


def test_a_timestep_without_rows_cuts_nothing():
    cut = cut_of(Routing.even(bins=4, tasks=2), [9.0, 0.0, 0.0, 0.0], Heaviest(), 0.1)
    assert (cut.bin, cut.one_key) == (0, False)
