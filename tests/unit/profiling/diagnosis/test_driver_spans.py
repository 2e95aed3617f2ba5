"""What the driver does from one event to the next."""

from dataclasses import replace
from itertools import groupby

from rechannel.profiling.diagnosis.driver_spans import driver_spans
from rechannel.profiling.spark.application import Stream
from tests.unit.profiling.diagnosis.made import START, application, batch, execution, executor, job


def cut(app):
    """Kind, start and length of all spans, ms from the start."""
    spans = driver_spans(app)
    assert [span.start for span in spans[1:]] == [span.end for span in spans[:-1]]
    assert (spans[0].start, spans[-1].end) == (app.start, app.end)
    kinds = [list(each) for _, each in groupby(spans, key=lambda span: span.kind)]
    return [
        (str(some[0].kind), some[0].start - START, some[-1].end - some[0].start) for some in kinds
    ]


def test_a_batch_application():
    app = application(
        10_000,
        [],
        executor("1", 1_000),
        execution(0, 2_000, 5_000),
        job(0, 2_500, 3_000, execution=0, broadcast=True),
        job(1, 3_400, 4_000, execution=0),
        job(2, 4_200, 4_800, execution=0),
        execution(1, 6_000, 9_000, writes=True),
        job(3, 6_100, 7_000, execution=1),
    )
    assert cut(app) == [
        ("starting up", 0, 1_000),
        ("driver program", 1_000, 1_000),
        ("planning", 2_000, 500),
        ("scheduling", 2_500, 500),
        ("broadcast building", 3_000, 400),
        ("scheduling", 3_400, 600),
        ("planning", 4_000, 200),
        ("scheduling", 4_200, 600),
        ("collecting results", 4_800, 200),
        ("driver program", 5_000, 1_000),
        ("planning", 6_000, 100),
        ("scheduling", 6_100, 900),
        ("commit", 7_000, 2_000),
        ("driver program", 9_000, 1_000),
    ]
    gap = next(span for span in driver_spans(app) if span.start == START + 5_000)
    assert (gap.job, gap.next_job, gap.execution) == (2, 3, None)
    planned = next(span for span in driver_spans(app) if span.start == START + 2_000)
    assert (planned.job, planned.next_job, planned.execution) == (None, 0, 0)


def test_jobs_that_wait_for_executors_or_list_files():
    app = application(
        5_000,
        [],
        executor("1", 2_000, removed=4_000),
        job(0, 1_000, 3_000),
        job(1, 3_000, 3_500, description="Listing leaf files and directories for 99 paths"),
        job(2, 3_500, 5_000),
    )
    assert cut(app) == [
        ("starting up", 0, 1_000),
        ("waiting for executors", 1_000, 1_000),
        ("scheduling", 2_000, 1_000),
        ("listing files", 3_000, 500),
        ("scheduling", 3_500, 500),
        ("waiting for executors", 4_000, 1_000),
    ]


def test_batches_of_a_stream_and_the_time_between():
    app = application(
        10_000,
        [],
        executor("driver", 0),
        batch(0, 1_000, 3_000),
        execution(0, 1_500, 3_000, writes=True),
        job(0, 1_700, 2_000, execution=0, batch=0),
        batch(1, 6_000, 9_000),
        execution(1, 6_100, 9_000, writes=True),
        job(1, 6_300, 6_900, execution=1, batch=1),
        streams={"q": Stream(query="q", name="orders", start=START + 1_000, end=START + 9_000)},
    )
    assert cut(app) == [
        ("driver program", 0, 1_000),
        ("batch planning", 1_000, 500),
        ("planning", 1_500, 200),
        ("scheduling", 1_700, 300),
        ("commit", 2_000, 1_000),
        ("idle", 3_000, 3_000),
        ("batch planning", 6_000, 100),
        ("planning", 6_100, 200),
        ("scheduling", 6_300, 600),
        ("commit", 6_900, 2_100),
        ("driver program", 9_000, 1_000),
    ]
    last = next(span for span in driver_spans(app) if span.start == START + 6_900)
    assert (last.batch, last.execution, last.job) == (("orders", 1), 1, 1)


def test_an_empty_job_and_one_that_did_not_end():
    app = application(4_000, [], executor("1", 0), job(0, 1_000, 1_000), job(1, 2_000, 0))
    app = replace(app, jobs={**app.jobs, 1: replace(app.jobs[1], end=0)})
    assert cut(app) == [
        ("driver program", 0, 2_000),
        ("scheduling", 2_000, 2_000),
    ]
