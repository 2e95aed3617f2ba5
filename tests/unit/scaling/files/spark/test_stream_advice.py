"""Advice for streams whose tasks cost exactly what they are said to, beside tasks that are put on cores one by one."""

from dataclasses import replace

import numpy as np
import pytest

from rechannel.errors import RefusedError
from rechannel.profiling.diagnosis.case import Case
from rechannel.profiling.spark.application import Stream
from rechannel.scaling.files.request import Request
from rechannel.scaling.files.spark.cluster import Cluster
from rechannel.scaling.files.spark.costs import _alike, fitted
from rechannel.scaling.files.spark.reader import advice_of
from tests.unit.profiling.diagnosis.made import executor
from tests.unit.scaling.files.spark.streams import (
    COUNT_MS,
    DRIVER_MS,
    counts,
    even,
    length,
)


def advised(app, **asked):
    made = advice_of(app, Request(**asked), title="made")
    (query,) = made.queries
    return query


def varied(number):
    """Rows of batches that are not all alike, so that fixed parts are known."""
    return 2_000 + 400 * (number % 5)


def test_costs_are_those_of_the_tasks():
    read, count = advised(counts(rows=varied)).stages
    assert (read.kind, read.tasks) == ("source", 2)
    assert (count.kind, count.tasks) == ("shuffle", 4)
    assert (count.fixed_ms, count.row_ms) == pytest.approx(COUNT_MS, rel=0.05)
    assert count.fixed_low_ms <= COUNT_MS[0] + 1 <= count.fixed_high_ms + 2


def test_points_are_tasks():
    _, count = advised(counts(rows=varied)).stages
    assert 50 <= len(count.points) <= 100
    fixed, each = COUNT_MS
    assert all(abs(ms - fixed - each * rows) <= 1 for rows, ms in count.points)


def test_waits_that_vary_more_than_the_work_of_rows_do_not_hide_it():
    """Waits of 0 to 200 ms, and 10 rows of 0.4 ms for a task: one partition needs the 50 ms once, not 100 times."""
    app = counts(
        cores=2, partitions=100, sources=1, rows=varied, waits=lambda number: 37 * number % 200
    )
    _, count = advised(app, interval_ms=4_000, rate=2_500).stages
    assert count.row_ms == pytest.approx(COUNT_MS[1], rel=0.1)
    assert count.fixed_ms == pytest.approx(COUNT_MS[0] + 100, rel=0.25)


def test_stages_that_take_far_longer_than_their_tasks_make_predictions_rough():
    app = counts(cores=2, partitions=100, rows=varied)
    there = dict.fromkeys(app.executors, executor("driver", 0, cores=64))
    (note,) = [n for n in advised(replace(app, executors=there)).notes if "account for" in n]
    assert note.startswith("stages took more than 4 times as long")
    assert not [each for each in advised(app).notes if "account for" in each]


def test_stages_with_few_and_with_many_tasks_cost_what_they_would_alone():
    sizes = [3, 2_000, 40, 300, 0, 5_000, 260]
    random = np.random.default_rng(1)
    x = [random.uniform(100, 200, size) for size in sizes]
    y = [5 + 0.1 * rows * random.uniform(0.9, 1.1, len(rows)) for rows in x]
    assert list(_alike(sizes)) == [[4, 0, 2, 6, 3], [1], [5]]
    together = fitted(x, y)
    for n in range(len(sizes)):
        mine, alone = together.of(n), fitted([x[n]], [y[n]]).of(0)
        assert mine.samples == alone.samples == sizes[n]
        for one, other in ((mine.flat, alone.flat), (mine.steep, alone.steep)):
            assert one == pytest.approx(other)
        assert (mine.fixed_ms, mine.row_ms) == pytest.approx((alone.fixed_ms, alone.row_ms))


def test_what_the_driver_needs_is_what_no_stage_explains():
    assert advised(counts(rows=varied)).driver_ms == pytest.approx(DRIVER_MS)


@pytest.mark.parametrize("cores", [1, 2, 3, 4])
@pytest.mark.parametrize("partitions", [1, 2, 4, 40])
def test_batches_are_predicted_for_what_was_not_measured(cores, partitions):
    """From every setting, the advice for another rate, applied, takes as long as computed."""
    app = counts(cores=cores, partitions=partitions, rows=varied)
    query = advised(app, interval_ms=4_000, rate=3_000)
    told = query.advised
    applied = length(12_000, told.cores, told.partitions)
    assert told.batch_ms == pytest.approx(applied, rel=0.1)
    assert told.keeps
    fewer = (
        min(length(12_000, told.cores - 1, p) for p in (1, 2, 3, 4, 40)) if told.cores > 1 else 0
    )
    assert told.cores == 1 or fewer > 0.95 * 0.8 * 4_000


def test_a_stream_that_keeps_up_stays_as_it_is():
    query = advised(counts(cores=2, partitions=2, rate=2_000))
    assert query.interval_from == query.rate_from == "measured"
    assert query.rate == pytest.approx(2_000)
    assert query.interval_ms == 4_000
    assert (query.advised.cores, query.advised.partitions) == (2, 2)
    assert query.advised == query.now
    assert query.advised.batch_ms == pytest.approx(query.measured_ms, rel=0.01)


def test_a_stream_that_is_too_slow_gets_cores_for_what_arrives_and_not_for_what_it_processed():
    app = counts(cores=1, partitions=1, rate=3_000)
    query = advised(app, interval_ms=4_000)
    assert query.rate == pytest.approx(3_000, rel=0.01)
    assert not query.now.keeps
    assert query.now.used > 1
    assert query.advised.keeps
    assert query.advised.cores == query.advised.partitions == 2


def test_partitions_that_cost_more_than_they_gain_are_too_many():
    app = counts(cores=2, partitions=200, rate=500)
    query = advised(app)
    assert query.now.batch_ms == pytest.approx(length(2_000, 2, 200), rel=0.05)
    assert (query.advised.cores, query.advised.partitions) == (1, 1)
    assert query.advised.batch_ms == pytest.approx(length(2_000, 1, 1), rel=0.1)


def test_state_keeps_partitions_that_keep_the_interval():
    stateful = advised(counts(cores=1, partitions=8, rate=1_000))
    assert stateful.state_partitions == 8
    assert stateful.advised.partitions == 8
    stateless = counts(cores=1, partitions=8, rate=1_000, state_rows=0)
    stages = {
        key: replace(each, nodes=("Exchange", "HashAggregate") if each.parents else each.nodes)
        for key, each in stateless.stages.items()
    }
    found = advised(replace(stateless, stages=stages))
    assert found.state_partitions is None
    assert found.advised.partitions == 1


def test_tasks_that_tell_nothing_apart_leave_an_interval():
    """All tasks have as many rows: what is fixed of their time is not known, and the end with all of it fixed holds."""
    app = counts(cores=1, partitions=1, sources=1, rows=lambda _: 2_000, shared=even)
    query = advised(app, interval_ms=4_000, rate=1_000)
    told = query.advised
    assert told.low_ms < length(4_000, 1, 1, sources=1) * 1.01 < told.high_ms * 1.1
    assert told.high_ms > 1.4 * told.low_ms
    assert query.hangs_on == "Exchange ... StateStoreSave"
    assert advised(counts(rows=varied)).hangs_on == ""


def test_a_batch_without_rows_bounds_what_is_fixed():
    """One core and one partition; the fourth batch, of the warm-up, has no rows: its tasks take their fixed time."""

    def rows(number):
        return 0 if number == 3 else 4_000

    def told(app):
        return advised(app, interval_ms=4_000, rate=1_000).stages[1]

    bounded = told(counts(cores=1, partitions=1, sources=1, rows=rows, shared=even))
    free = told(counts(cores=1, partitions=1, sources=1, rows=lambda _: 4_000, shared=even))
    assert bounded.fixed_high_ms == pytest.approx(COUNT_MS[0], abs=1)
    assert free.fixed_high_ms > 10 * COUNT_MS[0]


def test_the_heaviest_task_stays_heavy():
    def hot(rows, tasks, turn):
        del turn
        first = rows // 2
        return [first, *[(rows - first) // (tasks - 1)] * (tasks - 1)] if tasks > 1 else [rows]

    app = counts(cores=4, partitions=4, rows=varied, shared=hot)
    query = advised(app, interval_ms=4_000, rate=1_500)
    _, count = query.stages
    assert count.heaviest == pytest.approx(2.0, rel=0.01)
    many = next(each for each in query.others if each.cores == 8)
    assert many.batch_ms > DRIVER_MS + COUNT_MS[0] + COUNT_MS[1] * 0.25 * 6_000


def test_stages_with_tasks_of_their_own_keep_them():
    """One task after a shuffle is one in any case, unless one is set; other numbers are the checkpoint's."""

    def told(partitions, given):
        app = counts(cores=2, partitions=partitions, rows=varied)
        app = replace(app, settings={"spark.sql.shuffle.partitions": given} if given else {})
        query = advised(app, interval_ms=4_000, rate=4_000)
        return query.stages[1].kind, query.now.partitions, query.advised.partitions

    assert told(1, "200") == ("own", 200, 200)
    assert told(1, "1")[:2] == ("shuffle", 1)
    assert told(1, "")[:2] == ("shuffle", 1)
    assert told(8, "200")[:2] == ("shuffle", 8)
    assert told(8, "nonsense")[:2] == ("shuffle", 8)


def test_a_source_with_too_few_tasks_is_what_binds():
    app = counts(cores=2, partitions=2, sources=1, rows=varied)
    query = advised(app, interval_ms=1_000, rate=40_000)
    assert not query.advised.keeps
    assert query.advised.binds == "Scan ... Exchange"
    (note,) = [each for each in query.notes if "no number of cores" in each]
    assert note.endswith(
        "because Scan ... Exchange has 1 task: read the source with more partitions"
    )


def test_a_driver_that_takes_the_interval_is_what_binds():
    query = advised(counts(rows=varied), interval_ms=200, rate=10)
    assert query.advised.binds == "driver"
    assert "a longer interval is needed" in " ".join(query.notes)


def test_without_a_trigger_the_pace_is_kept():
    query = advised(counts(cores=4, partitions=4, rows=varied, every=0))
    assert query.interval_from == "assumed"
    assert query.utilisation == 1.0
    assert query.now.keeps
    assert query.interval_ms == pytest.approx(query.measured_ms, rel=0.05)
    assert len([each for each in query.notes if "give the" in each]) == 2


def test_batches_of_the_warm_up_do_not_count():
    """The first 20 s are five batches of 4 s; of few batches, at most half are left out, and three stay."""
    assert advised(counts(batches=20)).left_out == 5
    assert advised(counts(batches=8)).left_out == 4
    assert advised(counts(batches=4)).left_out == 1


def test_a_query_is_chosen_by_name():
    app = counts()
    assert len(advice_of(app, Request(query="orders"), title="made").queries) == 1
    with pytest.raises(RefusedError, match="made has no query 'sums': choose one of orders"):
        advice_of(app, Request(query="sums"), title="made")


def test_several_queries_have_advice_each():
    """Every second batch is one of another query."""
    app = counts(rows=varied)
    batches = [replace(each, query="sums") if each.number % 2 else each for each in app.batches]
    jobs = {
        number: replace(each, query="id2") if number % 2 else replace(each, query="id")
        for number, each in app.jobs.items()
    }
    streams = {**app.streams, "id2": Stream(query="id2", name="sums")}
    both = replace(app, batches=batches, jobs=jobs, streams=streams)
    made = advice_of(both, Request(interval_ms=8_000), title="made")
    assert [each.name for each in made.queries] == ["orders", "sums"]
    assert [each.batches for each in made.queries] == [7, 7]
    assert all(len(each.stages) == 2 for each in made.queries)
    assert made.notes[0].startswith("2 queries share the cores")
    (only,) = advice_of(both, Request(interval_ms=8_000, query="sums"), title="made").queries
    assert only == made.queries[1]


def test_executors_follow_from_their_cores():
    query = advised(counts(rows=varied), interval_ms=1_000, rate=10_000, executor_cores=3)
    assert query.advised.executors == -(-query.advised.cores // 3)
    assert advised(counts(rows=varied)).advised.executors == 0


def test_few_batches_are_no_evidence():
    made = advice_of(counts(batches=2), Request(), title="made")
    assert made.queries == ()
    assert made.jobs is None
    assert made.notes == (
        "query orders has 2 batches with rows after its warm-up, and advice needs 3: let it run longer",
    )


def test_a_backlog_that_grows_says_that_more_arrives():
    app = counts(rows=varied)
    growing = [replace(each, source_backlog=100 * (n + 1)) for n, each in enumerate(app.batches)]
    notes = advised(replace(app, batches=growing)).notes
    assert any(
        each.startswith("the backlog of the source grew from 600 to 2,000") for each in notes
    )


@pytest.mark.parametrize(
    "asked",
    [
        {"interval_ms": 0},
        {"rate": -1.0},
        {"rate": float("nan")},
        {"utilisation": 0},
        {"utilisation": 1.1},
        {"executor_cores": 0},
    ],
)
def test_what_makes_no_sense_is_refused(asked):
    with pytest.raises(RefusedError, match="is not possible: give"):
        Request(**asked)


def test_a_rate_without_an_interval_is_for_batches_as_long_as_they_were():
    app = counts(cores=1, partitions=1, every=0, rows=varied)
    query = advised(app, rate=200_000)
    assert query.interval_from == "assumed"
    assert query.interval_ms == pytest.approx(query.measured_ms)
    assert query.utilisation == 0.8
    assert not query.now.keeps
    assert query.now.used > 1


def test_a_stream_that_waits_for_rows_keeps_the_time_between_its_batches():
    query = advised(counts(cores=1, partitions=1, every=10_000, rows=varied, interval=0))
    assert query.interval_ms == 10_000
    assert any("batches began when rows came, every 10.0 s" in each for each in query.notes)
    assert query.now.keeps


def restarted(app, at: int):
    """The application as if its query had begun anew, with another checkpoint, at a batch."""
    jobs = {number: replace(each, batch=each.batch % at) for number, each in app.jobs.items()}
    batches = [replace(each, number=each.number % at) for each in app.batches]
    return replace(app, jobs=jobs, batches=batches)


def test_only_the_latest_run_of_a_query_counts():
    app = counts(batches=20, rows=varied)
    once, again = advised(app), advised(restarted(app, 10))
    assert again.batches < once.batches
    assert len(again.stages) == len(once.stages) == 2
    assert again.driver_ms == pytest.approx(once.driver_ms)
    assert again.rate == pytest.approx(once.rate, rel=0.1)


def test_a_run_that_has_just_begun_does_not_take_the_place_of_the_one_before():
    assert advised(restarted(counts(batches=20, rows=varied), 18)).batches > 3


@pytest.mark.parametrize("rate", [5_000, 10_000, 20_000, 40_000])
@pytest.mark.parametrize("interval_ms", [1_500, 2_000, 4_000])
def test_no_fewer_cores_that_are_shown_keep_the_interval(rate, interval_ms):
    query = advised(
        counts(cores=2, partitions=100, sources=40, rows=varied), rate=rate, interval_ms=interval_ms
    )
    assert all(each.cores > query.advised.cores for each in query.others if each.keeps)


def test_executors_are_those_that_there_were_at_a_time():
    app = counts(rows=varied)
    others = {
        str(n): executor(str(n), 1_000 * n, cores=4, removed=1_000 * n + 500) for n in range(1, 8)
    }
    made = advice_of(replace(app, executors={**app.executors, **others}), Request(), title="made")
    assert (made.executors, made.executor_cores) == (1, 4)


def test_tasks_that_take_several_cores_leave_fewer_of_an_executor():
    settings = {"spark.task.cpus": "2"}
    app = counts(rows=varied)
    others = {str(n): executor(str(n), 1_000, cores=4) for n in range(2)}
    app = replace(app, settings=settings, executors=others)
    made = advice_of(app, Request(executor_cores=4), title="made")
    assert made.executor_cores == 2
    assert any(each.startswith("spark.task.cpus is 2") for each in made.notes)
    cluster = replace(Cluster.of(app, Case(app=app).table), local=False)
    assert cluster.executors_for(5, None) == cluster.executors_for(5, 4) == 3


def test_batches_without_tasks_are_told_from_too_few_of_them():
    app = counts(rows=varied)
    made = advice_of(replace(app, stages={}, jobs={}), Request(), title="made")
    assert made.queries == ()
    assert (
        "query orders has no advice: the log has no tasks of its batches; give the whole log"
        in made.notes
    )
