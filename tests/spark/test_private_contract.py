"""What the engine needs of Spark's private classes, and that the public fallback does the same."""

import contextlib
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import InheritableThread, TaskContext
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType

from rechannel.engine.reconfigure.cluster import Executor
from rechannel.engine.spark import binding, private_stages, wiring
from rechannel.engine.spark.calls import nothing
from rechannel.engine.spark.cluster import spark_cluster
from rechannel.engine.spark.private import (
    Anchors,
    JobTags,
    PlanAnalysis,
    SharedExchange,
    inner,
)
from rechannel.engine.spark.private_executors import Executors
from rechannel.engine.spark.private_stages import planned_stages
from rechannel.engine.spark.public import PersistedExchange
from rechannel.engine.spark.resubmitting import Resubmitting
from rechannel.engine.spark.session.session import ADAPTIVE, STEADY
from rechannel.engine.spark.session.session_limits import Kind
from rechannel.engine.spark.stages import ROWS, FrameStages
from rechannel.engine.spark.warming import ROUNDS as ROUNDS_FIRST
from rechannel.engine.spark.warming import FirstTasks
from rechannel.errors import NonDeterministicError, SessionError
from rechannel.kernels.shuffle.wire import SCHEMA
from rechannel.telemetry.spark_tasks import open_spark_tasks
from tests.spark.children import Child
from tests.spark.holds import Holding, Marks, me
from tests.spark.programs import BRIEF, PATIENCE, ledger, outputs, run, session, states, until

pytestmark = pytest.mark.contract

PARTITIONS, TASKS = 5, 3
CORES = 2
"""Of the session that tests share."""


class Front:
    """A front: every task sends its number to every partition, and marks that it ran."""

    def __init__(self, place):
        self.marks = Marks(place)

    def __call__(self, batches):
        for _ in batches:
            pass
        number = me()["partition"]
        self.marks.put("ran", task=number)
        blobs = [b"%d to %d" % (number, to) for to in range(PARTITIONS)]
        yield pa.RecordBatch.from_arrays(
            [pa.array(range(PARTITIONS), pa.int32()), pa.array(blobs, pa.binary())], schema=SCHEMA
        )


def with_partition(batches):
    """Rows with the partition of the reader that saw them."""
    for batch in batches:
        number = pa.array([me()["partition"]] * batch.num_rows, pa.int32())
        yield batch.append_column("at", number)


def seen(frame):
    """(partition of the reader, partition of the exchange, blob) of every row."""
    rows = frame.mapInArrow(with_partition, "p int, blob binary, at int").collect()
    return sorted((row["at"], row["p"], bytes(row["blob"]).decode()) for row in rows)


def expected(first, stop):
    return sorted(
        (to - first, to, f"{task} to {to}") for to in range(first, stop) for task in range(TASKS)
    )


@pytest.fixture(params=[SharedExchange, PersistedExchange])
def exchange(spark, tmp_path, request):
    """An exchange, and the marks of its front tasks."""
    marks = Marks(tmp_path / "marks")
    rows = spark.range(0, TASKS, 1, TASKS).mapInArrow(Front(marks.place), ROWS)
    made = request.param(spark, rows, PARTITIONS)
    yield made, marks
    made.release()


def shuffle_files(spark):
    """Shuffle files of the session."""
    place = Path(spark.conf.get("spark.local.dir"))
    return {path for path in place.rglob("shuffle_*") if path.is_file()}


@pytest.mark.parametrize(
    "ranges",
    [[(0, PARTITIONS)], [(0, PARTITIONS), (1, 3)], [(0, 2), (2, PARTITIONS)], [(4, 5), (0, 5)]],
    ids=str,
)
def test_an_exchange_is_read_by_ranges_and_run_once(exchange, ranges):
    made, marks = exchange
    assert not marks.of("ran")
    for first, stop in ranges:
        assert seen(made.read(first, stop)) == expected(first, stop)
    assert Counter(mark["task"] for mark in marks.of("ran")) == dict.fromkeys("012", 1)


def test_bundles_of_tasks_are_read_together(exchange):
    made, _ = exchange
    bundles = ((0, 1), (2, 3))
    rows = made.read_bundles(bundles, 1)
    if isinstance(made, PersistedExchange):
        assert rows is None
        return
    assert seen(rows) == sorted(
        (at, 1 + task, f"{source} to {1 + task}")
        for at, bundle in enumerate(bundles)
        for task in bundle
        for source in range(TASKS)
    )
    assert made.read_bundles(((0, 2), (1, 3)), 1) is None, "scattered ones have to be held"


def test_an_exchange_is_read_by_many_at_once(exchange):
    made, marks = exchange
    ranges = [(0, 2), (1, 4), (2, 5), (4, 5)]
    found = {}
    threads = [
        threading.Thread(target=lambda r=r: found.update({r: seen(made.read(*r))})) for r in ranges
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {(first, stop): expected(first, stop) for first, stop in ranges}
    if isinstance(made, SharedExchange):
        assert len(marks.of("ran")) == TASKS


def test_an_exchange_may_be_started_ahead(spark, tmp_path):
    marks = Marks(tmp_path / "marks")
    rows = spark.range(0, TASKS, 1, TASKS).mapInArrow(Front(marks.place), ROWS)
    made = SharedExchange(spark, rows, PARTITIONS)
    made.submit()
    until(lambda: len(marks.of("ran")) == TASKS, "the front runs without a reader")
    assert seen(made.read(0, PARTITIONS)) == expected(0, PARTITIONS)
    assert seen(made.read(2, 4)) == expected(2, 4)
    assert len(marks.of("ran")) == TASKS
    made.release()


def test_release_deletes_the_shuffle(spark, tmp_path):
    before = shuffle_files(spark)
    rows = spark.range(0, TASKS, 1, TASKS).mapInArrow(Front(tmp_path / "marks"), ROWS)
    made = SharedExchange(spark, rows, PARTITIONS)
    seen(made.read(0, 2))
    assert shuffle_files(spark) - before
    made.release()
    until(lambda: not shuffle_files(spark) - before, "the files are deleted")


def test_release_of_the_fallback_drops_the_cache(spark, tmp_path):
    before = set(spark.sparkContext._jsc.getPersistentRDDs())
    rows = spark.range(0, TASKS, 1, TASKS).mapInArrow(Front(tmp_path / "marks"), ROWS)
    made = PersistedExchange(spark, rows, PARTITIONS)
    seen(made.read(0, 2))
    assert set(spark.sparkContext._jsc.getPersistentRDDs()) - before
    made.release()
    assert set(spark.sparkContext._jsc.getPersistentRDDs()) == before


@pytest.fixture(params=["planned", "frames", "public"])
def stages(spark, request):
    """Every way to put stages together."""
    if request.param == "planned":
        return planned_stages(spark)
    return FrameStages(spark, SharedExchange if request.param == "frames" else PersistedExchange)


def collected(stages, rows):
    """The blobs."""
    return sorted(blob.decode() for blob in stages.collect(rows))


def with_reader(batches):
    """Rows whose blobs say which task saw them."""
    for batch in batches:
        told = [b"%s by %d" % (blob, me()["partition"]) for blob in batch.column(1).to_pylist()]
        yield pa.RecordBatch.from_arrays(
            [batch.column(0), pa.array(told, pa.binary())], schema=SCHEMA
        )


def test_stages_are_called_exchanged_and_collected(stages, tmp_path):
    marks = Marks(tmp_path / "marks")
    rows = stages.call(stages.numbers(TASKS), Front(marks.place), None)
    exchange = stages.exchange(rows, PARTITIONS)
    for first, stop in [(1, 4), (0, PARTITIONS)]:
        found = collected(stages, stages.call(exchange.read(first, stop), with_reader, None))
        assert found == sorted(f"{text} by {at}" for at, _, text in expected(first, stop))
    assert Counter(mark["task"] for mark in marks.of("ran")) == dict.fromkeys("012", 1)
    exchange.release()


def by_number(batches):
    """A front whose rows tell the number that it was given: a joined front's partition is another one."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            blobs = [b"%d to %d" % (number, to) for to in range(PARTITIONS)]
            columns = [pa.array(range(PARTITIONS), pa.int32()), pa.array(blobs, pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def test_tasks_without_state_are_the_same_where_they_are_held(spark, stages):
    held = Anchors.open(spark).of(dict.fromkeys(range(TASKS), Executor(id="1", host="a", cores=1)))
    for _ in range(2):
        rows = stages.call(stages.numbers(TASKS, held), by_number, None)
        assert collected(stages, rows) == sorted(text for _, _, text in expected(0, PARTITIONS))


def test_scattered_bundles_are_read_where_they_are_held(spark, stages):
    held = Anchors.open(spark).of(dict.fromkeys(range(2), Executor(id="1", host="a", cores=1)))
    exchange = stages.exchange(stages.call(stages.numbers(TASKS), by_number, None), PARTITIONS)
    bundles = ((0, 2, 3), (1,))
    read = exchange.read_bundles(bundles, 1, held)
    assert (read is None) is isinstance(exchange, PersistedExchange)
    if read is not None:
        assert collected(stages, stages.call(read, with_reader, None)) == sorted(
            f"{source} to {1 + task} by {at}"
            for at, bundle in enumerate(bundles)
            for task in bundle
            for source in range(TASKS)
        )
    exchange.release()


def test_tasks_are_not_held_on_an_executor_that_has_been_let_go(spark):
    one, other = (Executor(id=id_, host="a", cores=1) for id_ in "12")
    anchor = Anchors.open(spark).of({0: one, 1: other, 2: one})
    held = anchor.hold(spark.range(0, 3, 1, 3)._jdf.queryExecution().toRdd())

    def places():
        partitions = held.partitions()
        return [str(held.preferredLocations(each).mkString(",")) for each in partitions]

    assert places() == ["executor_a_1", "executor_a_2", "executor_a_1"]
    anchor.let_go({"1", "gone before"})
    assert places() == ["", "executor_a_2", ""]
    anchor.let_go({"1"})
    assert places() == ["", "executor_a_2", ""]


def test_stages_over_dataframes_and_of_several_producers(spark, stages):
    numbers = stages.call(stages.numbers(TASKS), by_number, None)
    frame = stages.call(spark.range(0, TASKS, 1, TASKS).where("id < 9"), by_number, None)
    shared = stages.exchange(numbers, PARTITIONS)
    every = [(to, text) for _, to, text in expected(0, PARTITIONS)]
    some = [(to - 2, text) for to, text in every if to >= 2]
    for parts, wanted in [
        ([(numbers, 0), (numbers, 0)], every + every),
        ([(frame, 0), (numbers, 0)], every + every),
        ([(frame, 0), (frame, 0)], every + every),
        ([(shared.read(2, PARTITIONS), 2), (numbers, 0), (frame, 0)], some + every + every),
    ]:
        exchange = stages.exchange(stages.joined(parts), PARTITIONS)
        assert collected(stages, exchange.read(0, PARTITIONS)) == sorted(t for _, t in wanted)
        for at in range(PARTITIONS):
            there = sorted(text for to, text in wanted if to == at)
            assert collected(stages, exchange.read(at, at + 1)) == there
        exchange.release()
    shared.release()


def test_stages_belong_to_their_session_whichever_a_thread_has(spark, tmp_path):
    other, found = spark.newSession(), []

    def elsewhere():
        spark._jvm.org.apache.spark.sql.SparkSession.setActiveSession(other._jsparkSession)
        made = planned_stages(spark)
        found.append(made.call(made.numbers(1), Front(tmp_path), None).session())

    thread = InheritableThread(elsewhere)
    thread.start()
    thread.join()
    assert found[0].equals(spark._jsparkSession)
    assert not found[0].equals(other._jsparkSession)


@pytest.mark.slow  # `make test-minors` runs it too
def test_where_plans_are_others_every_timestep_is_planned(
    spark, tmp_path, briefly_undisturbed, monkeypatch
):
    monkeypatch.setattr(private_stages, "inner", Mock(side_effect=SessionError("other plans")))
    planned_stages.cache_clear()
    made = Mock(side_effect=FrameStages)
    monkeypatch.setattr(wiring, "FrameStages", made)
    job = run(spark, ledger(tmp_path / "out", rows=BRIEF), tmp_path / "state", in_flight=2)
    planned_stages.cache_clear()
    made.assert_called_once_with(spark, SharedExchange)
    assert states(job) == briefly_undisturbed[0]
    assert outputs(tmp_path / "out") == briefly_undisturbed[1]


def dice(value):
    return value


@F.udf(LongType())
def know(value):
    return value


UNSTABLE = {
    "rand": lambda df: df.withColumn("r", F.rand()),
    "rand with a seed": lambda df: df.withColumn("r", F.rand(42)),
    "randn in a filter": lambda df: df.where(F.randn() > 0),
    "uuid": lambda df: df.withColumn("r", F.expr("uuid()")),
    "monotonically_increasing_id": lambda df: df.select("*", F.monotonically_increasing_id()),
    "current_timestamp": lambda df: df.withColumn("now", F.current_timestamp()),
    "now": lambda df: df.where("at < now()"),
    "current_date": lambda df: df.where(F.current_date() > "2020-01-01"),
    "localtimestamp": lambda df: df.withColumn("now", F.localtimestamp()),
    "nested": lambda df: df.withColumn("r", F.when(F.col("v") > 1, F.rand() + 1).otherwise(0)),
    "above another step": lambda df: df.groupBy("k").agg(F.sum("v").alias("s")).select(F.rand()),
    "below another step": lambda df: df.withColumn("r", F.rand()).where("r > 0.5").select("k"),
    "limit": lambda df: df.limit(3),
    "limit under a sort": lambda df: df.orderBy("v").limit(3).where("v > 1"),
    "offset": lambda df: df.offset(2),
    "sample": lambda df: df.sample(0.5, seed=1),
    "in a subquery": lambda df: df.where("v IN (SELECT id FROM range(9) LIMIT 3)"),
    "time in a subquery": lambda df: df.where("at < (SELECT max(now()) FROM range(2))"),
    "shuffle": lambda df: df.select(F.shuffle(F.array("v", F.lit(1)))),
    "uniform": lambda df: df.select(F.expr("uniform(0, 9)")),
    "partition": lambda df: df.select(F.spark_partition_id()),
    "file name": lambda df: df.select(F.input_file_name()),
    "any of the duplicates": lambda df: df.dropDuplicates(["k"]),
    "in a join": lambda df: df.join(df.sparkSession.range(5).sample(0.5), F.col("id") == df.v),
    "a function": lambda df: df.withColumn("r", F.udf(dice, LongType()).asNondeterministic()("v")),
}

HARMLESS = {
    "itself": lambda df: df,
    "filter": lambda df: df.where("v > 1 AND k IS NOT NULL"),
    "columns": lambda df: df.select("k", (F.col("v") * 2).alias("w"), F.hash("k").alias("h")),
    "join": lambda df: df.join(df.sparkSession.range(5), F.col("id") == df.v, "left"),
    "aggregate": lambda df: df.groupBy("k").agg(F.sum("v").alias("s"), F.max("at").alias("m")),
    "explode": lambda df: df.withColumn("part", F.explode(F.split("k", "-"))),
    "function": lambda df: df.withColumn("r", F.udf(dice, LongType())("v")),
    "fixed time": lambda df: df.withColumn("then", F.lit(datetime(2020, 1, 1, tzinfo=UTC))),
    "union": lambda df: df.union(df).distinct(),
    "words of its own": lambda df: df.select(F.col("k").alias("offset"), know("v").alias("sample")),
    "duplicates in all columns": lambda df: df.dropDuplicates(),
    "subquery": lambda df: df.where("v IN (SELECT id FROM range(9))"),
}


class Explained:
    """A DataFrame that can only be explained, as on Spark Connect."""

    def __init__(self, frame):
        self.frame = frame

    def _explain_string(self, extended):
        assert extended
        query = self.frame._jdf.queryExecution()
        mode = self.frame.sparkSession._jvm.org.apache.spark.sql.execution.ExplainMode
        return query.explainString(mode.fromString("extended"))


@pytest.fixture(params=["private", "public"])
def analysis(spark, request, monkeypatch):
    """Both ways to look at a plan: raises what is found."""
    frame = spark.createDataFrame([], "k string, v bigint, at timestamp")
    look = PlanAnalysis if request.param == "private" else Explained
    if look is Explained:
        monkeypatch.setattr(binding, "is_connect", lambda spark: True)

    def analyse(function):
        made = function(frame)
        seen = made if look is PlanAnalysis else Explained(made)
        binding.refuse_unstable(spark, seen, "'step' (file.py:7)")

    analyse.way = request.param
    return analyse


HIDDEN = ("a function", "any of the duplicates")
"""What the text of a plan does not tell."""


@pytest.mark.parametrize("name", UNSTABLE)
def test_a_plan_that_cannot_be_replayed_is_found(analysis, name):
    if analysis.way == "public" and name in HIDDEN:
        pytest.skip("the text of a plan does not tell")
    with pytest.raises(NonDeterministicError, match=r"'step' \(file.py:7\).*materialise=True"):
        analysis(UNSTABLE[name])


@pytest.mark.parametrize("name", HARMLESS)
def test_a_plan_that_can_be_replayed_passes(analysis, name):
    analysis(HARMLESS[name])


ORDERED = {
    "itself": lambda df: df,
    "filter": lambda df: df.where("v > 1").select("k"),
    "explode": lambda df: df.withColumn("part", F.explode(F.split("k", "-"))),
    "function": lambda df: df.alias("a").withColumn("r", know("a.v")),
}

SHUFFLED = {
    "repartition": lambda df: df.repartition(3),
    "below others": lambda df: df.repartition(3, "k").where("v > 1").select("v"),
    "sort": lambda df: df.orderBy("v"),
    "sort of a part": lambda df: df.sortWithinPartitions("v"),
    "distinct": lambda df: df.distinct(),
    "join": lambda df: df.join(df.sparkSession.range(5), F.col("id") == df.v),
    "aggregate": lambda df: df.groupBy("k").agg(F.sum("v")),
    "union": lambda df: df.union(df),
    "window": lambda df: df.selectExpr("k", "sum(v) over (partition by k) as s"),
    "no files": lambda df: df.sparkSession.range(5),
}


@pytest.mark.parametrize(("functions", "keeps"), [(ORDERED, True), (SHUFFLED, False)])
def test_whether_rows_come_as_files_hold_them(spark, tmp_path, functions, keeps):
    pq.write_table(pa.table({"k": ["a"], "v": [1]}), tmp_path / "one.parquet")
    frame = spark.read.parquet(str(tmp_path))
    found = {name: PlanAnalysis.keeps_order(make(frame)) for name, make in functions.items()}
    assert found == dict.fromkeys(functions, keeps)


def test_the_complaint_names_the_expression(spark):
    frame = spark.range(3)
    assert "rand(7)" in PlanAnalysis.complaint(frame.withColumn("r", F.rand(7)))
    assert "current_timestamp()" in PlanAnalysis.complaint(frame.select(F.current_timestamp()))
    assert "limit" in PlanAnalysis.complaint(frame.limit(3))
    assert PlanAnalysis.complaint(frame) is None


class HeldFront(Front):
    """A front that waits before it begins."""

    def __call__(self, batches):
        Holding(self.marks.place, same)(None)
        yield from super().__call__(batches)


class Wait(Holding):
    """A mapInArrow function whose tasks wait."""

    def __call__(self, batches):
        for batch in batches:
            super().__call__(batch)
            yield batch


def same(batch):
    return batch


def test_jobs_are_described_and_cancelled_by_tag(spark, tmp_path):
    tags = JobTags(spark)
    marks = {name: Marks(tmp_path / name) for name in ("one", "two")}
    ended = {}

    def job(name):
        tags.describe(f"job {name}")
        tags.tag(f"tag-{name}")
        try:
            frame = spark.range(0, 1, 1, 1)
            held = frame.mapInArrow(Wait(marks[name].place, same), "id bigint")
            ended[name] = held.collect()
        except Exception as error:
            ended[name] = str(error)
        finally:
            tags.untag(f"tag-{name}")

    threads = {name: threading.Thread(target=job, args=(name,)) for name in marks}
    for name, thread in threads.items():
        marks[name].say("armed")
        thread.start()
    until(lambda: all(each.of("held") for each in marks.values()), "both jobs run")
    store = spark.sparkContext._jsc.sc().statusStore()
    jobs = store.jobsList(None)
    described = [jobs.apply(i).description() for i in range(jobs.size())]
    assert {"job one", "job two"} <= {text.get() for text in described if text.isDefined()}
    tags.cancel("tag-one")
    threads["one"].join()
    assert "cancelled" in ended["one"]
    assert "two" not in ended
    marks["one"].say("go")
    marks["two"].say("go")
    threads["two"].join()
    assert [row["id"] for row in ended["two"]] == [0]


class Lacking:
    """An exchange that lacks rows when it is told to."""

    lacks = False

    def incomplete(self):
        return self.lacks


def test_a_job_is_submitted_again_when_rows_are_lost_that_its_last_stage_reads(spark, tmp_path):
    """The stage that was exchanged does not run again."""
    tags, stages = JobTags(spark), planned_stages(spark)
    first, last = (Marks(tmp_path / name) for name in ("first", "last"))
    again, ended, lacking = Resubmitting(tags), [], Lacking()
    first.say("armed")
    last.say("armed")
    sent = stages.call(stages.numbers(TASKS), HeldFront(str(first.place)), None)
    exchange = stages.exchange(sent, PARTITIONS)
    rows = stages.call(exchange.read(0, PARTITIONS), Wait(last.place, same), None)

    def job():
        tags.tag("reads")
        try:
            ended.append(again.run(lambda: collected(stages, rows), [lacking]))
        finally:
            tags.untag("reads")

    thread = threading.Thread(target=job, daemon=True)
    thread.start()
    until(lambda: len(first.of("held")) == CORES, "the first stage runs")
    began = [tags.began("reads", -1)]
    lacks = [exchange.incomplete()]
    first.say("go")
    until(lambda: len(last.of("held")) == CORES, "the last stage runs")
    since = until(lambda: tags.began("reads", -1), "Spark tells that it does")
    began += [tags.began("reads", -2), tags.began("another", -1)]
    lacks += [exchange.incomplete()]
    again.clock = lambda: since / 1e3
    lacking.lacks = True
    again.lost({"1"})
    until(lambda: len(last.of("held")) > CORES, "the last stage runs once more")
    lacking.lacks = False
    again.clock = time.time
    last.say("go")
    thread.join(PATIENCE)
    assert 0 <= time.time() * 1e3 - since < 1e3 * PATIENCE
    assert began == [None, None, None], "not yet, over, unknown"
    assert lacks == [True, False]
    assert ended == [sorted(text for _, _, text in expected(0, PARTITIONS))]
    assert len(first.of("held")) == CORES, "others went on without waiting"
    assert Counter(mark["task"] for mark in first.of("ran")) == dict.fromkeys("012", 1)
    exchange.release()


def test_an_untagged_thread_is_not_cancelled(spark):
    tags = JobTags(spark)
    tags.tag("gone")
    tags.untag("gone")
    tags.cancel("gone")
    assert spark.range(3).count() == 3


@pytest.mark.slow  # `make test-minors` runs it too
def test_a_dataflow_on_the_fallback(spark, tmp_path, briefly_undisturbed, monkeypatch):
    made = []

    class Counted(PersistedExchange):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(wiring, "is_connect", lambda spark: True)
    monkeypatch.setattr(wiring, "PersistedExchange", Counted)
    job = run(spark, ledger(tmp_path / "out", rows=BRIEF), tmp_path / "state", in_flight=2)
    assert made
    assert states(job) == briefly_undisturbed[0]
    assert outputs(tmp_path / "out") == briefly_undisturbed[1]
    assert not spark.sparkContext._jsc.getPersistentRDDs()


ROUNDS, PLACED = 16, 6
"""Timesteps of so many tasks each."""
BUNDLES = ((0, 3, 4), (1, 2), (5,))


def which_task(batches):
    """Rows with the stage and the task of the reader that saw them."""
    for batch in with_partition(batches):
        stage, task = (pa.array([me()[name]] * batch.num_rows) for name in ("stage", "task"))
        yield batch.append_column("stage", stage).append_column("task", task)


def one_round(spark, marks, anchor, first, bundles=()):
    """Executor of every partition, and the rows, of an exchange that is read in place, alone or in bundles."""
    width = PLACED + first
    rows = spark.range(0, TASKS, 1, TASKS).mapInArrow(Wide(marks, width), ROWS)
    made = SharedExchange(spark, rows, width)
    shape = "p int, blob binary, at int, stage bigint, task bigint"
    read = made.read_bundles(bundles, first, anchor) if bundles else made.read(first, width, anchor)
    found = read.mapInArrow(which_task, shape).collect()
    made.release()
    tasks = open_spark_tasks(spark)
    told = until(
        lambda: (
            (ran := tasks.read_stage(found[0]["stage"]))
            and len(ran) == len(bundles or range(PLACED))
            and ran
        ),
        "Spark tells where the tasks ran",
    )
    at = {row["at"]: told[row["task"]].executor for row in found}
    return at, sorted((row["at"], row["p"], bytes(row["blob"]).decode()) for row in found)


def told_by_number(batches):
    """A front that tells by which task of which stage each number was read."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            text = b"%d %d" % (me()["stage"], me()["task"])
            columns = [pa.array([number], pa.int32()), pa.array([text], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def placed_numbers(spark, anchor):
    """Executor of each task without state."""
    stages = planned_stages(spark)
    rows = stages.call(stages.numbers(PLACED, anchor), told_by_number, None)
    found = [tuple(map(int, blob.split())) for blob in stages.collect(rows)]
    tasks = open_spark_tasks(spark)
    told = until(
        lambda: (ran := tasks.read_stage(found[0][0])) and len(ran) == PLACED and ran,
        "Spark tells where the tasks ran",
    )
    return [told[task].executor for _, task in found]


class Wide(Front):
    """A front for some number of partitions."""

    def __init__(self, place, width):
        super().__init__(place)
        self.width = width

    def __call__(self, batches):
        for _ in batches:
            pass
        blobs = [b"%d to %d" % (me()["partition"], to) for to in range(self.width)]
        targets = pa.array(range(self.width), pa.int32())
        yield pa.RecordBatch.from_arrays([targets, pa.array(blobs, pa.binary())], schema=SCHEMA)


class Warmth:
    """First tasks of an executor, which tell what they are."""

    def __init__(self, spark, stages, executor, anchors):
        self.spark, self.stages, self.executor, self.anchors = spark, stages, executor, anchors
        self.told = []

    def __getattr__(self, name):
        return getattr(self.stages, name)

    def call(self, rows, function, profile, *, copied):
        return self.stages.call(rows, Telling(function), profile, copied=copied)

    def collect(self, rows):
        self.told += [blob.split(b" ") for blob in self.stages.collect(rows)]

    def kinds(self):
        """How many tasks collected which kind of context, and how many workers they had."""
        limits = spark_cluster(self.spark).limits
        FirstTasks(
            stages=self,
            jobs=JobTags(self.spark),
            anchors=lambda: self.anchors,
            shipped=list,
            limits=limits,
            tag="test",
        ).run(self.executor)
        kinds = Counter(kind.decode() for kind, _ in self.told)
        return [dict(kinds), len({worker for _, worker in self.told[ROUNDS_FIRST:]})]


def kills_of(executors):
    """Tasks that were killed, the fewest first."""
    return sorted(each.killed for each in executors.counts().values())


def settled(executors):
    """Wait until Spark has counted all tasks that have ended."""

    def still():
        before = executors.counts()
        time.sleep(0.5)
        return before == executors.counts()

    until(still, "nothing is counted any more")


class Telling:
    """A first task that tells its context's class and its worker."""

    def __init__(self, call):
        self.call = call

    def __call__(self, batches):
        kind, worker = type(TaskContext.get()).__name__, me()["pid"]
        for batch in self.call(batches):
            text = f"{kind} {worker}".encode()
            columns = [batch.column(0), pa.array([text], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class Held:
    """A task that goes on until it is killed."""

    def __init__(self, place):
        self.marks = Marks(place)

    def __call__(self, batches):
        self.marks.put("held", **me())
        until(lambda: self.marks.said("go"), "the task is killed")
        yield from batches


def on_a_cluster(place):
    """Place tasks on three executors; then give one back, and get another one."""
    spark = session(
        place, "local-cluster[3,2,1024]", spark__executor__memory="512m",
        # A task waits for its executor, however slow the machine is today.
        spark__locality__wait="300s", spark__speculation="false",
        # Shuffles name hosts, and anchors have to win.
        spark__shuffle__reduceLocality__enabled="true",
    )  # fmt: skip
    executors = Executors(spark)
    three = until(lambda: len(alive := executors.alive()) == 3 and alive, "three executors")
    anchors = Anchors.open(spark)
    rounds = []
    for number in range(ROUNDS):
        wanted = {task: three[(task * task + number * (task + 1)) % 3] for task in range(PLACED)}
        first = number % 3
        at, rows = one_round(spark, f"{place}/marks", anchors.of(wanted), first)
        right = rows == [
            (to - first, to, f"{task} to {to}")
            for to in range(first, first + PLACED)
            for task in range(TASKS)
        ]
        rounds.append([right, [[wanted[task].id, at[task]] for task in sorted(wanted)]])
    numbered = placed_numbers(spark, anchors.of(dict.fromkeys(range(PLACED), three[2])))
    bundled = one_round(
        spark, f"{place}/marks", anchors.of(dict(enumerate(three[::-1])), 3), 1, BUNDLES
    )
    settled(executors)
    unmoved = executors.counts()
    first = [Warmth(spark, planned_stages(spark), three[1], anchors).kinds()]
    settled(executors)
    moved = {id_: each.done - unmoved[id_].done for id_, each in executors.counts().items()}
    first.append(Warmth(spark, FrameStages(spark, SharedExchange), three[1], anchors).kinds())
    unharmed = kills_of(executors)
    Marks(f"{place}/killed").say("armed")
    tags = JobTags(spark)

    def killed():
        tags.tag("killed")
        with contextlib.suppress(Exception):
            spark.range(0, 1, 1, 1).mapInArrow(Held(f"{place}/killed"), "id bigint").count()

    thread = InheritableThread(target=killed, session=spark)
    thread.start()
    until(lambda: Marks(f"{place}/killed").of("held"), "a task runs")
    tags.cancel("killed")
    thread.join()
    until(lambda: sum(kills_of(executors)), "Spark tells that it was killed")
    kills = kills_of(executors)
    executors.request(2)
    executors.decommission([three[1].id], "a test")
    leaving = [executor.id for executor in executors.alive()]
    context = spark.sparkContext._jsc.sc()
    until(lambda: context.getExecutorIds().size() == 2, "it ends")
    rows = spark.range(0, 90, 1, 9).mapInArrow(same, "id bigint").count()
    two = [executor.id for executor in executors.alive()]
    mixed = anchors.of({task: three[task % 2] for task in range(PLACED)})
    mixed.let_go([three[1].id])
    at, unheld = one_round(spark, f"{place}/marks", mixed, 0)
    executors.request(3)
    again = until(lambda: len(alive := executors.alive()) == 3 and alive, "another one comes")
    return {
        "hosts": [executor.host for executor in three],
        "cores": [executor.cores for executor in three],
        "profiles": [executor.profile for executor in three],
        "rounds": rounds,
        "numbered": numbered,
        "bundled": bundled,
        "first": first,
        "moved": moved,
        "kills": [unharmed, kills],
        "ids": [[executor.id for executor in three], leaving, two, [each.id for each in again]],
        "rows": rows,
        "let_go": [[at[task] for task in sorted(at)], len(unheld)],
    }


@pytest.fixture(scope="module")
def seen_on_a_cluster(tmp_path_factory):
    """What a process with three executors of its own saw."""
    place = tmp_path_factory.mktemp("cluster")
    child = Child(place / "child.log", on_a_cluster, {"place": str(place)})
    try:
        yield child.result(PATIENCE)
    finally:
        child.close()


@pytest.mark.slow  # streams on a cluster are tested in every run
def test_tasks_run_where_they_are_put(seen_on_a_cluster):
    rounds = seen_on_a_cluster["rounds"]
    pairs = [pair for _, pairs in rounds for pair in pairs]
    assert len(pairs) == ROUNDS * PLACED == 96
    assert [pair for pair in pairs if pair[0] != pair[1]] == []
    assert len({tuple(map(tuple, pairs)) for _, pairs in rounds}) > 2, "tasks were moved"


@pytest.mark.slow
def test_bundles_run_where_they_are_held(seen_on_a_cluster):
    at, rows = seen_on_a_cluster["bundled"]
    assert at == {str(place): str(2 - place) for place in range(len(BUNDLES))}
    assert [tuple(row) for row in rows] == sorted(
        (place, 1 + to, f"{task} to {1 + to}")
        for place, bundle in enumerate(BUNDLES)
        for to in bundle
        for task in range(TASKS)
    )


@pytest.mark.slow
def test_tasks_without_state_run_where_they_are_held(seen_on_a_cluster):
    assert seen_on_a_cluster["numbered"] == ["2"] * PLACED


@pytest.mark.slow
def test_first_tasks_are_of_barrier_stages_which_spark_does_not_copy(seen_on_a_cluster):
    for kinds, workers in seen_on_a_cluster["first"]:
        assert kinds == {"BarrierTaskContext": ROUNDS_FIRST + 2}
        assert workers == 2, "one for each core"
    assert seen_on_a_cluster["moved"] == {"0": 0, "1": 2 * ROUNDS_FIRST + 2, "2": 0}


@pytest.mark.slow
def test_no_task_waits_for_an_executor_that_has_been_let_go(seen_on_a_cluster):
    """They would wait for 300 seconds. All executors are on one host, so tasks held on another may be with them."""
    places, rows = seen_on_a_cluster["let_go"]
    assert rows == PLACED * TASKS
    assert set(places) <= {"0", "2"}


@pytest.mark.slow
def test_killed_tasks_are_counted_where_they_ran(seen_on_a_cluster):
    unharmed, kills = seen_on_a_cluster["kills"]
    assert unharmed == [0, 0, 0]
    assert kills == [0, 0, 1]


@pytest.mark.slow
def test_rows_are_the_same_in_place(seen_on_a_cluster):
    assert [right for right, _ in seen_on_a_cluster["rounds"]] == [True] * ROUNDS


@pytest.mark.slow
def test_executors_are_listed(seen_on_a_cluster):
    assert seen_on_a_cluster["ids"][0] == ["0", "1", "2"]
    assert seen_on_a_cluster["cores"] == [2, 2, 2]
    assert seen_on_a_cluster["profiles"] == [0, 0, 0]
    assert all(seen_on_a_cluster["hosts"])


@pytest.mark.slow
def test_an_executor_is_given_back_and_another_one_comes(seen_on_a_cluster):
    _, leaving, two, again = seen_on_a_cluster["ids"]
    assert leaving == two == ["0", "2"]
    assert again == ["0", "2", "3"]
    assert seen_on_a_cluster["rows"] == 90


def test_a_local_master_is_one_executor(spark):
    cluster = spark_cluster(spark)
    assert cluster.limits.kind is Kind.LOCAL
    assert [executor.id for executor in cluster.executors()] == ["driver"]
    assert cluster.executors()[0].cores == 2


def test_where_a_class_is_missing_nothing_is_placed(spark, monkeypatch, caplog):
    assert Anchors.open(spark) is not None
    monkeypatch.setattr(Anchors, "_CACHED", "")
    assert Anchors.open(spark) is None
    monkeypatch.undo()
    monkeypatch.setattr(Anchors, "_empty", lambda *arguments: spark._jvm.org.apache.spark.Gone())
    assert Anchors.open(spark) is None
    assert caplog.text.count("tasks are not placed") == 2


def test_an_exchange_is_planned_whole_on_an_adaptive_session(spark, tmp_path):
    """As every session is that nobody has told otherwise."""
    others = spark.newSession()
    others.conf.set(ADAPTIVE, "true")
    marks = Marks(tmp_path / "marks")
    rows = others.range(0, TASKS, 1, TASKS).mapInArrow(Front(marks.place), ROWS)
    made = SharedExchange(others, rows, PARTITIONS)
    assert seen(made.read(0, PARTITIONS)) == expected(0, PARTITIONS)
    assert len(marks.of("ran")) == TASKS
    made.release()
    assert planned_stages(others) is not None
    assert others.conf.get(ADAPTIVE) == "true", "the session keeps its own"


def test_exchanges_are_determinate_whatever_the_session_says(spark, tmp_path):
    """A lost executor never ends a stage because attempts of its tasks differ in the times of their reports."""
    key = "spark.sql.shuffle.orderIndependentChecksum"
    others = spark.newSession()
    for name in STEADY:
        others.conf.unset(name)
    others.conf.set(ADAPTIVE, "false")
    others.conf.set(f"{key}.enabled", "true")
    others.conf.set(f"{key}.enableFullRetryOnMismatch", "true")
    rows = others.range(0, TASKS, 1, TASKS).mapInArrow(nothing, ROWS)
    frame = rows.repartitionById(PARTITIONS, "p")
    plain = inner(frame._jdf.queryExecution().executedPlan(), "ShuffleExchangeExec")
    sessions = spark.sparkContext._jvm.org.apache.spark.sql.SparkSession
    sessions.setActiveSession(others._jsparkSession)
    made = SharedExchange(others, rows, PARTITIONS)
    found = [
        each.checksumMismatchFullRetryEnabled()
        for each in (plain.shuffleDependency(), made._dependency)
    ]
    sessions.setActiveSession(spark._jsparkSession)
    made.release()
    assert found == [True, False]
    assert len(list(made._dependency.rowBasedChecksums())) == 0
    assert others.conf.get(f"{key}.enableFullRetryOnMismatch") == "true", (
        "the session keeps its own"
    )
