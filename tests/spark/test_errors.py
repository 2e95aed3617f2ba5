"""Bad input and bad luck: every message names the thing and what to do, and nothing that was committed is lost."""

import inspect
import json
import os
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import (
    DamagedStateError,
    DataflowError,
    JavaError,
    MissingFileError,
    NewerFormatError,
    NonDeterministicError,
    OtherDataflowError,
    SchemaDriftError,
    SerialisationError,
    StateInUseError,
    UserFunctionError,
)
from rechannel.state.sealed import seal
from tests.spark.programs import (
    as_bytes,
    as_it_is,
    entries,
    journal_of,
    run,
    run_in_process,
    start,
    states,
)

PER_TIMESTEP = 100
OPERATORS = ("sums", "seen")
BAD = 250
"""Number of the booking that bad functions do not like: it is in the third timestep."""


def count(key, state, rows):
    return (state or 0) + len(rows)


def flows(timesteps=6, front=as_it_is, update=count, key="account"):
    source = rc.read().generator(
        entries, schema="number BIGINT, account BIGINT, amount DOUBLE",
        rows=timesteps * PER_TIMESTEP, per_timestep=PER_TIMESTEP, partitions=2, name="entries",
    ).map_batches(front, name="front")  # fmt: skip
    sums = source.key_by(key).aggregate(n=agg.count(), total=agg.sum("amount"), name="sums")
    seen = source.key_by(key).track(update, state="seen BIGINT", name="seen")
    return [sums, seen]


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """State of an undisturbed run."""
    return states(run_in_process(flows(), tmp_path_factory.mktemp("good") / "state"), OPERATORS)


# The user's own functions --------------------------------------------------------------------------------------


def bad_front(batch):
    if BAD in batch.column("number").to_pylist():
        raise ZeroDivisionError("the front does not like it")
    return batch


def bad_update(key, state, rows):
    if BAD in rows["number"]:
        raise KeyError("the update does not like it")
    return count(key, state, rows)


def picky(key, state, rows):
    if 3 in rows["number"]:
        raise KeyError("not the first one")
    return count(key, state, rows)


def test_rows_that_functions_do_not_like_are_dead_letters_and_the_others_go_on(spark, tmp_path):
    source = rc.read().generator(
        entries, schema="number BIGINT, account BIGINT, amount DOUBLE",
        rows=6 * PER_TIMESTEP, per_timestep=PER_TIMESTEP, partitions=2, name="entries",
    ).map_batches(bad_front, name="front", on_error="dead_letter")  # fmt: skip
    seen = source.key_by("account").track(
        picky, state="seen BIGINT", name="seen", on_error="dead_letter"
    )
    dead = source.dead_letters.union(seen.dead_letters)
    job = run(spark, [seen, dead.write.parquet(tmp_path / "dead", name="dead")], tmp_path / "state")
    letters = spark.read.parquet(str(tmp_path / "dead")).orderBy("timestep").collect()
    first, second = ((row.timestep, row.operator, row.error) for row in letters)
    assert second == (3, "front", "ZeroDivisionError: the front does not like it")
    assert first[:2] == (1, "seen")
    assert "not the first one" in first[2]
    assert [json.loads(row.row)["number"] for row in letters] == [3, BAD]
    counts = {row["account"]: row["seen"] for row in job.state_table("seen").to_pylist()}
    assert sum(counts.values()) == 6 * PER_TIMESTEP - 2


def wrong_columns(batch):
    return (
        batch.select(["number", "account"]) if BAD in batch.column("number").to_pylist() else batch
    )


BAD_FUNCTIONS = {
    "front": ({"front": bad_front}, "front", "ZeroDivisionError: the front does not like it"),
    "update": ({"update": bad_update}, "seen", "the update does not like it"),
    "columns": ({"front": wrong_columns}, "front", "['amount'] are declared"),
}


@pytest.mark.parametrize("in_flight", [pytest.param(1, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize(
    "which",
    [pytest.param(name, marks=[pytest.mark.slow] * (name != "update")) for name in BAD_FUNCTIONS],
)
def test_a_user_function_that_fails(spark, state, good, which, in_flight):
    functions, operator, complaint = BAD_FUNCTIONS[which]
    job = start(spark, flows(**functions), state, in_flight=in_flight)
    with pytest.raises(UserFunctionError) as failure:
        job.await_termination(300)
    message = str(failure.value)
    assert complaint in message
    assert f"{operator!r}" in message
    assert "timestep 3" in message
    if which != "columns":
        function = next(iter(functions.values()))
        assert f'File "{__file__}"' in message
        assert f"in {function.__name__}" in message
        assert "raise " in message, "the user's own line"
    assert not job.is_active
    assert job.status.message.startswith("failed: ")
    assert type(job.exception) is UserFunctionError
    assert journal_of(state).last_committed in ([2] if in_flight == 1 else [None, 1, 2])
    fixed = run(spark, flows(), state)
    assert fixed.status.timestep == 6
    assert states(fixed, OPERATORS) == good


def test_a_transform_that_does_not_fit(spark, state):
    stream = (
        rc.read()
        .generator(entries, schema="number BIGINT", rows=1)
        .transform(lambda df: df.select("nothing"), name="select")
    )
    end = stream.write.noop()
    with pytest.raises(DataflowError, match=r"'select' .*test_errors.py:\d+.*nothing"):
        start(spark, end, state)
    assert not state.exists(), "nothing is left behind by a refusal"


def test_a_transform_that_cannot_be_replayed(spark, state):
    stream = rc.read().generator(entries, schema="number BIGINT", rows=1)
    line = inspect.currentframe().f_lineno + 1
    drawn = stream.transform(lambda df: df.withColumn("r", F.rand()), name="draw")
    with pytest.raises(NonDeterministicError, match=rf"'draw' .*test_errors.py:{line}.*rand\("):
        start(spark, drawn.write.noop(), state)
    assert not state.exists()


def test_a_function_that_cannot_be_sent(spark, state):
    lock = threading.Lock()

    def guarded(batch):
        with lock:
            return batch

    with pytest.raises(SerialisationError, match=r"'front' .*test_errors.py:\d+.*guarded.*'lock'"):
        start(spark, flows(front=guarded), state)
    assert not state.exists()


# The state directory -------------------------------------------------------------------------------------------


def test_a_directory_of_another_dataflow(spark, state, good):
    run_in_process(flows(2), state)
    before = journal_of(state)
    with pytest.raises(OtherDataflowError, match=r"'ledger'.*'other'|'other'.*'ledger'"):
        start(spark, flows(), state, name="other")
    with pytest.raises(OtherDataflowError, match="sums"):
        start(spark, flows(key="number"), state)
    assert journal_of(state) == before
    assert states(run_in_process(flows(), state), OPERATORS) == good


def test_a_directory_in_use(spark, state, good):
    job = start(spark, flows(), state)
    with pytest.raises(StateInUseError, match=rf"process {os.getpid()} .*takeover=True"):
        start(spark, flows(), state)
    job.process_all_available(300)
    job.stop()
    assert journal_of(state).epoch == 1
    assert states(job, OPERATORS) == good


def newest(state, pattern):
    return sorted(Path(state).glob(pattern))[-1]


def newer_format(path):
    """The same record as a later version would write it."""
    record = json.loads(path.read_bytes())
    del record["xxh3"]
    path.write_bytes(seal({**record, "format": 99}))


@pytest.mark.parametrize("which", ["dataflow.json", "journal/*.json"])
def test_a_directory_of_a_newer_version(spark, state, which):
    run_in_process(flows(2), state)
    newer_format(newest(state, which))
    before = sorted(path.name for path in state.rglob("*") if path.is_file())
    with pytest.raises(NewerFormatError, match="format 99") as refusal:
        start(spark, flows(), state)
    assert newest(state, which).name in str(refusal.value)
    assert sorted(path.name for path in state.rglob("*") if path.is_file()) == before


def flip(path, where=0.5):
    """Change one byte of a file."""
    data = bytearray(path.read_bytes())
    data[int(len(data) * where)] ^= 0xFF
    path.write_bytes(data)


def remove(path):
    path.unlink()


@pytest.mark.parametrize("damage", [flip, remove])
def test_a_journal_entry_that_is_not_what_was_written(spark, state, good, damage):
    run_in_process(flows(2), state)
    victim = sorted(state.glob("journal/*.json"))[-3]
    whole = victim.read_bytes()
    damage(victim)
    with pytest.raises(DamagedStateError, match=victim.stem):
        start(spark, flows(), state)
    victim.write_bytes(whole)
    assert states(run_in_process(flows(), state), OPERATORS) == good


@pytest.mark.parametrize(
    ("damage", "error"),
    [pytest.param(flip, DamagedStateError, marks=pytest.mark.slow), (remove, MissingFileError)],
)
def test_a_segment_that_is_not_what_was_written(spark, state, good, damage, error):
    run_in_process(flows(2), state)
    held = {segment for m in journal_of(state).manifests.values() for segment in m.segments()}
    victim = state / sorted(key for key in held if "/sums/" in key)[0]
    whole = victim.read_bytes()
    damage(victim)
    job = start(spark, flows(), state)
    with pytest.raises(DamagedStateError) as failure:
        job.process_all_available(300)
    assert type(failure.value) is error
    message = str(failure.value)
    assert victim.name in message
    assert "'sums'" in message
    assert "timestep 3" in message
    assert journal_of(state).last_committed == 2
    victim.write_bytes(whole)
    assert states(run(spark, flows(), state), OPERATORS) == good


# Sources -------------------------------------------------------------------------------------------------------


def table(start, stop):
    return pa.Table.from_batches([entries(start, stop)])


def put(place, number, rows):
    place.mkdir(exist_ok=True)
    path = place / f"{number}.parquet"
    pq.write_table(rows, path)
    os.utime(path, (number + 1, number + 1))
    return path


@pytest.mark.parametrize("transformed", [False, True])
def test_a_file_whose_columns_drifted(spark, state, tmp_path, transformed):
    place = tmp_path / "in"
    for number in range(2):
        put(place, number, table(number * 100, number * 100 + 100))

    def dataflow():
        stream = rc.read(spark).files(place, format="parquet", per_timestep=1, name="files")
        if transformed:
            stream = stream.transform(lambda df: df.where("amount < 1e300"))
        return stream.key_by("account").aggregate(total=agg.sum("amount"), name="sums")

    run(spark, dataflow(), state)
    drifted = table(200, 300).set_column(2, "amount", pa.array(["?"] * 100))
    victim = put(place, 2, drifted)
    put(place, 3, table(300, 400))
    job = start(spark, dataflow(), state)
    with pytest.raises(SchemaDriftError, match=rf"'amount' of {victim} .*string.*double"):
        job.process_all_available(300)
    assert journal_of(state).last_committed == 2
    put(place, 2, table(200, 300))
    done = run(spark, dataflow(), state)
    assert done.status.timestep == 4
    assert as_bytes(done.state_table("sums")) == as_bytes(
        run(spark, dataflow(), tmp_path / "again").state_table("sums")
    )


# Java ----------------------------------------------------------------------------------------------------------


def fake_java(place, says):
    """A `java` that says a version."""
    program = place / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    return place


def test_java_is_missing(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaError, match=r"no `java` on the PATH.*17 or newer"):
        rc.session()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(JavaError, match=r"JAVA_HOME=.*nowhere"):
        rc.session()


@pytest.mark.parametrize(
    ("says", "version"),
    [('openjdk version "11.0.22" 2024-01-16', 11), ('java version "1.8.0_392"', 8)],
)
@pytest.mark.parametrize("by", ["JAVA_HOME", "PATH"])
def test_java_is_too_old(monkeypatch, tmp_path, says, version, by):
    home = fake_java(tmp_path / "jdk", says)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv(by, str(home if by == "JAVA_HOME" else home / "bin"))
    with pytest.raises(JavaError, match=rf"is Java {version}; Spark needs Java 17"):
        rc.session()
