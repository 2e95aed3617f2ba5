"""The time of a stream by a clock that may be wrong: every rule, and what holds whatever the clocks say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.loop.core.stream_time import StreamTime
from rechannel.engine.loop.source_tracker import CLOCK
from rechannel.job import InProcess, Job
from rechannel.settings import Settings
from rechannel.testing import Harness, ManualClock, MemoryStore, script
from tests.unit.engine.loop.test_source_tracker import intake

JUMP, DOWN = 1_000, 100_000
FRESH = StreamTime(stream_ms=0, jump_ms=JUMP, downtime_ms=DOWN)


def after(*looks: tuple[int, float], stream_ms: int = 0) -> StreamTime:
    """The time of a stream that was at `stream_ms` after looks at (wall clock, steady clock)."""
    time = StreamTime(stream_ms=stream_ms, jump_ms=JUMP, downtime_ms=DOWN)
    for look in looks:
        time = time.read(*look)
    return time


def test_the_first_reading_of_a_stream_is_believed():
    assert after((10**12, 5)).stream_ms == 10**12


def test_time_goes_by_the_wall_clock():
    assert after((50_000, 0), (50_700, 650), (51_300, 1_300)).stream_ms == 51_300


@pytest.mark.parametrize(("ahead", "told"), [(JUMP, 51_100), (JUMP + 1, 50_100)])
def test_within_a_life_a_jump_has_a_bound(ahead, told):
    time = after((50_000, 0), (50_100 + ahead, 100))
    assert time.stream_ms == told
    assert bool(time.ahead_ms) is (told == 50_100)


def test_a_clock_that_is_refused_is_replaced_by_the_time_that_passes():
    time = after((50_000, 0), (10**12, 100), (10**12 + 400, 500), (10**12 + 900, 1_000.5))
    assert time.stream_ms == 51_000


def test_a_right_clock_is_used_again():
    time = after((50_000, 0), (10**12, 100), (50_250, 200))
    assert (time.stream_ms, time.ahead_ms) == (50_250, 0)


@pytest.mark.parametrize(
    ("wall", "told"), [(50_000 + DOWN, 50_000 + DOWN), (50_001 + DOWN, 50_000)]
)
def test_between_drivers_the_bound_is_that_of_downtime(wall, told):
    assert after((wall, 7), stream_ms=50_000).stream_ms == told


def test_a_first_reading_that_is_refused_does_not_spoil_the_next():
    assert after((10**12, 0), (60_000, 10), stream_ms=50_000).stream_ms == 60_000


def test_a_clock_that_went_back_by_mistake_may_come_back():
    time = after((50_000, 0), (10_000, 20_000), (75_000, 25_000), stream_ms=49_000)
    assert (time.stream_ms, time.ahead_ms) == (75_000, 0)
    assert after((50_000, 0), (10_000, 20_000)).stream_ms == 50_000


def test_a_steady_clock_that_jumps_is_not_believed_either():
    assert after((50_000, 0), (10**12, 10**12), (10**12 + 5, 10**12 + 5)).stream_ms == 50_005
    assert after((50_000, 10), (50_020, 5), (50_030, 10)).stream_ms == 50_030


def test_parts_of_milliseconds_add_up():
    looks = [(10**12, i * 0.25) for i in range(1, 41)]
    assert after((50_000, 0), *looks).stream_ms == 50_010


def test_what_is_wrong_is_told():
    assert after((50_000, 0)).problem is None
    running = str(after((50_000, 0), (10**12, 0)).problem)
    assert (
        "the clock is 11574 days ahead of the time of the stream, 1970-01-01T00:00:50.000Z"
        in running
    )
    assert "if it is right, start the job again" in running
    starting = str(after((10**12, 0), stream_ms=50_000).problem)
    assert "if it is right, allow for it with Settings(downtime_ms)" in starting
    far = StreamTime(stream_ms=10**18, jump_ms=JUMP, downtime_ms=DOWN).read(2 * 10**18, 0)
    assert f"{10**18} ms" in str(far.problem)


TIMES = st.integers(-(10**13), 10**13)


@given(
    st.integers(0, 10**12),
    st.lists(st.tuples(TIMES, st.floats(0, 5_000), st.booleans()), max_size=30),
)
def test_no_clock_makes_time_go_back_or_run_away(start, looks):
    time = StreamTime(stream_ms=start, jump_ms=JUMP, downtime_ms=DOWN)
    wall, steady, furthest = start, 0.0, start
    for reading, passed, right in looks:
        wall, steady = wall + int(passed), steady + passed
        given_ = wall if right else reading
        before, time = time, time.read(given_, steady)
        if start:
            slack = JUMP if before.settled else DOWN
            furthest = max(
                furthest + int(passed) + 1, min(given_, furthest + int(passed) + 1 + slack)
            )
            assert before.stream_ms <= time.stream_ms <= furthest
        else:
            assert time.stream_ms >= before.stream_ms


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(-JUMP // 2, JUMP // 2)), max_size=30))
def test_a_clock_that_is_right_within_the_bound_is_always_believed(looks):
    time, steady = FRESH.read(10**9, 0), 0
    told = time.stream_ms
    for passed, wrong in looks:
        steady += passed
        reading = 10**9 + steady + wrong
        time = time.read(reading, steady)
        told = max(told, reading)
        assert (time.stream_ms, time.ahead_ms) == (told, 0)


# In a stream ---------------------------------------------------------------------------------------


def test_one_wrong_reading_fires_no_timers_and_is_forgotten():
    store, clock, source = MemoryStore(), ManualClock(1_800_000_000_000), script("user string")
    steady = ManualClock(0)

    def bench(wall: ManualClock) -> Harness:
        seen = (
            rc.read()
            .memory(source, name="in")
            .key_by("user")
            .track(
                lambda _, state, rows: (state or 0) + len(rows),
                state="n bigint",
                timeout=60_000,
                name="seen",
            )
        )
        return Harness(seen.write.memory("out"), store=store, clock=wall, steady=steady)

    def visit(harness: Harness, *users: str) -> dict[str, int]:
        source.push([{"user": user} for user in users])
        harness.process.run()
        return {row["user"]: row["n"] for row in harness.state("seen").to_pylist()}

    harness = bench(clock)
    harness.start()
    visit(harness, "ann", "bob")
    right = clock.now_ms
    clock.advance(75 * 365 * 86_400_000)
    steady.advance(1_000)
    assert visit(harness, "ann", "eve") == {"ann": 2, "bob": 1, "eve": 1}
    assert harness.journal_state().stream_ms == right + 1_000
    again = bench(ManualClock(right + 10_000))
    again.start()
    assert visit(again, "ann") == {"ann": 3, "bob": 1, "eve": 1}
    assert again.journal_state().stream_ms == right + 10_000


def test_a_wrong_clock_is_a_trouble_until_it_is_right():
    told: list[tuple[str, str | None]] = []
    clock, steady = ManualClock(1_000), ManualClock(0)
    more = {
        "steady": steady,
        "trouble": lambda topic, error: told.append((topic, error and type(error).__name__)),
    }
    stream = intake(1_000, clock=clock, more=more)
    for reading in (1_000, 10**10, 10**10, 1_000, 1_000):
        clock.now_ms = reading
        assert stream.stream_ms() == 1_000
    assert told == [(CLOCK, "SetUpError"), (CLOCK, None)]


def test_a_job_tells_of_a_wrong_clock_in_its_status(tmp_path):
    clock = ManualClock()
    stream = rc.read().memory(script("k long"), name="in").key_by("k").aggregate(n=agg.count())
    settings = Settings(downtime_ms=1_000, poll_ms=1)
    job = Job("clocked", stream.write.noop(), state=tmp_path, settings=settings)
    running = job.start(in_process=InProcess(), clock=clock)
    running.process_all_available(60)
    clock.advance(10**9)
    running.process_all_available(60)
    assert "ahead of the time of the stream" in running.status.troubles[CLOCK]
    running.stop()
