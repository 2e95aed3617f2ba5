"""What becomes of a sink that cannot write."""

from __future__ import annotations

import pytest

from rechannel.errors import (
    ClusterError,
    DamagedStateError,
    DataflowError,
    FencedError,
    NotPermittedError,
    OtherHistoryError,
    RefusedError,
    SessionError,
    StorageError,
    UserFunctionError,
)
from rechannel.sinks.failure import OnFailure, Verdict

FULL = StorageError("the disk is full")


def test_what_may_pass_is_tried_four_times_and_what_is_said_for_good_once():
    policy = OnFailure()
    verdicts = [policy.verdict(number, OSError("no luck")) for number in (1, 2, 3, 4)]
    assert verdicts == [Verdict.RETRY] * 3 + [Verdict.STOP]
    firm = (UserFunctionError("mine"), DataflowError("csv"), RefusedError("no"))
    for error in (*firm, NotPermittedError("not yours")):
        assert policy.verdict(1, error) is Verdict.STOP


@pytest.mark.parametrize("away", [FULL, ClusterError("an executor was lost")])
def test_a_store_or_a_cluster_that_is_away_for_half_a_minute_is_waited_for(away):
    policy = OnFailure()
    verdicts = [policy.verdict(number, away) for number in range(1, 9)]
    assert verdicts == [Verdict.RETRY] * 7 + [Verdict.STOP]
    assert sum(policy.pause(number) for number in range(1, 8)) > 30_000


def test_attempts_that_are_counted_hold_for_all_errors():
    policy = OnFailure(attempts=2)
    for error in (FULL, UserFunctionError("mine")):
        assert [policy.verdict(n, error) for n in (1, 2)] == [Verdict.RETRY, Verdict.STOP]


def test_the_user_chooses_what_comes_at_last():
    assert OnFailure(then="skip", attempts=1).verdict(1, FULL) is Verdict.SKIP
    letters = OnFailure(then="dead_letter", attempts=1, path="dead")
    assert letters.verdict(1, FULL) is Verdict.DEAD_LETTER


@pytest.mark.parametrize(
    "error",
    [
        FencedError("gone"),
        DamagedStateError("torn"),
        OtherHistoryError("theirs"),
        SessionError("died"),
        SystemExit(),
    ],
)
def test_what_no_repetition_mends_stops(error):
    assert OnFailure(then="skip", attempts=9).verdict(1, error) is Verdict.STOP


def test_pauses_double_up_to_a_minute():
    policy = OnFailure(pause_ms=500)
    assert [policy.pause(n) for n in (1, 2, 3, 20, 5000)] == [500, 1000, 2000, 60_000, 60_000]


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"then": "ignore"}, "use 'stop', 'skip' or 'dead_letter'"),
        ({"attempts": 0}, "attempts must be >= 1"),
        ({"pause_ms": -1}, "pause_ms >= 0"),
        ({"then": "dead_letter"}, "needs path="),
        ({"then": "skip", "path": "dead"}, "'stop' and 'skip' have none"),
    ],
)
def test_a_choice_is_checked(how, says):
    with pytest.raises(DataflowError, match=says):
        OnFailure(**how)
