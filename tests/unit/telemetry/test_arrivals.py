"""How fast rows arrive, whether or not the stream keeps up."""

from hypothesis import given
from hypothesis import strategies as st

from rechannel.sources.backlog import Backlog
from rechannel.telemetry.arrivals import ArrivalRate, arrival_rate
from rechannel.telemetry.events import TimestepCommitted, TimestepStarted
from rechannel.telemetry.progress import fold
from rechannel.telemetry.task_finished import TaskFinished


def run(*timesteps):
    """(time in ms, rows read, backlog or None) of timesteps, from number 1 on."""
    events = []
    for number, (at_ms, rows, left) in enumerate(timesteps, start=1):
        told = (
            {}
            if left is None
            else {"in": left if isinstance(left, Backlog) else Backlog(rows=left)}
        )
        task = TaskFinished(
            timestep=number, operator="in", task=0, attempt="a", host="h",
            started_ms=0, finished_ms=1, rows_in=rows,
        )  # fmt: skip
        events += [
            TimestepStarted(
                timestep=number, now_ms=at_ms, at_ms=at_ms + 3, offsets={"in": {}}, backlog=told
            ),
            task,
            TimestepCommitted(timestep=number, at_ms=at_ms + 9, duration_ms=6, rows_in=rows),
        ]
    return fold(events).recent_progress


def test_what_waits_has_arrived_too():
    progress = run((0, 500, 0), (1_000, 60, 40), (2_000, 60, 80))
    assert arrival_rate(progress, "in") == ArrivalRate(rate=100, backlog=80, exact=True)


def test_a_backlog_that_shrinks_did_not_arrive_now():
    progress = run((0, 60, 900), (2_000, 300, 800))
    assert arrival_rate(progress, "in") == ArrivalRate(rate=100, backlog=800, exact=True)


def test_a_replay_knows_no_backlog_and_its_neighbours_do():
    progress = run((0, 1, 10), (1_000, 50, None), (2_000, 50, 110), (3_000, 70, None))
    assert [each.backlog["in"] for each in progress] == [10, None, 110, None]
    assert arrival_rate(progress, "in") == ArrivalRate(rate=100, backlog=110, exact=True)


def test_without_two_backlogs_it_is_what_was_read():
    progress = run((0, 9, None), (1_000, 50, None), (2_000, 70, 30))
    assert arrival_rate(progress, "in") == ArrivalRate(rate=60, backlog=30, exact=False)


def test_no_time_no_rate():
    assert arrival_rate(run((0, 9, 0)), "in") is None
    assert arrival_rate(run((5, 9, 0), (5, 9, 0)), "in") is None
    assert arrival_rate([], "in") is None


def test_bytes_become_rows_by_what_the_timestep_found():
    left = [Backlog(bytes=500, taken_bytes=1_000, files=1), Backlog(bytes=0, taken_bytes=500)]
    progress = run((0, 100, left[0]), (1_000, 50, left[1]))
    assert [each.backlog["in"] for each in progress] == [50, 0]
    assert arrival_rate(progress, "in") == ArrivalRate(rate=0, backlog=0, exact=True)


@given(
    arrives=st.integers(1, 10_000),
    reads=st.lists(st.floats(0, 1), min_size=2, max_size=12),
)
def test_the_rate_is_what_arrives_however_much_is_read(arrives, reads):
    waiting, timesteps = 0, []
    for second, share in enumerate(reads):
        there = waiting + arrives
        taken = int(there * share)
        waiting = there - taken
        timesteps.append((second * 1_000, taken, waiting))
    assert arrival_rate(run(*timesteps), "in").rate == arrives
