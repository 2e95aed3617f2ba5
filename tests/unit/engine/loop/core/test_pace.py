"""When the interval admits another timestep, and how long an idle loop sleeps."""

from __future__ import annotations

from rechannel.engine.loop.core.pace import IDLE_LOOK_MS, LONGEST_POLL_MS, POLL_SHARE, Pace


def pause(pace: Pace, wall_ms: float, interval_ms: int, poll_ms: float = 10, polled_ms: float = 0):
    return pace.pause(wall_ms, interval_ms=interval_ms, poll_ms=poll_ms, polled_ms=polled_ms)


def test_without_an_interval_a_timestep_may_always_begin():
    pace = Pace().began(1_000, 0)
    assert pace.admits(1_000, 0)
    assert pace.admits(0, 0)


def test_timesteps_begin_on_the_grid_of_the_interval():
    pace = Pace()
    assert pace.admits(1_000, 100)
    pace = pace.began(1_000, 100)
    assert [pace.admits(now, 100) for now in (1_000, 1_099, 1_100)] == [False, False, True]
    pace = pace.began(1_130, 100)  # late, and still on the grid
    assert [pace.admits(now, 100) for now in (1_199, 1_200)] == [False, True]
    pace = pace.began(5_000, 100)  # the grid is lost
    assert [pace.admits(now, 100) for now in (5_099, 5_100)] == [False, True]


def test_a_shorter_interval_holds_at_once():
    pace = Pace().began(1_000, 10_000)
    assert not pace.admits(1_500, 10_000)
    assert pace.admits(1_500, 100)
    assert pace.admits(1_500, 0)


def test_a_clock_that_goes_back_keeps_no_timestep_back_for_longer_than_the_interval():
    pace = Pace().began(1_000_000, 100)
    assert pace.admits(5, 100)


def test_rows_that_are_left_unread_make_the_next_timestep_begin_earlier():
    pace = Pace().began(1_000, 100)
    assert [pace.hastened(unread, 100).left(1_000, 100) for unread in (0, 0.25, 1, 7)] == [
        100,
        75,
        0,
        0,
    ]
    assert pace.hastened(7, 100).began(1_000, 100).left(1_000, 100) == 100


def test_changes_are_made_without_a_timestep_once_per_second():
    pace = Pace().began(1_000, 60_000)
    assert not pace.rested(1_000 + IDLE_LOOK_MS - 1)
    assert pace.rested(1_000 + IDLE_LOOK_MS)
    assert pace.rested(500)  # a clock that was set back
    assert not pace.looked(2_000).rested(2_001)


def test_an_idle_loop_asks_its_sources_for_a_share_of_the_time():
    assert pause(Pace(), 0, 0) == 10
    assert pause(Pace(), 0, 0, polled_ms=30) == POLL_SHARE * 30
    assert pause(Pace(), 0, 0, poll_ms=500, polled_ms=30) == 500
    assert pause(Pace(), 0, 0, polled_ms=10_000) == LONGEST_POLL_MS


def test_an_idle_loop_wakes_when_the_next_timestep_is_due():
    pace = Pace().began(1_000, 100)
    assert pause(pace, 1_000, 100, poll_ms=500) == 100
    assert pause(pace, 1_000, 100, poll_ms=20) == 20
    assert pause(pace, 1_099, 100, poll_ms=500) == 1
    # Where it has been due for long there is nothing to read, and sources are asked as often as without an interval.
    assert pause(pace, 1_250, 100, poll_ms=500) == 500
