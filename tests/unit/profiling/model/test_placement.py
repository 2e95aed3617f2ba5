"""Which tasks should run on the same executor."""

import pytest

from rechannel.changes import place
from rechannel.profiling.model.placement import LEAST, TaskSeat, placements
from rechannel.profiling.model.trace import DATA, RESERVED, Activities, Messages, Names, Trace
from rechannel.profiling.reading import profile_trace
from rechannel.profiling.storage.stored import StoredTrace

TASKS = ("a task 0", "a task 1", "b task 0", "b task 1")


def exchanged(lengths, rounds=10):
    """Rounds in which tasks of `a` send to tasks of `b`, one pair behind the other. lengths: by (a, b), in ns."""
    did, went, now = [], [], 0
    for _ in range(rounds):
        for (source, target), length in lengths.items():
            did += [(source, 4, 0, now, now + 10)]
            went.append((source, 2 + target, RESERVED.index(DATA), 1, now + 10, now + 10 + length))
            did += [(2 + target, 4, 1, now + 10 + length, now + 20 + length)]
            now += 20 + length
            # Then it is the next one's turn.
            following = list(lengths)[(list(lengths).index((source, target)) + 1) % len(lengths)]
            went.append((2 + target, following[0], 2, 1, now, now))
    trace = Trace(
        names=Names(workers=TASKS, operators=["a", "b"], kinds=[*RESERVED, "process"]),
        activities=Activities.of(did),
        messages=Messages.of(went),
    )
    return profile_trace(StoredTrace.of(trace), window=trace.span[1])


def seats(*executors):
    return {
        name: TaskSeat(name[0], int(name[-1]), executor, moves=name[0] == "b")
        for name, executor in zip(TASKS, executors, strict=True)
    }


def test_two_tasks_change_places():
    found = exchanged({(0, 1): 500, (1, 0): 100})
    moves = placements(found, seats("1", "2", "1", "2"))
    assert [each.place for each in moves] == [("b", 1, "1"), ("b", 0, "2")]
    # Behind the last message of all nobody knows what the others do until the end.
    total = 500 + 100 + 40
    assert [each.gain for each in moves] == pytest.approx([500 / total, 100 / total], rel=0.06)
    assert moves[0].text.startswith(
        "place b 1 --executor 1: rows that are 78 % of the critical path"
    )
    # They are what a change takes.
    assert place(*moves[0].place).executor == "1"


def test_what_is_together_stays():
    assert placements(exchanged({(0, 1): 500, (1, 0): 100}), seats("1", "2", "2", "1")) == []


def test_a_free_executor_takes_one_more():
    moves = placements(exchanged({(0, 1): 500}), seats("1", "2", "2", "2"))
    assert [each.place for each in moves] == [("b", 1, "1")]


def test_a_swap_that_loses_is_not_made():
    # Both get their rows from executor 1, the first one more of them: it keeps its place.
    found = exchanged({(0, 0): 500, (0, 1): 100})
    assert placements(found, seats("1", "2", "1", "2")) == []


def test_little_is_not_worth_it():
    found = exchanged({(0, 0): 100_000, (1, 1): 10})
    assert 0 < found.by_channel().filter(worker="a task 1")["critical"].sum() < LEAST
    assert placements(found, seats("1", "1", "1", "2")) == []


def test_without_seats_nothing_is_said():
    assert placements(exchanged({(0, 1): 500}), {}) == []
