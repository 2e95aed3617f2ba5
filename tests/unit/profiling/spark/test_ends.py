"""When an application, its executors and its streams end."""

from rechannel.profiling.spark.log import SparkLog
from tests.unit.profiling.logs import START, info, line, small, task_end
from tests.unit.profiling.spark.test_facts import facts, streaming


def removed(at, reason):
    told = {"Timestamp": START + at, "Executor ID": "1", "Removed Reason": reason}
    return line("ExecutorRemoved", **told)


def test_executors_that_go_after_the_end_are_not_lost_even_if_a_task_ends_later():
    late = task_end(1, info(5, "1", 700, 840, Killed=True), None, "TaskKilled")
    log = SparkLog().read([*small(), removed(820, "worker lost"), late])
    found = log.facts()
    assert found.end == START + 840
    assert (found.executors["1"].removed, found.executors["1"].lost) == (START + 820, False)
    (before,) = SparkLog().read([*small(), removed(790, "worker lost")]).facts().executors.values()
    assert before.lost


def test_an_application_that_was_killed_lasts_as_long_as_its_executors():
    whole = [each for each in small() if b"ApplicationEnd" not in each and b"JobEnd" not in each]
    assert SparkLog().read(whole).facts().end == START + 700
    assert SparkLog().read([*whole, removed(60_000, "lost")]).facts().end == START + 60_000
    # One that ended does not: executors take their time.
    assert SparkLog().read([*small(), removed(60_000, "lost")]).facts().end == START + 800


def test_a_run_of_a_stream_is_over_when_the_next_one_begins():
    def began(second):
        return streaming("Started", id="q", timestamp=f"2023-11-14T22:13:{second}.000Z")

    (stream,) = facts(began(21), began(40), began(50)).streams.values()
    seconds = [tuple((time - START) / 1_000 for time in run) for run in stream.earlier]
    assert seconds == [(1, 20), (20, 30)]
    assert (stream.start, stream.end) == (START + 30_000, 0)
