"""SkewJoin, in a running stream."""

from collections import Counter
from typing import Any

import pytest

import rechannel as rc
from rechannel.control.library.skew import skew_of
from rechannel.errors import RefusedError
from rechannel.reconfigure.record import Record
from rechannel.testing import Crash, Fault, FaultKind, Harness, script
from rechannel.testing.process import Process

TASKS, BINS = 4, 16
KEYS = range(40)
HOT = 7
EVEN = list(KEYS)
SKEWED = [HOT] * 60 + EVEN
QUIET, LOUD = 6, 20


def sides(left: list[list[int]], right: list[list[int]]) -> list[Any]:
    """Two streams, one batch of keys per timestep; each row has a number, and the time of its timestep."""
    out = []
    for name, batches in (("left", left), ("right", right)):
        numbers = iter(range(100_000))
        rows = [
            [{"k": k, "number": next(numbers), "at": 1_000_000 * t} for k in batch]
            for t, batch in enumerate(batches)
        ]
        stream = rc.read().memory(script("k bigint, number bigint, at timestamp", rows), name=name)
        out.append(stream.event_time("at"))
    return out


def joined(
    left: list[list[int]], right: list[list[int]], how: str = "inner", tasks: int = TASKS
) -> Harness:
    """Rows meet those of the other side that are at most two timesteps away."""
    one, other = sides(left, right)
    within = rc.between("-2 seconds", "2 seconds")
    pairs = one.join(other, "k", how=how, within=within, name="pairs")  # type: ignore[arg-type]
    return Harness(pairs.write.memory("out"), settings=rc.Settings(tasks=tasks, bins=BINS))


def start(stream: Harness, **options: Any) -> Process:
    controller = rc.control.library.SkewJoin(looks=2, cool_down=2, **options)
    process = stream.start(controllers=[controller])
    process.run()
    assert process.controllers.board.seat("skewjoin").failures == 0
    return process


def records(process: Process) -> tuple[Record, ...]:
    return process.changes.coordination.records


def log(process: Process) -> list[str]:
    return [line.text for line in process.controllers.board.seat("skewjoin").log]


def brute_force(left: list[list[int]], right: list[list[int]]) -> Counter[tuple[int, int, int]]:
    """Pairs of an inner join: (key, number on the left, number on the right)."""
    numbered = []
    for batches in (left, right):
        flat = [(t, k) for t, batch in enumerate(batches) for k in batch]
        numbered.append([(t, k, number) for number, (t, k) in enumerate(flat)])
    by_key: dict[int, list[tuple[int, int]]] = {}
    for t, k, number in numbered[1]:
        by_key.setdefault(k, []).append((t, number))
    return Counter(
        (k, number, other)
        for t, k, number in numbered[0]
        for u, other in by_key.get(k, ())
        if abs(u - t) <= 2
    )


def pairs(stream: Harness) -> Counter[tuple[int, int, int]]:
    return Counter(
        (row["k"], row["number"], row["number_right"])
        for table in stream.outputs().values()
        for row in table.to_pylist()
    )


def test_a_hot_key_is_spread_while_it_is_hot_and_the_output_is_that_of_a_batch():
    left = [EVEN] * QUIET + [SKEWED] * LOUD + [EVEN] * LOUD
    right = [EVEN] * len(left)
    stream = joined(left, right)
    process = start(stream)
    assert [record.change.kind for record in records(process)] == ["spread", "gather"]
    spread, gather = records(process)
    assert QUIET < spread.last_timestep < QUIET + LOUD < gather.last_timestep
    assert spread.cause == f"controller 'skewjoin': the key {HOT} has 44% of the rows"
    assert process.position.configuration.operators["pairs"].routing.spreads == ()
    assert pairs(stream) == brute_force(left, right)


def test_a_key_that_stays_hot_stays_spread():
    left = [SKEWED] * (2 * LOUD)
    stream = joined(left, [EVEN] * len(left))
    process = start(stream)
    (record,) = records(process)
    assert record.change.kind == "spread"
    assert pairs(stream) == brute_force(left, [EVEN] * len(left))


@pytest.mark.slow
def test_a_key_that_gets_much_hotter_is_spread_wider():
    warm = [HOT] * 10 + EVEN
    left = [warm] * (2 * LOUD) + [SKEWED] * LOUD
    right = [EVEN] * len(left)
    stream = joined(left, right, tasks=8)
    process = start(stream)
    assert [record.change.kind for record in records(process)] == ["spread", "spread"]
    assert [record.change.over for record in records(process)] == [3, 8]
    (shared,) = process.position.configuration.operators["pairs"].routing.spreads
    assert sorted(shared.tasks) == list(range(8))
    assert pairs(stream) == brute_force(left, right)


@pytest.mark.parametrize(
    "stop", [70, *(pytest.param(n, marks=pytest.mark.slow) for n in (30, 50, 90, 110, 130))]
)
def test_it_goes_on_where_it_was_after_a_crash(stop: int) -> None:
    left = [SKEWED] * LOUD
    stream = joined(left, [EVEN] * LOUD)
    controller = rc.control.library.SkewJoin(looks=2, cool_down=2)
    faults = [*[None] * stop, Fault(kind=FaultKind.AFTER)]
    with pytest.raises(Crash):
        stream.start(controllers=[controller], faults=faults).run()
    process = start(stream)
    (record,) = records(process)
    assert record.change.kind == "spread"
    assert pairs(stream) == brute_force(left, [EVEN] * LOUD)


def test_the_side_on_which_the_key_is_hot_is_dealt_out():
    right = [SKEWED] * LOUD
    stream = joined([EVEN] * LOUD, right)
    process = start(stream)
    (shared,) = process.position.configuration.operators["pairs"].routing.spreads
    assert shared.side == 1
    assert pairs(stream) == brute_force([EVEN] * LOUD, right)


def test_balance_moves_what_is_left_and_the_two_come_to_an_end():
    left = [SKEWED] * (3 * LOUD)
    stream = joined(left, [EVEN] * len(left))
    library = rc.control.library
    process = stream.start(
        controllers=[library.Balance(cool_down=3), library.SkewJoin(looks=2, cool_down=3)]
    )
    process.run()
    causes = Counter(record.cause.partition(":")[0] for record in records(process))
    assert causes["controller 'skewjoin'"] == 1
    assert causes.total() <= 6
    assert records(process)[-1].last_timestep < 2 * LOUD
    now = process.position
    routing = now.configuration.operators["pairs"].routing
    assert len(routing.spreads) == 1
    assert skew_of(routing, process.changes.view(now).facts.loads["pairs"]) <= 0.3
    balance = [line.text for line in process.controllers.board.seat("balance").log]
    assert sum("SkewJoin spreads it" in line for line in balance) <= 1
    assert pairs(stream) == brute_force(left, [EVEN] * len(left))


def test_an_even_stream_is_not_even_asked():
    process = start(joined([EVEN] * LOUD, [EVEN] * LOUD))
    assert records(process) == ()
    assert process.controllers.board.seat("skewjoin").sent == 0


@pytest.mark.parametrize(("how", "left", "right"), [("full", SKEWED, EVEN), ("left", EVEN, SKEWED)])
def test_what_cannot_be_spread_is_in_the_log_once_and_is_not_requested(how, left, right):
    process = start(joined([left] * LOUD, [right] * LOUD, how))
    assert records(process) == ()
    (line,) = log(process)
    assert f"operator 'pairs': the key {HOT} has 44% of the rows, and cannot be spread: " in line


def test_other_operators_are_left_alone():
    process = start(joined([SKEWED] * LOUD, [EVEN] * LOUD), operators=["another"])
    assert records(process) == ()


@pytest.mark.parametrize(
    "wrong", [{"enter": 0.5, "leave": 0.5}, {"leave": -1.0}, {"looks": 0}, {"cool_down": 0}]
)
def test_arguments_out_of_range_are_refused(wrong):
    with pytest.raises(RefusedError, match="give 0 <= leave < enter"):
        rc.control.library.SkewJoin(**wrong)
