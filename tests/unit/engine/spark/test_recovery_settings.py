"""Which settings `recovery` stands for, and what contradicts it."""

from __future__ import annotations

import pytest

from rechannel.engine.spark.session.recovery import HEARTBEAT, LOST, TIMEOUT, recovery_settings
from rechannel.errors import SessionError


def test_what_spark_does_needs_no_setting():
    assert recovery_settings("spark", {TIMEOUT: "1s", HEARTBEAT: "1s"}) == {}


def test_an_unknown_profile_is_refused():
    with pytest.raises(SessionError, match=r"recovery='quick' is unknown; it is 'spark' or 'fast'"):
        recovery_settings("quick", {})


@pytest.mark.parametrize("timeout", ["4s", "4", "4000ms", "1min", "1h"])
def test_a_timeout_of_the_user_s_own_is_left_to_him_if_four_heartbeats_fit(timeout):
    assert recovery_settings("fast", {TIMEOUT: timeout})[HEARTBEAT] == "1s"


def test_an_executor_is_lost_when_the_user_s_own_timeout_says_so():
    assert recovery_settings("fast", {})[LOST] == "8s"
    assert recovery_settings("fast", {TIMEOUT: "1min"})[LOST] == "60000ms"
    assert recovery_settings("fast", {TIMEOUT: "60"})[LOST] == "60000ms"


@pytest.mark.parametrize("lost", ["8s", "8000"])
def test_what_spark_waits_for_has_room_for_four_heartbeats_too(lost):
    given = {HEARTBEAT: "6s", TIMEOUT: "120s"}
    assert recovery_settings("fast", given)[LOST] == "120000ms"
    with pytest.raises(SessionError, match=f"{LOST} is {lost} and .*taken for lost"):
        recovery_settings("fast", {**given, LOST: lost})


@pytest.mark.parametrize(
    ("key", "value"), [(TIMEOUT, "3s"), (TIMEOUT, "3999ms"), (HEARTBEAT, "2001"), (HEARTBEAT, "3s")]
)
def test_what_loses_living_executors_is_refused(key, value):
    with pytest.raises(SessionError, match=r"executors that live would be taken for lost"):
        recovery_settings("fast", {key: value})


@pytest.mark.parametrize("value", ["soon", "10 parsecs", "", "1.5s"])
def test_what_is_no_time_is_refused(value):
    with pytest.raises(
        SessionError, match=r"spark.network.timeout is .* which is no length of time"
    ):
        recovery_settings("fast", {TIMEOUT: value})
