"""Batch jobs on other numbers of cores, beside tasks that are put on cores one by one."""

import pytest

from rechannel.scaling.files.request import Request
from rechannel.scaling.files.spark.reader import advice_of
from tests.unit.profiling.diagnosis.made import application, executor, job, stage, task
from tests.unit.scaling.files.spark.streams import scheduled

TIMES = [1_000, 1_500, 2_000, 2_500] * 6


def etl(cores=4):
    """One job of one stage, after a second in which the driver plans, and before another."""
    spans = scheduled(TIMES, cores, 1_000)
    end = max(over for _, over in spans)
    ran = [task(0, i, start, over) for i, (start, over) in enumerate(spans)]
    things = (
        executor("1", 0, cores=cores // 2),
        executor("2", 0, cores=cores - cores // 2),
        job(0, 1_000, end, stages=(0,)),
        stage(0, 1_000, end, len(TIMES)),
    )
    return application(end + 1_000, ran, *things)


def seconds(cores):
    return 2 + (max(over for _, over in scheduled(TIMES, cores, 0))) / 1_000


def test_every_number_of_cores_is_a_replay():
    jobs = advice_of(etl(), Request(), title="etl").jobs
    assert jobs.now.seconds == pytest.approx(seconds(4))
    for each in (*jobs.others, jobs.advised):
        assert each.seconds == pytest.approx(seconds(each.cores), rel=0.01)
        assert each.core_seconds == pytest.approx(each.cores * each.seconds)
        assert each.executors == -(-each.cores // 2)


def test_enough_is_the_least_that_hardly_takes_longer():
    jobs = advice_of(etl(), Request(), title="etl").jobs
    least = 2 + max(TIMES) / 1_000
    assert jobs.least_seconds == pytest.approx(least)
    naive = next(cores for cores in range(1, 100) if seconds(cores) <= 1.05 * least)
    assert jobs.advised.cores == naive


def test_a_bound_on_cores_is_kept():
    jobs = advice_of(etl(), Request(most_cores=3), title="etl").jobs
    assert jobs.advised.cores == 3
    assert jobs.least_seconds == pytest.approx(seconds(3), rel=0.01)
    assert {each.cores for each in jobs.others} == {1, 2}


def test_executors_have_the_cores_that_are_asked_for():
    made = advice_of(etl(), Request(executor_cores=8), title="etl")
    assert (made.executors, made.executor_cores) == (2, 8)
    assert made.jobs.advised.executors == -(-made.jobs.advised.cores // 8)
