"""Long tasks: found with the reason in their data, or without one; silence about even and short ones."""

import numpy as np
import pytest

from rechannel.profiling.diagnosis.case import Case
from rechannel.profiling.diagnosis.skew import skew
from rechannel.profiling.model.finding import Certainty
from rechannel.profiling.spark.task_events import Metrics
from tests.unit.profiling.diagnosis.applications import (
    MIB,
    START,
    Did,
    Made,
    Maker,
    case_of,
    times,
    uneven,
)

JOIN = (
    "Exchange hashpartitioning(customer#4L, 8), ENSURE_REQUIREMENTS, [plan_id=48]",
    "SortMergeJoin [customer#4L], [customer#1L], Inner",
    "HashAggregate(keys=[day#7], functions=[partial_count(1)])",
)


def tasks(case: Case, stage: int) -> np.ndarray:
    return case.durations((stage, 0))


def test_a_hot_key():
    case = case_of([Made(tasks=uneven(41_000, 400), details=JOIN)])
    assert tasks(case, 0).max() == 41 * np.median(tasks(case, 0))
    (found,) = skew(case)
    assert found.cause == "skew"
    assert found.text == (
        "Stage 0 (join on customer) spends 89 % of the run in one of its 20 tasks: task 19 takes 41 s, 41.0 times the"
        " median of the others (1 s), because it reads 400 MiB instead of 10 MiB."
    )
    assert "most frequent values of customer" in found.advice
    # 19 s in 5 waves of 4, before 41 s; then 20 tasks of 3 s.
    assert found.seconds == pytest.approx(45 - 15)
    assert found.gain == pytest.approx(30 / case.length)
    assert found.place.job == 0
    assert found.certainty == Certainty.LIKELY


def test_a_hot_key_again_and_again():
    case = case_of(*([Made(tasks=uneven(11_000, 100), details=JOIN)] for _ in range(5)))
    (found,) = skew(case)
    assert ", like 4 others, " in found.text
    assert found.seconds == pytest.approx(5 * (15 - 7.5))


def test_only_stages_with_more_data_in_their_long_task_are_mended():
    hot, slow = uneven(11_000, 100), uneven(12_000, 10)
    case = case_of(*([Made(tasks=did, details=JOIN)] for did in (hot, slow, hot, slow)))
    (found,) = skew(case)
    # The longest one has no more data.
    assert case.families[0].stages[0] == (1, 0)
    assert found.text.startswith("Stage 0 (join on customer), like 1 other, spends")
    assert found.seconds == pytest.approx(2 * (15 - 7.5))


def few(megabytes: int) -> Made:
    """Three tasks, the longest of which takes 2.8 times as long as the median of the others."""
    tasks = [Did(ms=5_000, read=5 * MIB), Did(ms=11_000, read=6 * MIB)]
    return Made(tasks=[*tasks, Did(ms=22_000, read=megabytes * MIB)])


def test_one_of_few_tasks_is_not_many_times_as_long():
    (found,) = skew(case_of([few(25)]))
    assert found.cause == "skew"
    assert "2.8 times the median of the others" in found.text
    # 14 s are spread over three tasks.
    assert found.seconds == pytest.approx(22 - (11 + 14 / 3))
    assert list(skew(case_of([few(10)]))) == []


def joined(cpu: int, details: tuple[str, ...] = JOIN) -> Made:
    """A long task that reads half as many rows more than the others, and used so many ms of CPU time."""
    others = times(19, 1_000, read=10 * MIB, rows=20_000)
    task = Did(ms=41_000, read=15 * MIB, rows=30_000, cpu=cpu)
    return Made(tasks=[*others, task], details=details)


def test_a_join_multiplies_the_rows_of_a_key():
    (found,) = skew(case_of([joined(40_000)]))
    assert found.cause == "skew"
    assert found.text.endswith(
        "because it reads 30,000 rows instead of 20,000, and the join makes so many rows of them that it takes 40.1"
        " times the CPU time."
    )
    assert "most frequent values of customer" in found.advice
    assert found.seconds == pytest.approx(45 - 15)


@pytest.mark.parametrize(
    "stage",
    [
        pytest.param(joined(2_000), id="it waits rather than computes"),
        pytest.param(joined(40_000, JOIN[2:]), id="no join"),
    ],
)
def test_half_as_many_rows_more_are_no_skew(stage):
    assert list(skew(case_of([stage]))) == []


def test_a_task_that_writes_more_than_it_reads():
    others = times(19, 1_000, read=10 * MIB, rows=1_000, rows_wrote=1_000)
    task = Did(ms=41_000, read=10 * MIB, rows=1_000, rows_wrote=90_000)
    (found,) = skew(case_of([Made(tasks=[*others, task], details=JOIN)]))
    assert found.cause == "skew"
    assert found.text.endswith("because it writes 90,000 rows instead of 1,000.")


def test_a_few_rows_more_are_not_why_a_task_is_long():
    others = times(39, 1_000, read=10 * MIB, rows=1_000, rows_wrote=1)
    task = Did(ms=41_000, read=10 * MIB, rows=1_000, rows_wrote=3)
    (found,) = skew(case_of([Made(tasks=[*others, task])]))
    assert found.cause == "slow-task"
    assert found.text.startswith("Stage 0 (map at job.py:1) spends")
    assert "although it reads and writes no more than they do." in found.text


def test_keys_of_a_plan():
    aggregated = ("ObjectHashAggregate(keys=[a#1, b#2L], functions=[collect_list(x#3, 0, 0)])",)
    case = case_of([Made(tasks=uneven(41_000, 400), details=aggregated)])
    (found,) = skew(case)
    assert "(aggregation by a, b)" in found.text
    window = ("Window [row_number() windowspecdefinition(k#1, v#2 ASC)], [k#1], [v#2 ASC]",)
    (found,) = skew(case_of([Made(tasks=uneven(41_000, 400), details=window)]))
    assert "(window over k)" in found.text


def test_a_slow_task_without_more_data():
    case = case_of([Made(tasks=uneven(21_000, 10, 39))])
    (found,) = skew(case)
    assert found.cause == "slow-task"
    assert found.certainty == Certainty.POSSIBLE
    assert found.seconds == pytest.approx(20, abs=1)


def test_a_slow_task_among_few_or_failed_ones_is_not_named():
    assert list(skew(case_of([Made(tasks=uneven(21_000, 10, 6))]))) == []
    maker = Maker()
    app = maker.made([[Made(tasks=uneven(21_000, 10, 39))]])
    assert len(list(skew(Case(app=app)))) == 1
    maker.add(0, 3, "1", (START + 1_000, START + 1_500), Metrics(run=400), good=False)
    assert list(skew(Case(app=app))) == []


@pytest.mark.parametrize(
    "did",
    [
        pytest.param(uneven(1_900, 400), id="below the ratio"),
        pytest.param(uneven(2_900, 15), id="below the ratio, without twice as much data"),
        pytest.param(
            [Did(ms=did.ms // 100, read=did.read) for did in uneven(41_000, 400)], id="short"
        ),
        pytest.param(
            [*times(10, 1_000), *times(10, 9_000)], id="half of the tasks, without more data"
        ),
        pytest.param(times(20, 1_000, read=MIB), id="even"),
        pytest.param(times(1, 9_000), id="one task"),
    ],
)
def test_no_skew(did):
    assert list(skew(case_of([Made(tasks=did)]))) == []


def test_no_skew_in_a_stream():
    assert list(skew(case_of([Made(tasks=uneven(41_000, 400))], streaming=True))) == []
