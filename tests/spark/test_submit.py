"""`rechannel run` under a real `spark-submit`: its settings hold, and the JVM that it starts stops gracefully."""

from __future__ import annotations

import json
import signal
import time

import pyarrow.parquet as pq
import pytest

from tests.spark.programs import PATIENCE, journal_of
from tests.spark.submitting import Submitted, program

pytestmark = pytest.mark.slow

QUIET = ["--conf", "spark.ui.enabled=false", "--conf", "spark.log.level=ERROR"]
LOCAL = ["--master", "local[2,4]", *QUIET]


@pytest.fixture
def submit(tmp_path):
    """Start one; what is left of it is ended."""
    made = []

    def call(options, arguments, **environment):
        made.append(Submitted(tmp_path, options, arguments, environment))
        return made[-1]

    yield call
    for each in made:
        each.kill()


def totals(place):
    """The last value of each key: count and sum."""
    found = {}
    for folder in sorted((place / "out").glob("timestep=*")):
        for file in folder.glob("*.parquet"):
            for row in pq.ParquetFile(file).read().to_pylist():
                found[row["k"]] = (row["n"], row["s"])
    return found


def expected(rows):
    numbers = range(rows)
    return {k: (len(numbers[k::7]), sum(numbers[k::7])) for k in range(7)}


def test_its_settings_hold(submit, tmp_path):
    """Master, name, and what `rc.session` would set otherwise."""
    more = (
        '\nassert spark.sparkContext.master == "local[2,3]", spark.sparkContext.master'
        '\nassert spark.sparkContext.appName == "orders", spark.sparkContext.appName'
        '\nassert spark.conf.get("spark.sql.adaptive.enabled") == "true"'
        '\nassert spark.conf.get("spark.python.unix.domain.socket.enabled") == "true"\n'
    )
    path = program(tmp_path)
    path.write_text(path.read_text() + more)
    options = ["--master", "local[2,3]", "--name", "orders", *QUIET]
    options += ["--conf", "spark.sql.adaptive.enabled=true"]
    done = submit(options, ["run", str(path), "--until-idle"])
    assert done.ended() == 0, done.said()[-4_000:]
    assert totals(tmp_path) == expected(6_000)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ('"yarn"', "spark.master is 'local[2,4]' there and 'yarn' in the program"),
        ('spark__driver__memory="4g"', "spark.driver.memory is '600m' there and '4g'"),
        ('spark__driver__memoryOverhead="1g"', "spark.driver.memoryOverhead='1g' comes too late"),
    ],
)
def test_a_contradiction_is_refused_before_anything_runs(submit, tmp_path, asked, said):
    path = program(tmp_path, session=asked)
    done = submit(LOCAL, ["run", str(path), "--until-idle"])
    assert done.ended() == 2
    assert "spark-submit and rc.session contradict each other" in done.said()
    assert said in done.said()
    assert not (tmp_path / "state").exists()


def test_the_same_master_in_the_program_is_no_contradiction(submit, tmp_path):
    path = program(tmp_path, session='"local[2]"')
    done = submit(LOCAL, ["run", str(path), "--until-idle"])
    assert done.ended() == 0, done.said()[-4_000:]


def stopped(place):
    """The journal after an orderly end: nothing is open, everything is published."""
    state = journal_of(place / "state")
    assert not state.open_intents, state.open_intents
    assert state.last_committed
    published = [folder.name for folder in (place / "out").glob("timestep=*")]
    assert len(published) == state.last_committed
    return state.last_committed


def test_sigterm_to_its_jvm_finishes_the_timesteps_in_flight(submit, tmp_path):
    path = program(tmp_path, rows=None, more=", rows_per_second=2_000")
    running = submit(LOCAL, ["run", str(path)])
    running.until_committed(3)
    running.send(signal.SIGTERM)
    running.until_said("stopping: finishing and publishing the timesteps in flight")
    assert running.ended() == 0, running.said()[-4_000:]
    timesteps = stopped(tmp_path)
    assert "job 'sums' stopped" in running.said()
    # The next one goes on from there.
    again = submit(LOCAL, ["run", str(path)])
    again.until_committed(timesteps + 1)
    again.send(signal.SIGTERM)
    assert again.ended() == 0, again.said()[-4_000:]
    assert stopped(tmp_path) > timesteps


def test_sigterm_to_every_process_at_once_is_one_request(submit, tmp_path):
    """As service managers and terminals do it."""
    path = program(tmp_path, rows=None, more=", rows_per_second=2_000")
    running = submit(LOCAL, ["run", str(path)])
    running.until_committed(3)
    running.send_to_all(signal.SIGTERM)
    assert running.ended() == 0, running.said()[-4_000:]
    stopped(tmp_path)


def test_a_service_without_spark_submit_stops_as_gracefully(tmp_path):
    """Its JVM receives SIGTERM together with Python, and passes it on in place of ending."""
    path = program(tmp_path, rows=None, more=", rows_per_second=2_000", session='"local[2]"')
    running = Submitted(tmp_path, [], ["run", str(path)], plain=True)
    try:
        running.until_committed(3)
        running.send_to_all(signal.SIGTERM)
        assert running.ended() == 0, running.said()[-4_000:]
    finally:
        running.kill()
    stopped(tmp_path)


def test_a_second_sigterm_ends_at_once(submit, tmp_path):
    hangs = "\n\ndef where(batch):\n    import time\n    time.sleep(600)\n    return batch\n\n"
    path = program(tmp_path, rows=None)
    path.write_text(path.read_text().replace("\n\nspark = ", f"{hangs}\nspark = "))
    running = submit(LOCAL, ["run", str(path)])
    running.until_said("starting job 'sums'")
    end = time.monotonic() + PATIENCE
    while not (
        journal_of(tmp_path / "state").open_intents if (tmp_path / "state").exists() else ()
    ):
        assert time.monotonic() < end
        assert running.process.poll() is None, running.said()[-4_000:]
        time.sleep(0.1)
    while "stopping: finishing" not in running.said():
        running.send(signal.SIGTERM)
        time.sleep(2)
        assert time.monotonic() < end
    if running.process.poll() is None:
        running.send(signal.SIGTERM)
    assert running.ended() == 143
    state = journal_of(tmp_path / "state")
    assert (len(state.open_intents), state.last_committed or 0) == (1, 0)


def test_the_bound_of_a_stop_ends_it(submit, tmp_path):
    hangs = "\n\ndef where(batch):\n    import time\n    time.sleep(600)\n    return batch\n\n"
    path = program(tmp_path, rows=None)
    path.write_text(path.read_text().replace("\n\nspark = ", f"{hangs}\nspark = "))
    running = submit(LOCAL, ["run", str(path), "--stop-timeout", "1s", "--serve", "127.0.0.1:0"])
    running.until_said("serving it at")
    running.send(signal.SIGTERM)
    assert running.ended() == 2
    assert "has not ended in 1.0 s" in running.said()


def test_json_lines_are_not_mixed_with_messages(submit, tmp_path):
    path = program(tmp_path, rows=2_000)
    done = submit(LOCAL, ["run", str(path), "--until-idle", "--json"])
    assert done.ended() == 0, done.said()[-4_000:]
    lines = [line for line in done.said().splitlines() if line.startswith("{")]
    assert [json.loads(line)["timestep"] for line in lines] == [1, 2]
