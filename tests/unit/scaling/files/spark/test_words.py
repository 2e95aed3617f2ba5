"""What is advised, in whole sentences."""

from dataclasses import replace

from rechannel.scaling.files.request import Request
from rechannel.scaling.files.spark.advice import JobsAdvice, LogAdvice, Replayed
from rechannel.scaling.files.spark.reader import advice_of
from rechannel.scaling.files.spark.words import as_record, sentences
from tests.unit.scaling.files.spark.streams import counts


def told(app, **asked):
    return list(sentences(advice_of(app, Request(**asked), title="made")))


def test_a_stream_that_is_too_slow():
    app = counts(cores=1, partitions=1, rate=3_000)
    first, predicted, now, measured, *stages = told(app, interval_ms=4_000)
    assert first.startswith("orders: for 3,0")
    assert first.endswith(
        "rows per second (as measured) in batches every 4.0 s (as given), use 2 cores instead of 1 and 2 shuffle"
        " partitions instead of 1."
    )
    assert predicted.startswith("A batch will take 3.1 s (")
    assert (
        "within the 80% that may be used; most of it is Exchange ... StateStoreSave." in predicted
    )
    assert now.startswith("With what it had, it takes 5.8 s (")
    assert "it falls behind" in now
    assert measured.startswith("Measured: ")
    assert stages[0].startswith("Scan ... Exchange: 2 tasks of ")
    assert stages[-1] == (
        "The state has 1 partition, and its checkpoint keeps that number: other shuffle partitions need a new"
        " checkpoint, so the state is built anew."
    )


def test_a_stream_that_stays_as_it_is():
    text = told(counts(cores=2, partitions=2, rate=2_000))
    assert text[0].endswith("keep 2 cores and 2 shuffle partitions.")
    assert not any(each.startswith(("With what it had", "The state has")) for each in text)


def test_a_stream_without_shuffles_has_no_partitions():
    app = counts(rate=1_000)
    own = {key: replace(each, parents=()) for key, each in app.stages.items()}
    first = told(replace(app, stages=own))[0]
    assert first.endswith("use 1 core instead of 2.")


def test_tasks_that_hardly_work_in_java_are_named():
    app = counts(rate=1_000, waits=lambda _: 900)
    assert any("their Java threads worked for 34% of that" in each for each in told(app))
    assert not any("Java" in each for each in told(counts()))


def test_executors_are_named_where_there_are_some():
    app = counts(cores=2, partitions=2, rate=2_000)
    assert "use 2 cores" not in told(app, executor_cores=1)[0]
    assert "keep 2 cores (2 executors)" in told(app, executor_cores=1)[0]


def test_batch_jobs():
    one = Replayed(cores=1, executors=0, seconds=80.0, core_seconds=80.0)
    jobs = JobsAdvice(
        now=one,
        advised=replace(one, cores=4, executors=2, seconds=21.0),
        least_seconds=20.5,
        others=(),
        busy=0.75,
    )
    made = LogAdvice(
        title="etl", cores=1, executors=0, executor_cores=2, queries=(), jobs=jobs, notes=()
    )
    assert list(sentences(made)) == [
        "4 cores are enough (2 executors): 21.0 s, and with any number at least 20.5 s.",
        "With 1 core it took 80.0 s, and tasks ran for 75% of their time.",
    ]
    record = as_record(made)
    assert record["kind"] == "spark"
    assert record["jobs"]["advised"]["cores"] == 4
    assert record["sentences"] == list(sentences(made))
