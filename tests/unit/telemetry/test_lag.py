"""The lag of a stream at its sources, in rows, bytes and seconds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rechannel.sources.backlog import Backlog
from rechannel.telemetry.facts import SourceLag
from rechannel.telemetry.lag import MOST_LOOKS, LagOfSource, Looks, lag_now


def lags(*timesteps):
    """(time in ms, rows read, rows or what is left) of timesteps, a row having 10 bytes in memory."""
    of = LagOfSource()
    return [
        of.see(at_ms, Backlog(rows=left) if isinstance(left, int) else left, rows, rows * 10)
        for at_ms, rows, left in timesteps
    ]


def test_a_stream_that_keeps_up_has_no_lag():
    assert lags((1_000, 5, 0), (2_000, 7, 0))[-1] == SourceLag(
        at_ms=2_000, rows=0, bytes=0, seconds=0.0
    )


def test_the_oldest_row_that_waits_came_when_as_much_had_arrived_as_is_read():
    # 100 rows arrive per second from second 1 on, and 60 are read per second.
    found = lags((1_000, 5, 0), (2_000, 60, 40), (3_000, 60, 80), (4_000, 60, 120))
    assert [each.seconds for each in found] == [0.0, 0.4, 0.8, 1.2]
    assert [each.bytes for each in found] == [0, 400, 800, 1_200]
    assert {each.estimated for each in found[1:]} == {"bytes"}
    assert not any(each.at_least for each in found)


def test_what_was_there_at_the_first_look_has_waited_at_least_since_then():
    first, second, third = lags((0, 10, 100), (500, 10, 90), (1_000, 85, 30))
    assert (first.seconds, first.at_least) == (0.0, True)
    assert (second.seconds, second.at_least) == (0.5, True)
    # The 110 rows of the first look are not read yet: of 105 that are read, all were there then.
    assert (third.seconds, third.at_least) == (1.0, True)


def test_once_that_is_read_the_lag_is_known():
    found = lags((0, 10, 100), (1_000, 60, 90), (2_000, 60, 30))
    # 160 had arrived at 1 s, 110 at 0 s; 130 are read.
    assert (found[-1].seconds, found[-1].at_least) == (1.6, False)


def test_files_count_bytes_and_rows_are_estimated():
    of = LagOfSource()
    assert of.see(0, Backlog(bytes=500, taken_bytes=0, files=3), 0, 0) == SourceLag(
        at_ms=0, rows=None, bytes=500, seconds=0.0, at_least=True
    )
    lag = of.see(1_000, Backlog(bytes=300, taken_bytes=200, files=2), 20, 9_999)
    assert (lag.rows, lag.bytes, lag.estimated) == (30, 300, "rows")
    assert (lag.seconds, lag.at_least) == (1.0, True)
    lag = of.see(2_000, Backlog(bytes=100, taken_bytes=400, files=1), 40, 9_999)
    # 500 had arrived at 1 s, 700 at 2 s; 600 are read.
    assert (lag.rows, lag.seconds, lag.at_least) == (10, 0.5, False)


def test_offsets_that_hold_no_row_are_passed_all_the_same():
    """Of 100 offsets a second, every other one holds a row."""
    of = LagOfSource()
    of.see(0, Backlog(rows=0), 0, 0)
    for second in range(1, 50):
        lag = of.see(second * 1_000, Backlog(rows=100, taken_rows=100 * (second > 1)), 50, 500)
    assert (lag.seconds, lag.at_least) == (1.0, False)


def test_a_source_that_cannot_tell():
    assert lags((0, 9, None)) == [SourceLag(at_ms=0)]
    assert SourceLag(at_ms=0).seconds is None


def test_a_timestep_that_runs_again_has_no_figure_and_the_next_one_has():
    again, then = lags((0, 0, 0), (1_000, 60, 40), (2_000, 60, None), (3_000, 60, 120))[2:]
    assert again == SourceLag(at_ms=2_000)
    # 300 had arrived at 3 s and 100 at 1 s; 180 are read.
    assert (then.rows, then.seconds) == (120, 1.2)


def test_rows_that_wait_get_older():
    lag = SourceLag(at_ms=1_000, rows=5, bytes=50, seconds=2.0)
    assert lag_now(lag, 4_000).seconds == 5.0
    assert lag_now(lag, 0).seconds == 2.0
    read = SourceLag(at_ms=1_000, rows=0, bytes=0, seconds=0.0)
    assert lag_now(read, 9_000) == read
    unknown = SourceLag(at_ms=1_000)
    assert lag_now(unknown, 9_000) == unknown


class Naive:
    """Remembers when every single row arrived."""

    def __init__(self):
        self.came, self.read = [], 0

    def see(self, at_ms, taken, left):
        self.read += taken
        self.came += [at_ms] * (self.read + left - len(self.came))

    def oldest_ms(self):
        return self.came[self.read]


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 40), st.integers(0, 40)), max_size=60))
def test_the_oldest_row_came_between_two_looks(steps):
    """A twin gives each row the time of the look that saw it first: what is told lies in the interval before."""
    looks, twin, now, waiting = Looks(), Naive(), 0, 0
    at = []
    for passed, came, wanted in steps:
        now, waiting = now + passed, waiting + came
        taken = min(wanted, waiting)
        waiting -= taken
        looks.see(now, taken, waiting)
        twin.see(now, taken, waiting)
        at.append(now)
        if not waiting:
            continue
        oldest, at_least = looks.oldest_ms()
        seen = twin.oldest_ms()
        if at_least:
            assert oldest >= seen
        else:
            assert max(each for each in (0, *at) if each < seen) <= oldest <= seen


def test_a_stream_that_falls_behind_for_long_keeps_few_looks():
    looks = Looks()
    looks.see(0, 0, 0)
    for second in range(1, 20_000):
        looks.see(second * 1_000, 1, 9 * second)
        assert len(looks.at_ms) <= MOST_LOOKS
    # Ten rows arrive per second: of 199,990, 19,999 are read.
    oldest, at_least = looks.oldest_ms()
    assert not at_least
    assert abs(oldest - 1_999_900) < 1
