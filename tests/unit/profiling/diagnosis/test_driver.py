"""Findings about the driver, on applications made of values. Each has a twin that is healthy."""

from dataclasses import replace

import pytest

from rechannel.profiling.diagnosis.driver import on_driver
from rechannel.profiling.spark.application import Stage
from tests.unit.profiling.diagnosis.made import (
    application,
    execution,
    executor,
    found,
    job,
    node,
    task,
)

MIB = 1 << 20


def jobs_with_gap(gap, **more):
    """Two jobs of 10 s each, and what lies between them."""
    tasks = [task(0, 0, 3_000, 13_000), task(1, 0, 13_000 + gap, 23_000 + gap)]
    jobs = [
        job(0, 3_000, 13_000, stages=(0,)),
        job(1, 13_000 + gap, 23_000 + gap, stages=(1,)),
    ]
    return application(24_000 + gap, tasks, *jobs, **more)


def test_code_of_the_program_between_jobs():
    finding = found(on_driver, jobs_with_gap(8_000))["driver-program"]
    assert finding.gain == pytest.approx(8 / 32)
    assert finding.seconds == 8
    assert "between job 0 (count at etl.py:0) and job 1 (count at etl.py:1)" in finding.text
    assert found(on_driver, jobs_with_gap(700)) == {}


def test_an_idle_session_has_no_fault():
    finding = found(on_driver, jobs_with_gap(100_000, name="PySparkShell"))
    assert list(finding) == ["idle"]
    assert finding["idle"].gain is None
    assert "gives executors back" in finding["idle"].advice
    # It is named before what has less of the time, such as work on rows.
    assert finding["idle"].share == pytest.approx(100 / 124)
    assert found(on_driver, jobs_with_gap(8_000, name="PySparkShell")) == {}


def test_a_local_session_has_no_executors_to_give_back():
    tasks = [task(0, 0, 3_000, 13_000, executor="driver")]
    app = application(100_000, tasks, job(0, 3_000, 13_000, stages=(0,)), name="Spark shell")
    finding = found(on_driver, app)["idle"]
    assert finding.advice == "Nothing has to change in the program."


def test_a_notebook_is_known_by_where_it_calls_spark():
    app = jobs_with_gap(100_000)
    cell = replace(app.jobs[0], site="toPandas at /tmp/ipykernel_7/12.py:3")
    assert list(found(on_driver, replace(app, jobs={**app.jobs, 0: cell}))) == ["idle"]


def test_a_shell_is_known_by_its_stages_too():
    app = jobs_with_gap(100_000)
    stage = Stage(number=1, name="textFile (count at <console>:22)")
    assert list(found(on_driver, replace(app, stages={(1, 0): stage}))) == ["idle"]


def test_a_log_without_a_job_has_nothing_to_gain():
    finding = found(on_driver, application(90_000, []))["driver-program"]
    assert finding.gain is None
    assert "nothing ran on executors in its 90 s" in finding.text
    assert found(on_driver, application(90_000, [], execution(0, 1_000, 1_500))) == {}


def test_a_shell_without_executors_does_not_start_up():
    def app(**more):
        return application(
            120_000,
            [task(0, 0, 106_000, 119_000)],
            executor("1", 105_000),
            job(0, 100_000, 120_000, stages=(0,)),
            **more,
        )

    assert "start-up" in found(on_driver, app())
    shell = found(on_driver, app(name="Spark shell"))
    assert "start-up" not in shell
    assert shell["idle"].share == pytest.approx(100 / 120)


@pytest.mark.parametrize(("requested", "causes"), [("0", {"driver-program"}), ("2", {"start-up"})])
def test_executors_that_nobody_asked_for_do_not_come_late(requested, causes):
    settings = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.minExecutors": requested,
    }
    app = application(
        120_000,
        [task(0, 0, 101_000, 119_000)],
        executor("1", 100_500),
        job(0, 100_000, 120_000, stages=(0,)),
        settings=settings,
    )
    assert set(found(on_driver, app)) == causes


def test_the_start_of_a_short_application_is_no_fault():
    app = application(
        12_000,
        [task(0, 0, 11_000, 11_500)],
        executor("1", 5_000),
        job(0, 11_000, 11_600, stages=(0,)),
    )
    assert found(on_driver, app) == {}


def test_a_long_start():
    app = application(
        100_000,
        [task(0, 0, 70_000, 99_000)],
        executor("1", 60_000),
        job(0, 70_000, 99_000, stages=(0,)),
    )
    finding = found(on_driver, app)["start-up"]
    assert finding.gain == pytest.approx(0.3)
    assert "60 s for its first executor" in finding.text


@pytest.mark.parametrize(("dynamic", "gain"), [(True, 0.4), (False, 0.2)])
def test_a_job_without_an_executor(dynamic, gain):
    settings = {"spark.dynamicAllocation.enabled": "true"} if dynamic else {}
    app = application(
        50_000,
        [task(0, 0, 22_000, 49_000)],
        executor("1", 22_000),
        job(0, 2_000, 49_000, stages=(0,)),
        settings=settings,
    )
    finding = found(on_driver, app)["late-executors"]
    assert finding.gain == pytest.approx(gain)
    assert ("initialExecutors" in finding.advice) == dynamic


def test_executors_that_come_while_others_work():
    def app(late, **gone):
        tasks = [task(0, 0, 2_000, 42_000), task(0, 1, 2_000, 42_000)]
        others = [executor("1", 1_000, **gone), executor("2", late)]
        return application(43_000, tasks, *others, job(0, 2_000, 42_000, stages=(0,)))

    finding = found(on_driver, app(32_000))["late-executors"]
    # For 30 s half of the cores were missing.
    assert finding.seconds == pytest.approx(15)
    assert "1 executor came late, the last one 30 s after the first job began" in finding.text
    assert found(on_driver, app(3_000)) == {}
    # It took the place of another one.
    assert found(on_driver, app(32_000, removed=31_000)) == {}
    # The next one took nobody's: for 30.5 s half of the cores were missing.
    two = app(32_000, removed=31_000)
    two = replace(two, executors={**two.executors, "3": executor("3", 32_500)})
    finding = found(on_driver, two)["late-executors"]
    assert "1 executor came late, the last one 30.5 s after" in finding.text
    assert finding.seconds == pytest.approx(30.5 / 2)


@pytest.mark.parametrize(("cores", "causes"), [(2, {"late-executors"}), (3, set())])
def test_executors_that_come_while_cores_are_free(cores, causes):
    app = application(
        43_000,
        [task(0, 0, 2_000, 42_000), task(0, 1, 2_000, 42_000)],
        executor("1", 1_000, cores=cores),
        executor("2", 32_000),
        job(0, 2_000, 42_000, stages=(0,)),
    )
    assert set(found(on_driver, app)) == causes


def planned(ms, plan=None, before=0):
    """An execution that is planned for some time, after one of 10 s."""
    first = execution(0, 2_000, 12_000)
    second = execution(1, 12_000 + before, 22_000 + ms + before, plan=plan)
    begin = 12_000 + before + ms
    return application(
        24_000 + ms + before,
        [task(0, 0, 2_100, 11_900), task(1, 0, begin, begin + 9_000)],
        first,
        second,
        job(0, 2_000, 12_000, execution=0, stages=(0,)),
        job(1, begin, begin + 10_000, execution=1, stages=(1,)),
    )


def test_planning_that_takes_long():
    wide = node("Project", "Project [a#1, b#2, ... 998 more fields]")
    finding = found(on_driver, planned(8_000, wide))["planning"]
    assert finding.seconds == pytest.approx(7.8)
    assert finding.place.execution == 1
    assert "SQL execution 1 (query 1) takes 8 s to plan" in finding.text
    assert "1,000 expressions" in finding.text
    assert found(on_driver, planned(900, wide)) == {}
    assert "Make the plan smaller" in finding.advice
    small = found(on_driver, planned(8_000, node("ShowNamespaces", "ShowNamespaces")))["planning"]
    assert small.advice.startswith("Its plan is small")


def test_the_first_execution_takes_long_to_plan_because_classes_are_compiled():
    def app(first):
        tasks = [task(0, 0, 2_000 + first, 12_000), task(1, 0, 16_000, 25_000)]
        return application(
            26_000,
            tasks,
            execution(0, 2_000, 12_000),
            job(0, 2_000 + first, 12_000, execution=0, stages=(0,)),
            execution(1, 12_000, 25_100),
            job(1, 16_000, 25_000, execution=1, stages=(1,)),
        )

    # As much of it as the second one takes counts.
    assert found(on_driver, app(8_000))["planning"].seconds == pytest.approx(2 * 3.8)
    assert found(on_driver, app(1_200))["planning"].seconds == pytest.approx(3.8 + 1)
    assert found(on_driver, app(300))["planning"].seconds == pytest.approx(3.8)


def test_a_wide_plan_that_is_built_before_its_execution():
    wide = node("Project", "Project [a#1, b#2, ... 998 more fields]")
    finding = found(on_driver, planned(500, wide, before=6_000))
    assert list(finding) == ["planning"]
    assert finding["planning"].seconds == pytest.approx(6.3)
    # A narrow plan takes no time: this is the program.
    narrow = found(on_driver, planned(500, node("Project", "Project [a#1]"), before=6_000))
    assert list(narrow) == ["driver-program"]


def broadcasting(ms, **more):
    """A join that waits for its broadcast side to be built."""
    side = node(
        "BroadcastExchange",
        metrics={"data size": 1, "number of output rows": 2, "time to build": 3},
    )
    join = node(
        "BroadcastHashJoin", "BroadcastHashJoin [key#1], [key#2], Inner", node("Scan"), side
    )
    end = 10_000 + ms
    return application(
        end + 11_000,
        [task(0, 0, 3_000, 9_900), task(1, 0, end, end + 9_900)],
        execution(0, 2_900, end + 10_000, plan=join, metrics={1: 300 * MIB, 2: 5_000_000, 3: ms}),
        job(0, 3_000, 10_000, execution=0, stages=(0,), broadcast=True),
        job(1, end, end + 10_000, execution=0, stages=(1,)),
        **more,
    )


def test_building_a_broadcast():
    finding = found(on_driver, broadcasting(7_000))["broadcast-building"]
    assert finding.seconds == pytest.approx(7, abs=0.5)
    assert "The broadcast side of the join on key has 5,000,000 rows and 300 MiB" in finding.text
    assert found(on_driver, broadcasting(300)) == {}


def test_tasks_that_wait_for_the_driver_to_take_a_side():
    app = application(
        30_000,
        [
            # A quarter of their time is computing.
            task(0, 0, 2_000, 10_000, cpu=2_000, result=200 * MIB),
            task(1, 0, 10_000, 29_000),
        ],
        execution(0, 2_000, 29_500),
        job(0, 2_000, 10_000, execution=0, stages=(0,), broadcast=True),
        job(1, 10_000, 29_000, execution=0, stages=(1,)),
    )
    assert found(on_driver, app)["broadcast-building"].seconds == pytest.approx(5.7)


def collecting(size, ms):
    """A job whose results the program decodes, and a job after it."""
    begin = 12_000 + ms
    return application(
        begin + 11_000,
        [task(0, 0, 2_000, 12_000, result=size), task(1, 0, begin, begin + 10_000)],
        execution(0, 1_900, 12_000 + ms // 2),
        job(0, 2_000, 12_000, execution=0, stages=(0,), site="collect at etl.py:7"),
        job(1, begin, begin + 10_000, stages=(1,)),
    )


def test_results_that_the_driver_collects():
    finding = found(on_driver, collecting(80 * MIB, 9_000))
    assert list(finding) == ["collecting-results"]
    assert finding["collecting-results"].seconds == pytest.approx(9)
    assert "80 MiB of rows of job 0 (collect at etl.py:7)" in finding["collecting-results"].text
    # Ten rows are not decoded for seconds.
    assert "collecting-results" not in found(on_driver, collecting(1_000, 9_000))
    assert found(on_driver, collecting(80 * MIB, 400)) == {}


def test_results_that_are_fetched_while_the_job_runs():
    app = application(
        20_000,
        [task(0, 0, 2_000, 20_000, run=8_000, getting=10_000, result=900 * MIB)],
        job(0, 2_000, 20_000, stages=(0,)),
    )
    assert found(on_driver, app)["collecting-results"].seconds == pytest.approx(10, abs=0.1)


def committing(ms):
    return application(
        14_000 + ms,
        [task(0, 0, 3_000, 13_000)],
        execution(0, 2_900, 13_000 + ms, writes=True),
        job(0, 3_000, 13_000, execution=0, stages=(0,)),
    )


def test_commits_of_files():
    finding = found(on_driver, committing(9_000))["commit"]
    assert finding.seconds == pytest.approx(8)
    assert "SQL execution 0 (query 0) with 9 s" in finding.text
    assert found(on_driver, committing(1_000)) == {}


def test_listing_of_files_by_a_job_and_by_the_driver():
    scan = node("Scan parquet", metrics={"metadata time": 5})
    app = application(
        40_000,
        [task(0, 0, 2_000, 7_900), task(1, 0, 20_000, 39_000)],
        job(
            0,
            2_000,
            8_000,
            stages=(0,),
            description="Listing leaf files and directories for 99 paths",
        ),
        execution(0, 8_000, 39_500, plan=scan, metrics={5: 10_000}),
        job(1, 20_000, 39_000, execution=0, stages=(1,)),
    )
    finding = found(on_driver, app)["file-listing"]
    assert finding.seconds == pytest.approx(16)
    assert finding.place.job == 0


def test_a_log_without_its_beginning():
    app = replace(jobs_with_gap(8_000), start=0)
    finding = found(on_driver, app)["driver-program"]
    # It begins with the registration of its executor, half a second after the start.
    assert finding.gain == pytest.approx(8 / 31.5)
