"""Autopilot, in running streams of which something is wrong: each cause leads to its remedy, once."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.control.library.flight import Flying
from rechannel.control.library.hotkeys import AskHotKeys, HotKeys
from rechannel.errors import RefusedError
from rechannel.kernels.protocol.control import TaskView
from rechannel.model.codec import decode
from rechannel.model.configuration import Combine
from rechannel.model.hashing import hash_columns
from rechannel.model.routing import Routing
from tests.unit.control.library.machines import Flight, Machines

ALIKE = dict.fromkeys("abcd", 1.0)
ROW_MS = 10.0


def bin_of(key: int, bins: int) -> int:
    hashes = hash_columns([pa.array([key], pa.int64())])
    return Routing.even(bins=bins, tasks=1).bin_of(int(hashes[0]))


HEAVY = [next(k for k in range(1_000) if bin_of(k, 8) == n) for n in (0, 1)]
"""A key of each of the first two of eight bins."""


def cost(operator: str, task: int, rows: int) -> float:
    return 0.02 * rows if operator == "in" else 5 + ROW_MS * rows


def known(flight: Flight) -> Flying:
    state = flight.process.controllers.board.seat("pilot").state
    return decode(Flying, state)


def changes(flight: Flight) -> list[str]:
    return [str(record.change) for record in flight.process.changes.coordination.records]


def mended(flight: Flight):
    """Decisions of Autopilot itself, without those of AutoScale."""
    return [each for each in known(flight).decisions if "remedy" in each.evidence]


def remedies(flight: Flight) -> list[str]:
    return [each.evidence["remedy"] for each in mended(flight)]


def test_skew_is_balanced_as_far_as_was_predicted(monkeypatch):
    # Of eight bins, the first two have most of the rows, and one task has both.
    flight = Flight(
        monkeypatch,
        Machines(cost=cost, slowness=ALIKE),
        rows_per_second=160,
        bins=8,
        key=lambda n: HEAVY[n % 2] if n % 10 < 7 else n % 64,
    )
    took = flight.run(16)
    made = mended(flight)[0]
    assert made.changes == ("rebalance(operator='counts', tolerance=0.1)",)
    assert made.evidence["critical"]["skew"] > 0.8
    assert took[-1] == pytest.approx(took[0] * (1 - made.evidence["saves"]), rel=0.15)
    assert made.became.endswith("was predicted)")


def test_a_heavy_bin_is_cut_and_its_parts_are_moved(monkeypatch):
    keys = [k for k in range(400) if bin_of(k, 4) == 0][:64]
    flight = Flight(
        monkeypatch,
        Machines(cost=cost, slowness=ALIKE),
        rows_per_second=160,
        bins=4,
        key=lambda n: keys[n % 64] if n % 10 < 7 else n % 400,
    )
    took = flight.run(14)
    assert remedies(flight) == ["split"]
    assert flight.configuration.operators["counts"].routing.bins > 4
    assert took[-1] < 0.7 * took[0]


def test_rows_of_a_hot_key_are_combined_before_they_are_sent(monkeypatch):
    flight = Flight(
        monkeypatch,
        Machines(cost=cost, slowness=ALIKE),
        rows_per_second=160,
        key=lambda n: n % 64 if n % 2 else 5,
    )
    flight.run(12)
    (made,) = mended(flight)
    assert "the key 5 has 5" in made.why
    assert flight.configuration.operators["counts"].combine is Combine.ON


def test_where_a_task_does_not_answer_autoscale_has_the_turn(monkeypatch):
    """Without all answers nothing is known of hot keys, however often the tasks are asked."""
    answer = AskHotKeys.on_complete

    def fails(self: AskHotKeys, task: TaskView) -> HotKeys:
        if task.task == 0:
            raise ValueError("no time")
        return answer(self, task)

    monkeypatch.setattr(AskHotKeys, "on_complete", fails)
    flight = Flight(
        monkeypatch,
        Machines(cost=cost, slowness=ALIKE),
        rows_per_second=160,
        key=lambda n: n % 64 if n % 2 else 5,
    )
    flight.run(24)
    seat = flight.process.controllers.board.seat("pilot")
    assert not seat.suspended
    assert known(flight).scaling.steered.evaluated_s is not None


def test_tasks_of_a_slow_executor_get_less_to_do(monkeypatch):
    machines = Machines(cost=cost, slowness=dict(ALIKE))
    flight = Flight(monkeypatch, machines, rows_per_second=160, key=lambda n: n * 31 % 997)
    calm = flight.run(8)[-1]
    assert not changes(flight)
    machines.slowness["b"] = 4.0
    slow = flight.run(14)
    assert remedies(flight) == ["shift"]
    # Three executors as before and one of a quarter of the speed.
    assert slow[0] > 3 * calm
    assert slow[-1] == pytest.approx(calm * 4 / 3.25, rel=0.15)


def test_too_few_tasks_become_more(monkeypatch):
    flight = Flight(monkeypatch, Machines(cost=cost, slowness=ALIKE), rows_per_second=200, tasks=1)
    took = flight.run(14)
    assert flight.configuration.operators["counts"].tasks == 4
    assert took[-1] < 800 < took[0]
    assert changes(flight) == ["rescale(operator='counts', tasks=4)"]


def test_too_many_tasks_become_fewer(monkeypatch):
    machines = Machines(cost=cost, slowness=ALIKE, launch_ms=20)
    flight = Flight(monkeypatch, machines, rows_per_second=40, tasks=40)
    took = flight.run(14)
    assert flight.configuration.operators["counts"].tasks <= 4
    assert took[-1] < took[0] / 2


def test_what_a_timestep_costs_whatever_its_rows_comes_less_often(monkeypatch):
    machines = Machines(cost=cost, slowness=ALIKE, driver_ms=1_200)
    flight = Flight(monkeypatch, machines, rows_per_second=40)
    flight.run(16)
    assert remedies(flight) == ["longer interval"]
    interval = flight.configuration.interval_ms
    # 1,200 ms of the driver and 100 ms of rows per second, at 80 %.
    assert interval == pytest.approx(1_200 / (0.8 - 0.1), rel=0.2)


def test_the_interval_is_as_before_once_there_is_room_for_it(monkeypatch):
    machines = Machines(cost=cost, slowness=ALIKE, driver_ms=1_200)
    flight = Flight(monkeypatch, machines, rows_per_second=40)
    flight.run(16)
    assert flight.configuration.interval_ms > 1_000
    machines.driver_ms = 500
    flight.run(12)
    # 500 ms and 100 ms of rows are more than 0.7 of the 800 ms that a timestep may take.
    assert flight.configuration.interval_ms > 1_000
    machines.driver_ms = 200
    flight.run(12)
    assert flight.configuration.interval_ms == 1_000
    assert changes(flight).count("set_interval(interval_ms=1000)") == 1


def test_what_does_not_help_is_taken_back_and_not_tried_again(monkeypatch):
    # Task 1 is slow wherever it is and however few rows it has: it looks like a slow executor.
    flight = Flight(
        monkeypatch,
        Machines(
            cost=lambda o, t, r: 700.0 if (o, t) == ("counts", 1) else cost(o, t, r), slowness=ALIKE
        ),
        rows_per_second=100,
    )
    before = flight.configuration.operators["counts"]
    flight.run(50)
    after = flight.configuration.operators["counts"]
    assert (after.routing, after.placement) == (before.routing, before.placement)
    back = [each for each in known(flight).decisions if each.outcome == "rolled back"]
    assert remedies(flight) == ["shift", "place"]
    assert [(each.became.split(":")[0], each.became.endswith(" is done")) for each in back] == [
        ("r2", True),
        ("r4", True),
    ]
    assert known(flight).bars.keys() >= {"shift counts", "place counts"}


def rebalancing(monkeypatch: pytest.MonkeyPatch) -> tuple[Machines, Flight]:
    """A stream with two heavy bins, of which one is moved away, as soon as that is requested."""
    machines = Machines(cost=cost, slowness=dict(ALIKE))
    flight = Flight(
        monkeypatch,
        machines,
        rows_per_second=160,
        bins=8,
        batches=[160] * 40,
        key=lambda n: HEAVY[n % 2] if n % 10 < 7 else n % 64,
    )
    while not changes(flight):
        flight.run(1)
    return machines, flight


def test_a_change_is_not_blamed_for_an_executor_that_becomes_slow_meanwhile(monkeypatch):
    machines, flight = rebalancing(monkeypatch)
    assert remedies(flight) == ["rebalance"]
    machines.slowness |= dict.fromkeys("bcd", 4.0)
    flight.run(16)
    assert not [each for each in known(flight).decisions if each.outcome == "rolled back"]
    assert "a row costs" in mended(flight)[0].became
    assert mended(flight)[0].became.endswith("it is not judged")


def test_a_stream_without_a_problem_is_left_alone(monkeypatch):
    flight = Flight(monkeypatch, Machines(cost=cost, slowness=ALIKE), rows_per_second=160)
    flight.run(24)
    assert changes(flight) == []
    assert {each.outcome for each in known(flight).decisions} <= {"warm-up", "enough", "delay"}


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))]
)
def test_no_load_that_stays_makes_it_oscillate(monkeypatch, seed):
    random = Random(seed)
    hot, noise = random.choice([0, 0.2, 0.5]), random.choice([0, 0.2])
    row_ms = random.choice([10.0, 20.0])
    slowness = {**ALIKE, "b": random.choice([1.0, 2.0, 4.0])}

    def noisy(operator: str, task: int, rows: int) -> float:
        ms = 0.02 * rows if operator == "in" else 5 + row_ms * rows
        return ms * (1 + noise * (2 * random.random() - 1))

    flight = Flight(
        monkeypatch,
        Machines(cost=noisy, slowness=slowness, launch_ms=random.choice([1.0, 10.0])),
        rows_per_second=random.randint(25, 100),
        tasks=random.choice([1, 4, 16]),
        key=lambda n: 5 if n * 7919 % 100 < 100 * hot else n * 31 % 997,
        combine=random.choice(list(Combine)),
    )
    seen = []
    for _ in flight.each(48):
        now = flight.configuration.operators["counts"]
        shape = now.tasks, now.combine, now.routing
        if not seen or seen[-1] != shape:
            seen.append(shape)
    records = flight.process.changes.coordination.records
    back = [each for each in known(flight).decisions if each.outcome == "rolled back"]
    assert len(seen) - len(set(map(repr, seen))) <= len(back)
    assert len(records) <= 6
    assert sum((record.last_timestep or 0) > 32 for record in records) <= 1


def test_changes_never_overlap_whoever_wants_them(monkeypatch):
    machines = Machines(cost=cost, slowness={**ALIKE, "b": 3.0}, launch_ms=5)
    flight = Flight(
        monkeypatch, machines, rows_per_second=200, tasks=2, key=lambda n: n % 64 if n % 3 else 5
    )
    flight.run(26)
    records = [r for r in flight.process.changes.coordination.records if r.taken]
    assert len(records) > 1
    spans = sorted((r.taken[0].timestep, r.last_timestep) for r in records)
    assert all(last < first for (_, last), (first, _) in pairwise(spans))


def test_it_does_not_fight_with_another_controller(monkeypatch):
    balance = rc.control.library.Balance(cool_down=3)
    flight = Flight(
        monkeypatch,
        Machines(cost=cost, slowness={**ALIKE, "b": 3.0}),
        rows_per_second=120,
        key=lambda n: n * 31 % 997,
        others=(balance,),
    )
    shapes = []
    for _ in flight.each(50):
        routing = flight.configuration.operators["counts"].routing
        if not shapes or shapes[-1] != routing:
            shapes.append(routing)
    records = [r for r in flight.process.changes.coordination.records if r.taken]
    assert len({r.origin[:3] for r in records}) == 2  # both have changed something
    spans = sorted((r.taken[0].timestep, r.last_timestep) for r in records)
    assert all(last < first for (_, last), (first, _) in pairwise(spans))
    # Each undoes what the other does, and both wait longer each time.
    assert len(records) <= 8
    assert sum(first > 30 for first, _ in spans) <= 2


@pytest.mark.parametrize("seed", range(2))
def test_output_is_that_of_a_stream_without_it(monkeypatch, seed):
    random = Random(seed)
    batches = [random.randint(20, 300) for _ in range(20)]
    machines = Machines(cost=cost, slowness={**ALIKE, "c": random.choice([1.0, 4.0])})
    settings = {"tasks": random.choice([1, 4, 8]), "key": lambda n: n % 64 if n % 2 else 5}
    outputs = []
    for piloted in (True, False):
        with monkeypatch.context() as patched:
            flight = Flight(
                patched,
                replace(machines, began={}),
                rows_per_second=1,
                batches=batches,
                piloted=piloted,
                **settings,
            )
            flight.run(len(batches))
            rows = flight.stream.output().to_pylist()
            outputs.append(Counter(tuple(sorted(row.items())) for row in rows))
            assert bool(changes(flight)) == piloted
    assert outputs[0] == outputs[1]


def test_without_an_interval_it_mends_what_it_can_and_says_why_it_does_not_scale(monkeypatch):
    flight = Flight(
        monkeypatch,
        Machines(cost=cost, slowness=ALIKE),
        rows_per_second=160,
        bins=8,
        interval_ms=0,
        key=lambda n: HEAVY[n % 2] if n % 10 < 7 else n % 64,
    )
    flight.run(20)
    assert remedies(flight)[0] == "rebalance"
    told = [each for each in known(flight).decisions if each.outcome == "cannot decide"]
    assert {each.why for each in told} == {
        "timesteps have no interval to keep: give latency_ms=, or the stream an interval_ms above 0"
    }
    assert flight.process.controllers.board.seat("pilot").failures == 0


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"window": 1}, "a window of 2 to 20"),
        ({"least": 1.0}, "0 < least < 1"),
        ({"barred_s": 0.0}, "barred_s > 0"),
        ({"target_utilisation": 0}, "0 < target_utilisation <= 1"),
    ],
)
def test_rules_that_make_no_sense_are_refused(rules, words):
    with pytest.raises(RefusedError, match=words):
        rc.control.library.Autopilot(**rules)


def test_a_late_stream_does_not_wait_for_a_trial_that_says_nothing_any_more(monkeypatch):
    """An executor becomes slow in the second timestep after a change: that timestep is enough to mend it."""
    machines, flight = rebalancing(monkeypatch)
    while flight.process.changes.coordination.open:
        flight.run(1)
    machines.slowness["a"] = 12.0
    flight.run(3)
    assert mended(flight)[0].became.endswith("it is not judged")
    assert len(remedies(flight)) == 2
    assert remedies(flight)[1] in {"shift", "place"}
