"""Event logs of Spark: what is read of them, and what becomes of bad ones."""

import json

import numpy as np
import pytest

from rechannel.errors import TraceError
from rechannel.profiling.model.batches import StreamBatch
from rechannel.profiling.reading import profile_trace
from rechannel.profiling.spark.log import SparkLog
from rechannel.profiling.spark.trace import spark_trace
from tests.unit.profiling import logs
from tests.unit.profiling.logs import START, info, line, metrics, small, task_end

MS = 1_000_000


def spans(trace, worker):
    """(kind, from, to) of a worker, ms since the begin of the log."""
    did = trace.activities
    rows = [
        (
            trace.names.kinds[did.kind[i]],
            (int(did.start[i]) - START * MS) / MS,
            (int(did.end[i]) - START * MS) / MS,
        )
        for i in range(len(did))
        if trace.names.workers[did.worker[i]] == worker
        and (trace.names.kinds[did.kind[i]] != "waiting" or not did.worker[i])
    ]
    return sorted(rows, key=lambda row: row[1])


def test_what_tasks_and_the_driver_did():
    made = spark_trace(SparkLog().read(small()))
    trace = made.whole()
    assert made.crowded == 0
    assert list(trace.names.workers) == ["driver", "executor 1 core 1", "executor 1 core 2"]
    assert list(trace.names.operators) == [
        "Scan (count at job.py:1)",
        "Exchange (count at job.py:1)",
    ]
    # 100 ms in all, 85 of them known: a third of the other 15 lies before.
    assert spans(trace, "executor 1 core 1")[:3] == [
        ("deserialization", 114.95, 119.95),
        ("processing", 119.95, 189.95),
        ("shuffle write", 189.95, 199.95),
    ]
    assert spans(trace, "executor 1 core 2")[:4] == [
        ("deserialization", 114.95, 119.95),
        ("processing", 119.95, 449.95),
        ("garbage collection", 449.95, 489.95),
        ("shuffle write", 489.95, 499.95),
    ]
    # The last task takes the core that has its number.
    assert [kind for kind, *_ in spans(trace, "executor 1 core 2")[4:]] == [
        "deserialization",
        "processing",
        "serialization",
    ]
    assert spans(trace, "driver") == [
        ("starting up", 0, 5),
        ("driver program", 5, 100),
        ("scheduling", 100, 110),
        ("waiting", 110, 210),
        ("waiting", 210, 510),
        ("scheduling", 510, 520),
        ("waiting", 520, 700),
        ("scheduling", 700, 720),
        ("driver program", 720, 800),
    ]


def test_batches_of_structured_streaming():
    progress = {
        "id": "q",
        "timestamp": "2023-11-14T22:13:20.050Z",
        "batchId": 3,
        "durationMs": {"triggerExecution": 700, "walCommit": 20},
    }
    event = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
    told = (
        json.dumps({"Event": event, "progress": progress}, separators=(",", ":")).encode() + b"\n"
    )
    log = SparkLog().read([*small()[:-1], told, small()[-1]])
    assert log.batches == [StreamBatch("q", 3, START + 50, START + 750)]
    kinds = spans(spark_trace(log).whole(), "driver")
    assert kinds[:3] == [("starting up", 0, 5), ("idle", 5, 50), ("batch planning", 50, 100)]
    assert kinds[-2:] == [("batch planning", 720, 750), ("idle", 750, 800)]
    bad = told.replace(b"2023-", b"then-")
    assert "which is not a time" in SparkLog().read([*small(), bad]).bad[0][1]


def test_the_long_task_is_on_the_critical_path_and_the_short_one_is_not():
    found = profile_trace(spark_trace(SparkLog().read(small())).whole(), window=10**10)
    workers = {row["worker"]: row["critical"] for row in found.by_worker().to_dicts()}
    assert workers["executor 1 core 1"] == 0
    assert workers["executor 1 core 2"] > 0.5
    assert found.cells.collect()["critical"].sum() == pytest.approx(1, abs=1e-9)


def test_an_application_that_still_runs():
    whole = small()
    cut = [each for each in whole if b"ApplicationEnd" not in each and b"JobEnd" not in each][:-2]
    log = SparkLog().read([*cut, b'{"Event":"SparkListenerTaskEnd","Stage I'])
    assert (log.bad_lines, log.bad[0][0]) == (1, len(cut) + 1)
    assert "incomplete line" in log.bad[0][1]
    tasks = log.finish()
    first, last = tasks.span
    rows = tasks.meeting(first, last)
    # The one that still runs lasts until the end of what is known.
    assert rows["finish"].tolist() == [(START + ms) * MS for ms in (210, 510, 520)]


def test_half_a_line_is_no_fault_of_the_log_even_if_strict():
    log = SparkLog(strict=True).read([*small()[:-1], small()[-1][:20]])
    assert log.bad_lines == 1


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (b"nonsense\n", "does not begin"),
        (b'{"Event":"SparkListenerTaskEnd","Stage ID":0}\n', "Task Info"),
        (b'{"Event":"SparkListenerTaskEnd",\n', "it is truncated"),
        (task_end(0, info(9, "1", 500, 400), metrics(1)), "before it begins"),
    ],
)
def test_bad_lines_are_named_and_skipped_or_refused(bad, words):
    lines = [*small()[:9], bad, *small()[9:]]
    log = SparkLog().read(lines)
    assert [number for number, _ in log.bad] == [10]
    assert words in log.bad[0][1]
    assert len(log.finish()) == 3
    with pytest.raises(TraceError, match=rf"line 10 of the log: .*{words}"):
        SparkLog(strict=True).read(lines)


def test_events_that_are_not_known_are_left_alone():
    log = SparkLog(strict=True).read([*small(), line("OfALaterVersion", what={"deep": [1]})])
    assert log.bad_lines == 0


def test_what_is_no_log_is_told_at_once():
    with pytest.raises(TraceError, match="is not a Spark event log"):
        SparkLog().read([b"a\n"] * 100)
    with pytest.raises(TraceError, match="contains no event"):
        SparkLog().read([])


def test_failed_and_crowded_tasks():
    lost = task_end(0, info(5, "1", 115, 300, Failed=True), None, "ExecutorLostFailure")
    more = [task_end(0, info(n, "1", 115, 400), metrics(280)) for n in (6, 7)]
    made = spark_trace(SparkLog().read([*small()[:9], lost, *more, *small()[9:]]))
    assert made.crowded == 3
    kinds = {made.names.kinds[kind] for kind in made.whole().activities.kind.tolist()}
    assert "processing" in kinds
    killed = task_end(0, info(8, "1", 600, 680, Killed=True), metrics(70), "TaskKilled")
    made = spark_trace(SparkLog().read([*small()[:9], killed, *small()[9:]]))
    assert "failed work" in {
        made.names.kinds[kind] for kind in made.whole().activities.kind.tolist()
    }


def test_a_result_that_the_driver_fetched_is_collected():
    task = info(4, "1", 600, 690, **{"Getting Result Time": START + 650})
    made = spark_trace(
        SparkLog().read([*small()[:-2], task_end(1, task, metrics(40)), *small()[-2:]])
    )
    went = made.whole().messages
    back = [
        i
        for i in range(len(went))
        if went.target[i] == 0 and went.received[i] == (START + 690) * MS
    ]
    assert [made.names.kinds[went.kind[i]] for i in back] == ["collecting results"]


def test_blocks_of_a_shuffle_come_from_those_who_wrote_them():
    went = spark_trace(SparkLog().read(small())).whole().messages
    between = [i for i in range(len(went)) if went.source[i] and went.target[i]]
    # Not from the core itself that fetches.
    found = [
        (int(went.source[i]), int(went.target[i]), int(went.received[i] - went.sent[i]))
        for i in between
    ]
    assert found == [(2, 1, 1), (1, 2, 50 * MS - 1)]


def test_stages_without_scopes_have_the_names_of_their_rdds():
    stage = logs.stage_info(7)
    read = SparkLog().read([line("StageSubmitted", **{"Stage Info": stage})])
    assert read.stages[7].name == "MapPartitionsRDD (count at job.py:1)"


@pytest.mark.parametrize("begin", range(16))
def test_the_first_time_of_all_is_in_the_trace(begin):
    start = START + begin
    head = [small()[0], line("ApplicationStart", **{"App Name": "a", "Timestamp": start})]
    task = info(0, "1", begin + 5_100, begin + 5_200)
    made = spark_trace(SparkLog().read([*head, task_end(0, task, metrics(100))]))
    did = made.whole().activities
    assert int(did.start.min()) == start * MS
    assert int((did.end - did.start)[did.worker == 0].sum()) == 5_200 * MS
    # Of an application that only began nothing is known.
    assert spark_trace(SparkLog().read(head)).span == (start * MS, start * MS)
    # A task that took no delay begins at the first time.
    alone = spark_trace(SparkLog().read([small()[0], task_end(0, task, metrics(100))]))
    assert len(alone.placed.tasks) == 1
    assert profile_trace(alone, window=10**10).by_activity()["kind"][0] == "processing"


def test_numbers_that_cannot_be_are_bad_lines():
    for bad in ({"Task ID": 1 << 63}, {"Index": 1 << 31}, {"Launch Time": 1 << 60}):
        task = {**info(9, "1", 110, 210), **bad}
        log = SparkLog().read([*small()[:9], task_end(0, task, metrics(1)), *small()[9:]])
        assert [number for number, _ in log.bad] == [10]


def test_a_log_without_tasks_lasts_as_long_as_its_jobs():
    cut = [each for each in small() if b"Task" not in each and b"ApplicationEnd" not in each]
    assert spark_trace(SparkLog().read(cut)).span == (START * MS, (START + 720) * MS)


def test_a_stage_whose_parents_left_nothing_fetches_from_nobody():
    lines = small()
    over = next(n for n, each in enumerate(lines) if b"StageCompleted" in each)
    gone = [
        task_end(0, info(number, "1", 110, end), None, "Resubmitted")
        for number, end in ((0, 210), (1, 510))
    ]
    log = SparkLog().read([*lines[: over + 1], *gone, *lines[over + 1 :]])
    made = spark_trace(log)
    assert log.tasks.lost.among(np.arange(3)).tolist() == [True, True, False]
    assert made.parents == {}
    trace = made.whole()
    between = (trace.messages.source > 0) & (trace.messages.target > 0)
    assert not between.any()
    # What it waited for is not known, so that it is an activity.
    assert trace.names.kinds.index("fetch wait") in trace.activities.kind
