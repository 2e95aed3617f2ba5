"""How Spark's figures are asked for; that Spark answers is shown in tests/spark."""

from unittest.mock import MagicMock

from rechannel.telemetry.events import Note
from rechannel.telemetry.spark_tasks import SparkTasks, open_spark_tasks
from rechannel.telemetry.task_finished import SparkMetrics, SparkTaskId, TaskFinished


def figures(task, stage_attempt=0):
    return SparkMetrics(
        stage=1, stage_attempt=stage_attempt, partition=0, executor=f"e{task}", host="h",
        launch_ms=1, finish_ms=2,
    )  # fmt: skip


def finished(stage, task):
    return TaskFinished(
        timestep=0, operator="o", task=0, attempt="a", host="h", started_ms=1.0, finished_ms=2.0,
        spark_task=SparkTaskId(stage=stage, task=task),
    )  # fmt: skip


class ScriptedTasks(SparkTasks):
    """Spark's listener catches up while `complete` sleeps: `looks[n]` is known after n sleeps."""

    def __init__(self, *looks, takes_s=0.0):
        self.slept = []
        self.asked = []
        self.looks = looks
        self.now_s, self.takes_s = 100.0, takes_s
        super().__init__(MagicMock(), self.slept.append, lambda: self.now_s)

    def read_stage(self, stage, attempt=0):
        self.asked.append((stage, attempt))
        self.now_s += self.takes_s
        known = self.looks[min(len(self.slept), len(self.looks) - 1)]
        if isinstance(known, Exception):
            raise known
        return dict(known.get((stage, attempt), {}))


def executors(events):
    return [event.executor for event in events]


def test_each_stage_is_asked_for_once():
    tasks = ScriptedTasks({(1, 0): {10: figures(10), 11: figures(11)}, (2, 0): {20: figures(20)}})
    done = tasks.complete([finished(1, 10), finished(2, 20), finished(1, 11)])
    assert executors(done) == ["e10", "e20", "e11"]
    assert tasks.asked == [(1, 0), (2, 0)]
    assert tasks.slept == []


def test_nothing_is_asked_without_tasks():
    tasks = ScriptedTasks({})
    note = Note(at_ms=0, topic="t", text="x")
    assert tasks.complete([note]) == [note]
    assert tasks.asked == tasks.slept == []


def test_a_stage_that_ran_again_is_looked_for_in_its_attempts():
    tasks = ScriptedTasks({(1, 0): {10: figures(10)}, (1, 1): {14: figures(14, 1)}})
    done = tasks.complete([finished(1, 10), finished(1, 14)])
    assert executors(done) == ["e10", "e14"]
    assert done[1].spark.stage_attempt == 1
    assert tasks.slept == []


def test_spark_is_given_time_and_asked_only_for_what_is_missing():
    early = {(1, 0): {10: figures(10)}}
    late = {(1, 0): {10: figures(10)}, (2, 0): {20: figures(20)}}
    tasks = ScriptedTasks(early, late)
    assert executors(tasks.complete([finished(1, 10), finished(2, 20)])) == ["e10", "e20"]
    assert tasks.asked == [(1, 0), (2, 0), (2, 0)]
    assert len(tasks.slept) == 1


def test_what_spark_has_forgotten_stays_without_figures():
    tasks = ScriptedTasks({(1, 0): {10: figures(10)}})
    assert executors(tasks.complete([finished(1, 10), finished(9, 90)])) == ["e10", None]
    assert sum(tasks.slept) < 0.2


def test_a_context_that_has_stopped_is_left_in_peace(caplog):
    tasks = ScriptedTasks(ConnectionRefusedError("no one there"))
    events = [finished(1, 10)]
    for _ in range(5):
        assert tasks.complete(events) == events
    assert len(tasks.asked) == 3
    assert len(caplog.records) == 1
    assert "no one there" in caplog.text


def test_one_failure_is_not_the_end():
    tasks = ScriptedTasks(RuntimeError("once"))
    for _ in range(4):
        assert executors(tasks.complete([finished(1, 10)])) == [None]
        tasks.looks, known = ({(1, 0): {10: figures(10)}},), tasks.looks
        assert executors(tasks.complete([finished(1, 10)])) == ["e10"]
        tasks.looks = known


def test_stages_of_many_tasks_are_read_for_a_share_of_the_time():
    many = {task: figures(task) for task in range(1_000)}
    tasks = ScriptedTasks({(1, 0): many, (2, 0): {2_000: figures(2_000)}}, takes_s=0.3)
    events = [*(finished(1, task) for task in range(1_000)), finished(2, 2_000)]
    read, began = [], tasks.now_s
    for _ in range(3_000):
        *wide, narrow = executors(tasks.complete(events))
        assert narrow == "e2000"
        assert set(wide) == {None} or wide == [f"e{task}" for task in range(1_000)]  # all or none
        read.append(wide[0] is not None)
        tasks.now_s += 0.7
    # Each of them took 0.6 s, with the other stage.
    assert 0.018 < 0.6 * sum(read) / (tasks.now_s - began) < 0.022
    assert read[0]
    assert not all(read[:5])


def test_a_connect_session_has_no_status_store():
    class ConnectSession:
        @property
        def sparkContext(self):  # noqa: N802
            raise AssertionError("a Connect session has no context")

    assert open_spark_tasks(ConnectSession()) is None
