"""AutoScale, in a running stream whose tasks cost what the test says."""

from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.control.library import autoscale, scale_goal
from rechannel.control.library.scaled import Scaling, coming_s, ended
from rechannel.control.loading import checked
from rechannel.engine.reconfigure.cluster import FixedCluster
from rechannel.engine.reconfigure.measured import Measured
from rechannel.errors import RefusedError
from rechannel.model.codec import decode
from rechannel.model.configuration import Combine, Configuration
from rechannel.reconfigure.record import Phase
from rechannel.scaling.measured import Machines, measured_windows
from rechannel.scaling.policies.policy import Cores
from rechannel.telemetry.hub import Hub
from rechannel.telemetry.recent_tasks import TimestepTasks
from rechannel.testing import Harness, ManualClock

FIXED_MS, ROW_MS, READ_MS, INTERVAL_MS = 5.0, 1.0, 0.01, 1_000
SHARE = 0.8
WINDOW_S = 4.0
KEYS = 64
STEERING = {"interval_s": WINDOW_S, "warm_up_s": 1, "down_delay_s": 2 * WINDOW_S}


def priced(timestep: TimestepTasks) -> TimestepTasks:
    """The tasks of a timestep as if they had taken a fixed time and a time for each row."""
    operators = {}
    for name, tasks in timestep.operators.items():
        ms = FIXED_MS + ROW_MS * tasks.rows if name == "counts" else READ_MS * tasks.rows
        operators[name] = replace(tasks, busy_ms=ms, core_ms=ms)
    return replace(timestep, operators=operators, sums=None)


@pytest.fixture(autouse=True)
def tasks_cost_what_the_test_says(monkeypatch):
    def priced_windows(progress, tasks, **how):
        return measured_windows(progress, map(priced, tasks), **how)

    monkeypatch.setattr(scale_goal, "measured_windows", priced_windows)


def uncombined(configuration: Configuration) -> Configuration:
    """Every row reaches "counts"."""
    counts = replace(configuration.operators["counts"], combine=Combine.OFF)
    return replace(configuration, operators={**configuration.operators, "counts": counts})


class Busy:
    """Rows arrive at a rate, and are counted by key."""

    def __init__(
        self, rows_per_second: int, tasks: int, *, dry_run: bool = False, room: int = 1, **goal
    ) -> None:
        self.clock = ManualClock()
        self.rate = rows_per_second
        self.rows = rc.sources.MemoryConnector(schema=pa.schema({"k": pa.int64()}))
        keyed = rc.read().memory(self.rows, name="in").key_by("k")
        counts = keyed.aggregate(n=rc.aggregates.count(), name="counts")
        settings = rc.Settings(interval_ms=INTERVAL_MS, tasks=tasks)
        self.stream = Harness(
            counts.write.memory("out"),
            clock=self.clock,
            settings=settings,
            configure=uncombined,
            cluster=FixedCluster(room=room),
        )
        scale = rc.control.library.AutoScale(
            **{
                "cores_per_executor": 16,
                "steering": STEERING,
                "target_utilisation": SHARE,
                "bins": 64,
                **goal,
            }
        )
        self.process = self.stream.start(
            controllers=[rc.control.install(scale, name="scale", dry_run=dry_run)]
        )
        self.number = 0

    @property
    def tasks(self) -> int:
        return self.process.position.configuration.operators["counts"].tasks

    def run(self, timesteps: int) -> list[int]:
        """Run so many timesteps. Returns the tasks of each."""
        seen = []
        for _ in range(timesteps):
            count = self.rate * INTERVAL_MS // 1_000
            self.rows.push([{"k": (self.number + n) % KEYS} for n in range(count)])
            self.number += count
            self.process.run()
            seen.append(self.tasks)
            self.clock.advance(INTERVAL_MS)
        return seen


def scaling(busy: Busy):
    return busy.process.controllers.board.seat("scale").state


def decisions(busy: Busy):
    return decode(Scaling, scaling(busy)).decisions


def changes(busy: Busy) -> list[str]:
    return [str(record.change) for record in busy.process.changes.coordination.records]


def test_one_change_leads_to_the_tasks_that_are_needed():
    busy = Busy(2_400, 1, policy="ds2")
    tasks = busy.run(24)
    assert (tasks[0], tasks[-1], sorted(set(tasks))) == (1, 4, [1, 4])
    assert changes(busy) == ["rescale(operator='counts', tasks=4)"]
    made = next(each for each in decisions(busy) if each.outcome == "changed")
    assert made.parallelism == {"counts": 4}
    assert "records per second will reach 'counts'" in made.why
    assert made.evidence["counts"]["target_per_s"] == pytest.approx(2_400)
    assert made.became.endswith("is done")
    assert decisions(busy)[-1].outcome == "enough"


def test_timesteps_right_after_a_start_do_not_count():
    busy = Busy(2_400, 1, policy="ds2")
    busy.run(24)
    outcomes = [each.outcome for each in decisions(busy)]
    assert outcomes[:2] == ["warm-up", "changed"]
    first = next(each for each in decisions(busy) if each.outcome == "changed")
    assert first.timestep > 2 * WINDOW_S


def test_telemetry_has_every_decision_and_what_became_of_it(monkeypatch):
    told = []
    monkeypatch.setattr(Hub, "decided", lambda _, event: told.append(event))
    busy = Busy(2_400, 1, policy="ds2")
    busy.run(24)
    latest = {(each.timestep, each.at_ms): each for each in told}
    assert {each.controller for each in told} == {"scale"}
    for made in decisions(busy):
        event = latest[made.timestep, made.at_ms]
        assert (event.outcome, event.why, event.became) == (made.outcome, made.why, made.became)
        assert event.data.get("evidence", {}) == made.evidence
    ends = [each.became for each in told if each.outcome == "changed"]
    assert ends[0] == ""
    assert ends[-1].endswith("is done")


def test_tasks_follow_the_load_down_too():
    busy = Busy(4_800, 8, policy="ds2")
    most = busy.run(30)
    busy.rate = 1_200
    least = busy.run(30)
    assert (most[-1], least[-1]) == (7, 2)
    made = [each.parallelism for each in decisions(busy) if each.outcome == "changed"]
    assert made[0] == {"in": 1, "counts": 7}
    numbers = [each["counts"] for each in made]
    assert numbers == sorted(numbers, reverse=True)
    assert len(numbers) <= 3  # one more for the window in which the load changes


def test_timesteps_get_as_short_as_the_cores_allow():
    busy = Busy(2_400, 1, cores_per_executor=6)
    tasks = busy.run(20)
    assert sorted(set(tasks)) == [1, 6]
    made = next(each for each in decisions(busy) if each.outcome == "changed")
    assert made.evidence["operators"]["counts"]["row_ms"] == pytest.approx(ROW_MS, rel=0.1)


def test_a_dry_run_only_advises():
    busy = Busy(2_400, 1, policy="ds2", dry_run=True)
    assert set(busy.run(20)) == {1}
    assert changes(busy) == []
    wanted = [each for each in decisions(busy) if each.parallelism == {"counts": 4}]
    assert wanted[0].became == "a dry run: it was not requested"


def test_bounds_hold():
    busy = Busy(9_600, 1, policy="ds2", max=4)
    assert max(busy.run(20)) == 4


def test_no_more_tasks_are_wanted_than_the_executors_that_there_may_be_have_cores():
    busy = Busy(4_800, 1, executors=(1, 2), cores_per_executor=2, dry_run=True, room=8)
    busy.run(12)
    made = [each for each in decisions(busy) if each.outcome == "changed"]
    assert {(each.executors, each.parallelism["counts"]) for each in made} == {(2, 4)}


def test_all_cores_that_there_are_get_a_task_where_their_number_stays():
    busy = Busy(800, 1, cores_per_executor=4)
    assert busy.run(16)[-1] == 4  # 2 would keep the interval


@pytest.mark.parametrize("ms_per_byte", [1e-9, 1e6])
def test_executors_are_released_only_where_that_saves_more_than_the_change_costs(
    monkeypatch, ms_per_byte
):
    """The price is the plan's: state that moves, at what a byte takes."""
    monkeypatch.setattr(Measured, "ms_per_byte", ms_per_byte)
    busy = Busy(400, 4, executors=(1, 4), cores_per_executor=1, room=4, dry_run=True)
    monkeypatch.setattr(
        scale_goal, "machines_of", lambda _: Machines(executors=4, cores_per_executor=1)
    )
    busy.run(30)
    made = {each.outcome: each for each in decisions(busy)}
    assert ("price" in made, "changed" in made) == (ms_per_byte > 1, ms_per_byte < 1)
    if ms_per_byte > 1:
        assert "core-seconds and saves 5,400 within 1800 s" in made["price"].why


def test_what_became_of_a_request_is_known_by_the_ids_of_its_changes():
    phase = Phase.FAILED
    record = SimpleNamespace(id="r2", open=False, phase=phase, change="executors(3)", reason="none")
    earlier = SimpleNamespace(id="r1", open=True, phase=Phase.MOVING, change="other", reason="")
    control = SimpleNamespace(changes=[earlier, record], requested=lambda _: True, dry_run=False)
    over, became = ended(control, ("r1",))
    assert (over, became) == (True, "r2: executors(3) is failed: none")
    known = Scaling(requested=("r1",)).with_end(7.0, became)
    assert (known.requested, known.steered.changed_s) == (None, 7.0)


def test_executors_and_tasks_are_one_change(monkeypatch):
    monkeypatch.setattr(
        scale_goal, "machines_of", lambda _: Machines(executors=1, cores_per_executor=1)
    )
    busy = Busy(2_000, 1, executors=(1, 8), cores_per_executor=1, room=8)
    busy.run(12)
    assert changes(busy)[0].startswith("executors(executors=3), rescale(operator='")


def test_executors_come_after_as_long_as_they_took_before():
    def record(own: bool, needed: int | None, taken: tuple = (), **times: int) -> SimpleNamespace:
        change = SimpleNamespace(executors_needed=needed)
        steps = [SimpleNamespace(time_ms=ms) for ms in taken]
        return SimpleNamespace(own=own, change=change, taken=steps, times=times)

    def coming(*records: SimpleNamespace) -> float:
        control = SimpleNamespace(changes=records, requested=lambda each: each.own)
        return coming_s(control, 10.0)

    first, later = (
        record(True, 4, (31_000,), waiting=1_000),
        record(True, 5, (9_000,), waiting=5_000),
    )
    assert coming() == coming(record(True, None, (99_000,), waiting=0)) == 10
    assert coming(record(False, 4, (99_000,), waiting=0), record(True, 4, waiting=0)) == 10
    assert (coming(first), coming(later), coming(first, later)) == (30, 4, 30)


@pytest.mark.parametrize(("durations_ms", "delay_s"), [((), 10), ((2_000.0, 8_000.0), 26)])
def test_executors_are_waited_for_by_the_timestep_before_and_the_one_after(durations_ms, delay_s):
    goal = rc.control.library.AutoScale(executors=(1, 8), startup_s=10).goal
    cores = Cores(executors=1, cores_per_executor=1, durations_ms=durations_ms)
    control = SimpleNamespace(changes=(), requested=lambda _: True, refusal=lambda _: "")
    assert goal._limited(control, SimpleNamespace(cores=cores)).delay_s == delay_s


def test_a_decision_that_the_stream_refuses_is_no_change(monkeypatch):
    """Else as many as there may be would hold back the one that is needed."""
    refuses, allowed = [True], autoscale.allowed

    def refused(control, parallelism, number):
        if refuses[0]:
            return [], ["it is spread"]
        return allowed(control, parallelism, number)

    monkeypatch.setattr(autoscale, "allowed", refused)
    busy = Busy(2_400, 1, policy="ds2", steering={**STEERING, "most_changes": 2})
    busy.run(60)
    told = [each for each in decisions(busy) if each.outcome == "changed"]
    assert len(told) > 2
    assert {each.became for each in told} == {"it is spread"}
    refuses.clear()
    refuses.append(False)
    busy.run(24)
    assert busy.tasks == 4


def test_a_request_that_left_no_change_was_refused():
    control = SimpleNamespace(changes=[], requested=lambda _: True, dry_run=False)
    assert ended(control, ()) == (True, "the stream refused it; the controller's log says why")


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        ({"target_utilisation": 0}, "0 < target_utilisation <= 1"),
        ({"latency_ms": -1.0}, "a latency above 0"),
        ({"cores_per_executor": 0}, "at least one core"),
        ({"bins": 0}, "at least one bin"),
        ({"budget_ms": 0}, "milliseconds above 0"),
        ({"catch_up_s": 0}, "seconds above 0"),
        ({"startup_s": -1}, "seconds that are not negative"),
        ({"policy": "threshold", "catch_up_s": 5}, "policy 'threshold' knows no backlog"),
        ({"policy": "magic"}, "policy 'magic': there is none; give one of ds2, "),
        ({"min": 5, "max": 2}, "1 <= least <= most"),
        ({"executors": (0, 2)}, "1 <= least <= most"),
        ({"steering": {"interval": 3}}, "no setting 'interval'; there are "),
        ({"steering": {"interval_s": -3}}, "interval_s=-3"),
        ({"steering": {"activation": 1.5}}, "steering: activation=1.5: "),
        ({"steering": {"roll_back": "no"}}, "steering: roll_back='no': "),
        ({"steering": {"interval_s": None}}, "steering: interval_s=None: "),
    ],
)
def test_goals_that_make_no_sense_are_refused(goal, words):
    with pytest.raises(RefusedError, match=words):
        rc.control.library.AutoScale(**goal)


def test_requests_have_settings_of_every_type():
    said = {
        "activation": 2,
        "roll_back": False,
        "horizon_s": None,
        "worse": 1,
    }
    found = checked(rc.control.library.AutoScale, {"steering": said, "max": 4}, None)
    steering = rc.control.library.AutoScale(**found).goal.steering
    assert (steering.activation, type(steering.activation)) == (2, int)
    assert (steering.roll_back, steering.horizon_s) == (False, None)
    assert (steering.worse, steering.parallelism) == (1.0, (1, 4))


def test_the_catch_up_time_is_that_of_the_policy_unless_it_is_given():
    def catch_up(**goal) -> float | None:
        return rc.control.library.AutoScale(**goal).goal.policy.catch_up_s

    assert (catch_up(), catch_up(policy="ds2")) == (60.0, None)
    assert catch_up(policy="ds2", catch_up_s=20) == 20


def test_state_moves_at_once_within_a_budget_or_some_bins_at_a_time():
    scale = rc.control.library.AutoScale
    assert str(scale().strategy) == "all_at_once(budget_ms=100.0)"
    assert str(scale(bins=8, budget_ms=5).strategy) == "fluid(budget_ms=5.0, bins=8)"


def clicked(**settings) -> Harness:
    rows = rc.sources.MemoryConnector(schema=pa.schema({"k": pa.int64()}))
    counts = rc.read().memory(rows, name="in").key_by("k").aggregate(n=rc.aggregates.count())
    return Harness(counts.write.memory("out"), settings=rc.Settings(**settings))


def test_a_stream_without_an_interval_is_refused_before_it_runs():
    scale = rc.control.library.AutoScale
    with pytest.raises(RefusedError, match=r"'autoscale' is not installed: .* give latency_ms="):
        clicked().start(controllers=[rc.control.install(scale())])
    for fit in (scale(latency_ms=500), scale(policy="ds2"), scale(policy="threshold")):
        process = clicked().start(controllers=[rc.control.install(fit)])
        assert process.controllers.runs("autoscale")
    process = clicked(interval_ms=100).start(controllers=[rc.control.install(scale())])
    assert process.controllers.runs("autoscale")
    process = clicked().start()
    asked = process.controllers.install(rc.control.install(scale()))
    process.run()
    with pytest.raises(RefusedError, match="above 0"):
        asked.result(timeout=1)


def test_without_an_interval_any_more_it_says_so_once():
    busy = Busy(1_000, tasks=4)
    busy.run(6)
    busy.process.reconfigure(rc.changes.set_interval(0))
    busy.run(12)
    told = decisions(busy)
    assert [each.outcome for each in told].count("cannot decide") == 1
    assert told[-1].why.startswith("timesteps have no interval to keep")
    assert busy.process.controllers.board.seat("scale").failures == 0
    busy.process.reconfigure(rc.changes.set_interval(INTERVAL_MS))
    busy.run(12)
    assert decisions(busy)[-1].outcome != "cannot decide"


def test_a_start_checks_the_interval_that_the_stream_has_now():
    stream = clicked()
    process = stream.start()
    process.run()
    process.reconfigure(rc.changes.set_interval(1_000))
    process.run()
    assert process.position.configuration.interval_ms == 1_000
    process.stop()
    scale = rc.control.install(rc.control.library.AutoScale())
    assert stream.start(controllers=[scale]).controllers.runs("autoscale")


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("dhalion", "timesteps do not have"),
        ("dynamic-allocation", r"give executors=\(least, most\)"),
        ("streaming-dynamic-allocation", r"give executors=\(least, most\)"),
    ],
)
def test_a_policy_that_could_never_act_is_refused(policy, words):
    scale = rc.control.library.AutoScale(policy=policy)
    with pytest.raises(RefusedError, match=words):
        clicked(interval_ms=100).start(controllers=[rc.control.install(scale)])
