import json
import threading
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.telemetry.events import (
    JobStarted,
    JobStopped,
    Note,
    OperatorFinished,
    SinkPublished,
    StateSize,
    TimestepCommitted,
    TimestepFailed,
    TimestepStarted,
)
from rechannel.telemetry.progress import Progress, fold
from rechannel.telemetry.task_finished import SparkMetrics, TaskFinished


def started(timestep, at_ms=None, **more):
    at_ms = timestep * 100 if at_ms is None else at_ms
    return TimestepStarted(timestep=timestep, now_ms=at_ms - 1, at_ms=at_ms, **more)


def committed(timestep, duration_ms=80.0, **more):
    at_ms = timestep * 100 + int(duration_ms)
    return TimestepCommitted(timestep=timestep, at_ms=at_ms, duration_ms=duration_ms, **more)


def task(timestep, operator="counts", number=0, busy=5.0, wait=1.0, **more):
    return TaskFinished(
        timestep=timestep, operator=operator, task=number, attempt="a", host="h",
        started_ms=0.0, finished_ms=busy + wait, ms={"wait": wait, "process": busy}, **more,
    )  # fmt: skip


def published(timestep, sink="out", **more):
    return SinkPublished(timestep=timestep, sink=sink, at_ms=timestep * 100 + 90, **more)


def test_before_the_first_commit_there_is_no_progress():
    progress = fold([JobStarted(job="j", at_ms=0, engine="spark"), started(0), task(0)])
    assert progress.last_progress is None
    assert progress.recent_progress == []


def test_everything_about_one_timestep():
    progress = fold(
        [
            started(0),
            committed(0),
            started(1, offsets={"files": {"start": 1, "end": 2}}, configuration=3),
            task(1, "reads", rows_in=100, rows_out=100, bytes_in=800, bytes_out=90),
            task(1, number=0, busy=5.0, wait=30.0, rows_in=60, rows_out=6, keys=6),
            task(1, number=1, busy=7.25, rows_in=40, rows_out=4, keys=4),
            OperatorFinished(timestep=1, operator="counts", at_ms=170),
            published(1, "console", rows=10, duration_ms=2.0),
            committed(
                1,
                phases={"plan": 10.0, "run": 60.0},
                rows_in=100,
                rows_out=10,
                state={"counts": StateSize(rows=50, bytes=4000)},
                watermarks={"counts": 77},
            ),
        ]
    )
    assert progress.last_progress.to_dict() == {
        "timestep": 1,
        "now_ms": 99,
        "started_ms": 100,
        "committed_ms": 180,
        "duration_ms": 80.0,
        "configuration": 3,
        "phases": {"plan": 10.0, "run": 60.0},
        "rows_in": 100,
        "rows_out": 10,
        "input_rows_per_second": 1000.0,
        "processed_rows_per_second": 1250.0,
        "output_rows_per_second": 125.0,
        "operators": {
            "reads": {
                "tasks": 1,
                "rows_in": 100,
                "rows_out": 100,
                "rows_late": 0,
                "rows_dead": 0,
                "bytes_in": 800,
                "bytes_out": 90,
                "keys": 0,
                "ms": {"wait": 1.0, "process": 5.0},
                "slowest_task": {
                    "task": 0,
                    "host": "h",
                    "executor": None,
                    "busy_ms": 5.0,
                    "ms": {"wait": 1.0, "process": 5.0},
                },
                "finished_ms": None,
                "state_rows": None,
                "state_bytes": None,
                "watermark_ms": None,
            },
            "counts": {
                "tasks": 2,
                "rows_in": 100,
                "rows_out": 10,
                "rows_late": 0,
                "rows_dead": 0,
                "bytes_in": 0,
                "bytes_out": 0,
                "keys": 10,
                "ms": {"wait": 31.0, "process": 12.25},
                "slowest_task": {
                    "task": 1,
                    "host": "h",
                    "executor": None,
                    "busy_ms": 7.25,
                    "ms": {"wait": 1.0, "process": 7.25},
                },
                "finished_ms": 170,
                "state_rows": 50,
                "state_bytes": 4000,
                "watermark_ms": 77,
            },
        },
        "sources": {"files": {"start": 1, "end": 2}},
        "sinks": {"console": {"at_ms": 190, "duration_ms": 2.0, "rows": 10, "bytes": None}},
        "failures": 0,
        "troubles": {},
        "backlog": {"files": None},
        "lag": {
            "files": {
                "at_ms": 100,
                "rows": None,
                "bytes": None,
                "seconds": None,
                "at_least": False,
                "estimated": None,
            }
        },
        "bad_rows": {},
    }
    told = progress.last_progress.to_dict()
    assert json.loads(json.dumps(told)) == told
    assert type(progress.last_progress).from_dict(told) == progress.last_progress


def test_the_oldest_timestep_that_is_open():
    progress = Progress()
    assert progress.open_since_ms is None
    progress.see(started(0, at_ms=50), started(1, at_ms=60))
    assert progress.open_since_ms == 50
    progress.see(TimestepFailed(timestep=0, at_ms=70, error="OSError"), started(0, at_ms=80))
    assert progress.open_since_ms == 60
    progress.see(committed(0))
    assert progress.open_since_ms == 60
    progress.see(committed(1))
    assert progress.open_since_ms is None


def test_an_operator_without_input_still_has_its_state():
    progress = fold([started(0), committed(0, state={"counts": StateSize(rows=5, bytes=50)})])
    operator = progress.last_progress.operators["counts"]
    assert (operator.tasks, operator.state_rows, operator.state_bytes) == (0, 5, 50)
    assert operator.slowest_task is None


def test_the_first_timestep_has_no_input_rate():
    progress = fold([started(5), committed(5, rows_in=10)])
    assert progress.last_progress.input_rows_per_second is None
    assert progress.last_progress.processed_rows_per_second == 125.0


def test_a_timestep_that_took_no_time_has_no_rate():
    progress = fold([started(0), started(1, at_ms=0), committed(1, duration_ms=0.0, rows_in=10)])
    assert progress.last_progress.input_rows_per_second is None
    assert progress.last_progress.processed_rows_per_second is None


def test_a_clock_that_was_set_back_gives_no_rate():
    progress = fold([started(0), started(1, at_ms=-50), committed(1, duration_ms=-1.0, rows_in=10)])
    assert progress.last_progress.duration_ms == -1.0
    assert progress.last_progress.input_rows_per_second is None
    assert progress.last_progress.processed_rows_per_second is None


def test_a_stream_that_begins_in_the_middle():
    progress = fold([task(7), committed(7, rows_in=8), committed(8)])
    assert [entry.timestep for entry in progress.recent_progress] == [7, 8]
    first = progress.recent_progress[0]
    assert (first.started_ms, first.configuration, first.sources) == (None, None, {})
    assert first.operators["counts"].tasks == 1


def test_a_sink_may_publish_after_the_commit():
    progress = fold([started(0), published(0, "a"), committed(0), started(1), committed(1)])
    before = progress.recent_progress
    progress.see(published(0, "b"), published(1, "a"))
    first, second = progress.recent_progress
    assert (set(first.sinks), set(second.sinks)) == ({"a", "b"}, {"a"})
    # Who asked before keeps what they were given.
    assert [set(entry.sinks) for entry in before] == [{"a"}, set()]


def test_a_sink_that_publishes_an_old_timestep_again_changes_nothing():
    progress = fold([started(5), committed(5)])
    before = progress.recent_progress
    progress.see(published(3, again=True))
    assert progress.recent_progress == before
    progress.see(started(6), committed(6))
    assert progress.last_progress.sinks == {}


def test_a_failed_timestep_leaves_nothing_behind():
    progress = fold(
        [
            started(0),
            task(0, rows_in=50),
            TimestepFailed(timestep=0, at_ms=10, error="UserFunctionError"),
            JobStopped(job="j", at_ms=11, error="UserFunctionError"),
            JobStarted(job="j", at_ms=20, engine="spark"),
            started(0, at_ms=30),
            task(0, rows_in=2),
            committed(0),
        ]
    )
    operator = progress.last_progress.operators["counts"]
    assert (operator.tasks, operator.rows_in) == (1, 2)
    assert progress.last_progress.input_rows_per_second is None


def test_a_crash_says_nothing_and_leaves_nothing_behind():
    """The first driver dies in timestep 1 while its tasks run; the second replays it."""
    progress = fold(
        [
            started(0),
            committed(0),
            started(1),
            task(1, rows_in=50),
            JobStarted(job="j", at_ms=20, engine="spark", timestep=1),
            task(1, rows_in=2),
            committed(1),
        ]
    )
    assert progress.last_progress.operators["counts"].rows_in == 2


def test_a_replay_counts_alone():
    progress = fold([started(0), task(0, rows_in=50), started(0), task(0, rows_in=2), committed(0)])
    assert progress.last_progress.operators["counts"].rows_in == 2


def test_tasks_told_of_after_the_commit_are_not_counted():
    progress = fold([started(0), committed(0), task(0)])
    assert progress.last_progress.operators == {}
    progress.see(started(1), committed(1))
    assert progress.last_progress.operators == {}


def test_notes_are_passed_over():
    progress = fold([started(0), Note(at_ms=0, topic="t", text="x"), committed(0)])
    assert progress.last_progress.timestep == 0


def test_a_new_job_in_the_same_directory_begins_anew():
    stream = [started(0), committed(0, rows_in=1)]
    again = JobStarted(job="j", at_ms=0, engine="spark")
    progress = fold([*stream, again, started(0), task(0), committed(0, rows_in=2)])
    assert [entry.rows_in for entry in progress.recent_progress] == [1, 2]
    assert progress.last_progress.operators["counts"].tasks == 1


def test_several_threads_may_tell():
    progress = Progress(keep=10_000)
    progress.see(started(0), committed(0))

    def publish(thread):
        for number in range(300):
            progress.see(published(0, f"{thread}-{number}"))

    threads = [threading.Thread(target=publish, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(progress.last_progress.sinks) == 1200


def test_only_the_last_timesteps_are_kept():
    progress = Progress(keep=3)
    for timestep in range(10):
        progress.see(started(timestep), committed(timestep))
    assert [entry.timestep for entry in progress.recent_progress] == [7, 8, 9]
    with pytest.raises(ValueError, match="keep must be at least 1, not 0"):
        Progress(keep=0)


def test_the_slowest_task_is_the_one_that_worked_longest():
    spark = SparkMetrics(stage=0, partition=0, executor="4", host="h", launch_ms=0, finish_ms=1)
    progress = fold(
        [
            task(0, number=0, busy=3.0, wait=90.0),
            task(0, number=1, busy=8.0, wait=0.0).measured(spark),
            task(0, number=2, busy=5.0, wait=50.0),
            committed(0),
        ]
    )
    slowest = progress.last_progress.operators["counts"].slowest_task
    assert (slowest.task, slowest.executor, slowest.busy_ms) == (1, "4", 8.0)


tasks_of_operators = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c"]),
        st.fixed_dictionaries({"rows_in": st.integers(0, 9), "bytes_out": st.integers(0, 9)}),
        st.dictionaries(st.sampled_from(["wait", "send", "merge"]), st.integers(0, 50)),
    ),
    max_size=6,
)


@given(
    st.lists(tasks_of_operators, max_size=6), st.integers(1, 4), st.randoms(use_true_random=False)
)
def test_timesteps_in_flight_do_not_mix(timesteps, in_flight, random):
    """Events of several timesteps come mixed; each timestep's sums are those of its own tasks."""
    events, waiting, expected = [], [], []
    for timestep, tasks in enumerate(timesteps):
        waiting.append(
            [
                TaskFinished(
                    timestep=timestep, operator=operator, task=number, attempt="a", host="h",
                    started_ms=0.0, finished_ms=sum(ms.values()) + number,
                    ms={activity: float(value) for activity, value in ms.items()}, **counts,
                )
                for number, (operator, counts, ms) in enumerate(tasks)
            ]
        )  # fmt: skip
        sums = defaultdict(lambda: defaultdict(float))
        for operator, counts, ms in tasks:
            sums[operator]["tasks"] += 1
            for name, value in [*counts.items(), *ms.items()]:
                sums[operator][name] += value
        expected.append(sums)
    # Interleave: always at most `in_flight` timesteps begun and not committed, commits in order.
    begun = done = 0
    while done < len(timesteps):
        if begun < len(timesteps) and begun - done < in_flight and random.random() < 0.5:
            events.append(started(begun))
            begun += 1
            continue
        open_tasks = [t for t in range(done, begun) if waiting[t]]
        if open_tasks and random.random() < 0.8:
            events.append(waiting[random.choice(open_tasks)].pop())
        elif done < begun and not waiting[done]:
            events.append(committed(done))
            done += 1
    seen = fold(events).recent_progress
    assert len(seen) == len(timesteps)
    for entry, sums in zip(seen, expected, strict=True):
        assert set(entry.operators) == set(sums)
        for operator, found in entry.operators.items():
            for name in ("tasks", "rows_in", "bytes_out"):
                assert getattr(found, name) == sums[operator][name]
            for activity, ms in found.ms.items():
                assert ms == sums[operator][activity]
