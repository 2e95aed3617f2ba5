from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from rich.console import Console

import rechannel as rc
from rechannel.cli.jobs.live import Watcher
from rechannel.cli.program import find_job, load, split_target
from rechannel.control.loading import Wanted
from rechannel.errors import DataflowError, RechannelError, RefusedError
from rechannel.running import RunningJob
from rechannel.serve.allowed import Allowed
from rechannel.telemetry.facts import OperatorProgress, TimestepProgress
from tests.support.controllers import shop_control

pytestmark = pytest.mark.usefixtures("clean_imports")

PROGRAM = """
from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

import neighbour
import rechannel as rc


@dataclass
class Crowd:
    size: int


CROWD = Crowd(3)


def clicks(start: int, stop: int) -> pa.RecordBatch:
    numbers = range(start, stop)
    return pa.record_batch({"user": [f"u{neighbour.turn(n) % CROWD.size}" for n in numbers]})


def users(name, state, **limits):
    stream = rc.read().generator(clicks, schema="user STRING", per_timestep=100, **limits)
    counted = stream.key_by("user").aggregate(n=rc.aggregates.count(), name="users")
    return rc.Job(name, counted, state=state)
"""

NEIGHBOUR = "def turn(number):\n    return number + 1\n"


@pytest.fixture
def program(tmp_path):
    """Write a program of the common part and more lines; its path."""

    def write(more: str, name: str = "clicks.py"):
        (tmp_path / "neighbour.py").write_text(NEIGHBOUR)
        path = tmp_path / name
        path.write_text(PROGRAM + more.replace("STATE", repr(str(tmp_path / "state"))))
        return path

    yield write
    sys.modules.pop("neighbour", None)


def test_a_target_is_a_file_and_perhaps_a_name(tmp_path):
    file = tmp_path / "a.py"
    file.touch()
    odd = tmp_path / "b.py:job"
    odd.touch()
    assert split_target(str(file)) == (file, None)
    assert split_target(f"{file}:job") == (file, "job")
    assert split_target(str(odd)) == (odd, None)
    for wrong in (tmp_path / "none.py", tmp_path, f"{file}:", f"{tmp_path}/none.py:job"):
        with pytest.raises(RefusedError, match="there is no file"):
            split_target(str(wrong))


def test_the_one_job_is_found_whatever_it_is_called(program):
    module = load(program("flow = users('one', STATE)\nagain = flow\n", "two-words.py"))
    assert find_job(module, None).name == "one"
    assert find_job(module, "again").name == "one"


def test_which_of_several_jobs_must_be_said(program):
    module = load(program("a = users('one', STATE)\nb = users('two', STATE)\n"))
    with pytest.raises(DataflowError, match=r"several jobs \(a, b\)"):
        find_job(module, None)
    assert find_job(module, "b").name == "two"
    with pytest.raises(DataflowError, match=r"there is no 'c', not a job; there are: a, b"):
        find_job(module, "c")
    with pytest.raises(DataflowError, match="'CROWD' is Crowd, not a job"):
        find_job(module, "CROWD")


def test_a_file_without_a_job(program):
    with pytest.raises(DataflowError, match=r"assign one to a variable, such as job = rc\.Job"):
        find_job(load(program("")), None)


@pytest.mark.parametrize(
    "text", ["running = {}.start({})", "job = {}\nrunning = job.start({})"], ids=["at once", "then"]
)
def test_a_file_that_starts_its_job_itself(program, text):
    more = text.format(*("users('one', STATE, rows=10)", "in_process=InProcess()"))
    module = load(program(f"from rechannel.job import InProcess\n{more}\n"))
    with pytest.raises(DataflowError, match=r"starts its job 'running' itself: leave \.start"):
        find_job(module, None)
    assert not module.running.is_active


def test_what_a_file_raises_is_shown_from_the_file_on(program):
    path = program("def fail():\n    return {}['key']\n\nfail()\n")
    with pytest.raises(DataflowError) as raised:
        load(path)
    text = str(raised.value)
    assert text.startswith(f"{path} cannot be imported:\n")
    assert "return {}['key']" in text
    assert "KeyError: 'key'" in text
    assert "importlib" not in text


def test_an_error_of_the_dataflow_is_shown_as_it_is(program):
    with pytest.raises(RechannelError, match="nobody"):
        load(program("rc.read().memory('a INT').key_by('nobody')\n"))


def test_a_syntax_error_is_shown(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("x = (\n")
    with pytest.raises(DataflowError, match="SyntaxError"):
        load(path)


def test_run_until_idle(program, rechannel, tmp_path):
    path = program("job = users('one', STATE, rows=950)\n")
    reaction = rechannel("run", path, "--until-idle", "--in-process", "--json")
    assert reaction.code == 0
    progress = [json.loads(line) for line in reaction.lines]
    assert [facts["timestep"] for facts in progress] == list(range(1, 11))
    assert sum(facts["rows_in"] for facts in progress) == 950
    assert "job 'one' stopped after" in reaction.err
    assert "10 timesteps, 950 rows" in reaction.err
    shown = json.loads(rechannel("state", tmp_path / "state", "users", "--json").out)
    assert sum(row["n.count"] for row in shown["rows"]) == 950
    status = json.loads(rechannel("status", tmp_path / "state", "--json").out)
    assert status["condition"] == "stopped"


def test_explain_shows_how_it_would_run_and_runs_nothing(program, rechannel, tmp_path):
    path = program("job = users('one', STATE, rows=250)\n")
    reaction = rechannel("explain", path, "--in-process")
    assert reaction.code == 0, reaction.err
    assert "Stage users: aggregate by user" in reaction.out
    assert "One timestep, in order" in reaction.out
    assert not (tmp_path / "state").exists()


def test_it_exports_to_the_global_providers(program, rechannel, monkeypatch):
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(shutdown_on_exit=False), MeterProvider([reader])
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setattr("opentelemetry.trace.get_tracer_provider", lambda: tracers)
    monkeypatch.setattr("opentelemetry.metrics.get_meter_provider", lambda: meters)
    path = program("job = users('one', STATE, rows=250)\n")
    reaction = rechannel("run", path, "--until-idle", "--in-process", "--opentelemetry")
    assert reaction.code == 0, reaction.err
    roots = [span for span in spans.get_finished_spans() if span.name == "timestep"]
    assert [span.attributes["rechannel.timestep.number"] for span in roots] == [1, 2, 3]
    (resource,) = reader.get_metrics_data().resource_metrics
    (scope,) = resource.scope_metrics
    assert "rechannel.timesteps.committed" in {metric.name for metric in scope.metrics}
    meters.shutdown()


def test_a_second_run_goes_on(program, rechannel, tmp_path):
    path = program("job = users('one', STATE, rows=300)\n")
    assert rechannel("run", path, "--until-idle", "--in-process").code == 0
    again = rechannel("run", path, "--until-idle", "--in-process", "--json")
    assert (again.code, again.out) == (0, "")
    status = json.loads(rechannel("status", tmp_path / "state", "--json").out)
    assert (status["epoch"], status["timestep"]) == (2, 3)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_gracefully(program, rechannel, tmp_path, number):
    path = program("job = users('one', STATE, rows_per_second=1000)\n")
    before = signal.getsignal(number)

    def end_it_once_it_runs():
        while not list((tmp_path / "state").glob("segments/*/*")):
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=end_it_once_it_runs, daemon=True)
    thread.start()
    reaction = rechannel("run", path, "--in-process")
    assert reaction.code == 0
    assert "stopping: finishing and publishing the timesteps in flight" in reaction.err
    assert signal.getsignal(number) is before
    status = json.loads(rechannel("status", tmp_path / "state", "--json").out)
    assert status["condition"] == "stopped"
    assert status["open"] == []


def test_a_signal_while_the_job_starts_stops_it_too(program, rechannel, tmp_path, monkeypatch):
    path = program("job = users('one', STATE, rows_per_second=1000)\n")
    start = rc.Job.start

    def interrupted(self, **given):
        os.kill(os.getpid(), signal.SIGTERM)
        return start(self, **given)

    monkeypatch.setattr(rc.Job, "start", interrupted)
    reaction = rechannel("run", path, "--in-process")
    assert reaction.code == 0
    assert "stopping: finishing and publishing the timesteps in flight" in reaction.err
    status = json.loads(rechannel("status", tmp_path / "state", "--json").out)
    assert status["condition"] == "stopped"


def test_a_stop_that_hangs_has_an_end(program, tmp_path):
    """A function that never returns keeps neither the command nor the process."""
    more = """
def hangs(batch):
    import pathlib, signal, threading, time
    while getattr(signal.getsignal(signal.SIGTERM), "__name__", "") != "on_signal":
        time.sleep(0.01)
    pathlib.Path(STATE, "begun").touch()
    threading.Event().wait()
"""
    path = program(
        more + "s = rc.read().generator(clicks, schema='user STRING', per_timestep=100)\n"
        "job = rc.Job('one', s.map_batches(hangs, schema='x INT').write.noop(), state=STATE)\n"
    )
    arguments = ["run", str(path), "--in-process", "--stop-timeout", "1ms"]
    code = f"import sys; from rechannel.cli import main; sys.argv[1:] = {arguments!r}; main()"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) as child:
        try:
            while not (tmp_path / "state" / "begun").exists():
                assert child.poll() is None
                time.sleep(0.01)
            child.send_signal(signal.SIGTERM)
            assert child.wait(60) == 2
            assert b"has not ended in 0.001 s" in child.stderr.read()
        finally:
            child.kill()


def test_a_job_whose_output_nobody_reads_any_more_is_stopped(program, rechannel, tmp_path):
    path = program("job = users('one', STATE, rows_per_second=1000)\n")
    arguments = ["run", str(path), "--in-process", "--json"]
    code = f"import sys; from rechannel.cli import main; sys.argv[1:] = {arguments!r}; main()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        try:
            assert json.loads(child.stdout.readline())["timestep"] == 1
            child.stdout.close()
            assert child.wait(60) == 141
        finally:
            child.kill()
    status = json.loads(rechannel("status", tmp_path / "state", "--json").out)
    assert (status["condition"], status["open"]) == ("stopped", [])


@pytest.mark.parametrize("options", [[], ["--until-idle"]])
def test_a_job_that_fails_says_why(program, rechannel, tmp_path, options):
    more = """
def wrong(batch):
    raise ArithmeticError("seven is right out")

stream = rc.read().generator(clicks, schema="user STRING", per_timestep=10, rows=100)
job = rc.Job("bad", stream.map_batches(wrong).key_by("user").aggregate(n=rc.aggregates.count()), state=STATE)
"""
    reaction = rechannel("run", program(more), "--in-process", *options)
    assert reaction.code == 2
    assert "error: " in reaction.err
    assert "ArithmeticError: seven is right out" in reaction.err
    status = json.loads(rechannel("status", tmp_path / "state", "--json").out)
    assert (status["condition"], status["open"]) == ("failed", [1])


@pytest.mark.parametrize(("configured", "logged"), [("", 0), ("logging.basicConfig()\n", 1)])
def test_a_failure_is_printed_once_unless_the_program_wants_a_log(program, configured, logged):
    more = f"""
import logging

{configured}
def wrong(batch):
    raise ArithmeticError("seven is right out")

stream = rc.read().generator(clicks, schema="user STRING", per_timestep=10, rows=100)
job = rc.Job("bad", stream.map_batches(wrong).key_by("user").aggregate(n=rc.aggregates.count()), state=STATE)
"""
    arguments = ["run", str(program(more)), "--in-process"]
    code = f"import sys; from rechannel.cli import main; sys.argv[1:] = {arguments!r}; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("has failed: ") == logged
    assert done.stderr.count("error: operator ") == 1


def test_a_directory_in_use_is_refused_unless_it_is_taken_over(program, rechannel):
    path = program("job = users('one', STATE, rows_per_second=100)\n")
    from rechannel.job import InProcess

    first = find_job(load(path), None).start(in_process=InProcess())
    refused = rechannel("run", path, "--in-process", "--until-idle")
    assert refused.code == 2
    assert "the state directory is in use" in refused.err
    finite = program("job = users('one', STATE, rows=100)\n", "other.py")
    taken = rechannel("run", finite, "--in-process", "--until-idle", "--takeover")
    assert taken.code == 0
    with pytest.raises(RechannelError):
        first.stop(60)


SMALL = """
import pyarrow as pa
import rechannel as rc

def numbers(start, stop):
    return pa.record_batch({{"n": range(start, stop)}})

def small(batch):
    if batch.num_rows > 10:
        raise MemoryError
    return batch

source = rc.read().generator(numbers, schema="n bigint", rows=40, per_timestep={per}, name="in")
fits = source.map_batches(small, schema="n bigint", name="fits")
sums = fits.key_by("n").aggregate(c=rc.aggregates.count(), name="sums")
job = rc.Job("small", sums, state="{state}", settings=rc.Settings(tasks=1))
"""


def test_a_timestep_that_is_too_large_is_planned_anew(tmp_path, rechannel):
    path, state = tmp_path / "small.py", tmp_path / "small-state"
    path.write_text(SMALL.format(per=40, state=state))
    assert rechannel("run", path, "--in-process", "--until-idle").code == 2
    path.write_text(SMALL.format(per=10, state=state))
    assert rechannel("run", path, "--in-process", "--until-idle").code == 2
    assert rechannel("run", path, "--in-process", "--until-idle", "--replan").code == 0
    assert json.loads(rechannel("status", state, "--json").out)["timestep"] == 4


def test_functions_of_a_program_reach_spark_workers(program, rechannel, spark, tmp_path):
    """Workers have never heard of the file: its functions travel by value."""
    del spark
    path = program("job = users('one', STATE, rows=200)\n", "unheard-of.py")
    text = path.read_text().replace("neighbour.turn(n)", "n").replace("import neighbour\n", "")
    path.write_text(text)
    reaction = rechannel("run", path, "--until-idle")
    assert reaction.code == 0, reaction.err
    shown = json.loads(rechannel("state", tmp_path / "state", "users", "--json").out)
    assert sorted(row["n.count"] for row in shown["rows"]) == [66, 67, 67]


class FakeJob:
    name = "fake"

    def __init__(self):
        self.recent_progress = []

    def commit(self, timestep: int, rows: int) -> None:
        operator = OperatorProgress(
            tasks=2,
            rows_in=rows,
            rows_out=1,
            rows_late=0,
            rows_dead=0,
            bytes_in=0,
            bytes_out=0,
            keys=1,
            ms={"wait": 100.0, "process": 7.0},
            slowest_task=None,
            finished_ms=None,
            state_rows=3,
            state_bytes=2048,
        )
        made = TimestepProgress(
            timestep=timestep,
            now_ms=0,
            started_ms=0,
            committed_ms=12,
            duration_ms=12.3,
            configuration=1,
            phases={},
            rows_in=rows,
            rows_out=1,
            input_rows_per_second=None,
            processed_rows_per_second=81.3,
            output_rows_per_second=None,
            operators={"counts": operator},
            sources={},
            sinks={},
            failures=0,
            troubles={},
        )
        self.recent_progress = [*self.recent_progress, made][-2:]


def printed(*, terminal: bool, looks: int, seconds: float = 6.0) -> str:
    console = Console(record=True, force_terminal=terminal, width=100, file=io.StringIO())
    now = [0.0]
    job = FakeJob()
    with Watcher(json=False, console=console, clock=lambda: now[0]) as watcher:
        for number in range(looks):
            job.commit(number + 1, 10)
            now[0] += seconds
            watcher.look(job)
            watcher.look(job)
    assert (watcher.timesteps, watcher.rows) == (looks, 10 * looks)
    return console.export_text()


def test_without_a_terminal_a_line_comes_now_and_then():
    lines = printed(terminal=False, looks=5).splitlines()
    assert lines == [
        "    12 s  fake: 2 timesteps, 20 rows",
        "    24 s  fake: 4 timesteps, 40 rows",
    ]


def test_timesteps_that_were_not_seen_are_counted():
    console = Console(record=True, width=100, file=io.StringIO())
    job = FakeJob()
    with Watcher(json=False, console=console) as watcher:
        for last in (1, 6, 7):
            while not job.recent_progress or job.recent_progress[-1].timestep < last:
                job.commit(job.recent_progress[-1].timestep + 1 if job.recent_progress else 1, 10)
            watcher.look(job)
    assert (watcher.timesteps, watcher.missed, watcher.rows) == (4, 3, 40)
    assert "fake: 3 timesteps were too fast to be shown" in console.export_text()


def test_on_a_terminal_a_table_changes():
    text = printed(terminal=True, looks=3)
    assert "fake  timestep 3  12 ms  81 rows/s  in all 30 rows in 18 s" in text
    assert "counts        2       10         1     1  7 ms           3  2.0 KiB" in text


def test_a_job_is_served_while_it_runs(program, rechannel, tmp_path, monkeypatch):
    monkeypatch.setenv("RECHANNEL_TOKEN", "s3cret")
    path = program("job = users('one', STATE, rows_per_second=1000)\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    seen = {}

    def ask_it_then_end_it():
        bearer = {"Authorization": "Bearer s3cret"}
        while not seen:
            try:
                answer = httpx.get(f"http://{address}/status", headers=bearer, trust_env=False)
                seen.update(answer.json())
            except httpx.HTTPError:
                time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=ask_it_then_end_it, daemon=True)
    thread.start()
    reaction = rechannel("run", path, "--in-process", "--serve", address)
    thread.join(60)
    assert reaction.code == 0, reaction.err
    assert f"serving it at http://{address}" in reaction.err
    assert (seen["name"], seen["active"]) == ("one", True)


def test_clients_of_a_job_that_ends_by_itself_learn_it(program, rechannel, monkeypatch):
    monkeypatch.setenv("RECHANNEL_TOKEN", "s3cret")
    path = program("job = users('one', STATE, rows=15_000)\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    told = []

    def ask_until_it_ends():
        bearer = {"Authorization": "Bearer s3cret"}
        while not told or told[-1] == 200:
            with contextlib.suppress(httpx.ConnectError):
                answer = httpx.get(f"http://{address}/status", headers=bearer, trust_env=False)
                told.append(answer.status_code)
            if told and told[-1] == 200 and not answer.json()["active"]:
                return
            time.sleep(0.01)

    thread = threading.Thread(target=ask_until_it_ends, daemon=True)
    thread.start()
    reaction = rechannel("run", path, "--in-process", "--until-idle", "--serve", address)
    assert reaction.code == 0, reaction.err
    thread.join(1)
    assert not thread.is_alive()
    assert told[-1] in {200, 410}


@pytest.mark.parametrize("standby", [True, False])
@pytest.mark.parametrize("address", ["nowhere", "192.0.2.1:0"])
def test_a_job_that_cannot_be_served_is_not_started_or_stopped(
    program, rechannel, tmp_path, address, standby
):
    path = program("job = users('one', STATE, rows_per_second=1000)\n")
    more = ["--standby"] if standby else []
    reaction = rechannel("run", path, "--in-process", "--serve", address, *more)
    assert (reaction.code, "error: " in reaction.err) == (2, True)
    if standby:
        status = json.loads(rechannel("status", tmp_path / "state", "--json").out)
        assert status["condition"] == "stopped"
    else:
        assert not (tmp_path / "state" / "journal").exists()


def test_controllers_of_allowed_modules_come_back(program, rechannel, tmp_path, monkeypatch):
    shop_control(tmp_path / "path", monkeypatch)
    path = program("job = users('one', STATE, rows=300)\n")
    running = find_job(load(path), None).start(in_process=rc.InProcess())
    wanted = Wanted(path="shop.control:Grow", parameters={"operator": "users", "most": 1})
    running.control(wanted.made(Allowed(modules=("shop.control",)).controller))
    running.stop()
    seen = []

    def stop(job, *arguments):
        seen.append(job.controllers["grow"].status.absent)
        stopped(job, *arguments)

    stopped = RunningJob.stop
    monkeypatch.setattr(RunningJob, "stop", stop)
    for allowed in ((), ("--allow", "shop.control"), ("--allow", "shop.control:Grow")):
        reaction = rechannel("run", path, "--in-process", "--until-idle", *allowed)
        assert reaction.code == (2 if "shop.control:Grow" in allowed else 0), reaction.err
    assert ["rechannel run --allow" in str(absent) for absent in seen] == [True, False]
    assert seen[1] is None
